// SPDX-License-Identifier: BSD-2-Clause
// fib(N) does nothing but call itself. Prints the nanoseconds on a processor for each call, once it is compiled.

import java.lang.management.ManagementFactory;

public class JavaFib {
    static int fib(int n) {
        return n < 2 ? n : fib(n - 1) + fib(n - 2);
    }

    static long calls(int n) {
        long before = 1, last = 1;

        for (int i = 2; i <= n; i++) {
            long next = before + last + 1;
            before = last;
            last = next;
        }
        return last;
    }

    public static void main(String[] arguments) {
        int n = Integer.parseInt(arguments[0]);
        long begin;

        for (int i = 0; i < 30; i++) {
            fib(n - 12);
        }
        begin = ManagementFactory.getThreadMXBean().getCurrentThreadCpuTime();
        fib(n);
        begin = ManagementFactory.getThreadMXBean().getCurrentThreadCpuTime() - begin;
        System.err.println("ns per call: " + (double) begin / calls(n));
    }
}
