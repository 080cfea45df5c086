// SPDX-License-Identifier: BSD-2-Clause
// Methods whose calls are known, of every shape that a rewriter has to get right.

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;

public class JavaShapes {
    static Object kept;
    static long sum;

    static class Base {
        Base(int x) {
            if (x == 3) {
                throw new IllegalStateException("in the constructor that was called");
            }
        }
    }

    static class Derived extends Base {
        final int y;

        Derived(int x) {
            super(checked(new int[] {x, x > 1 ? 1 : 2}));
            y = x;
            after();
        }

        Derived(String text) {
            this(Integer.parseInt(text));
        }

        void after() {
            if (y == 5) {
                throw new IllegalArgumentException("behind it");
            }
        }
    }

    static int checked(int[] x) {
        if (x[0] == 4) {
            throw new RuntimeException("before it");
        }
        return x[0];
    }

    static void caught() {
        sum++;
    }

    static synchronized int locked(int n) {
        if (n % 7 == 0) {
            throw new RuntimeException();
        }
        return n;
    }

    static int recursive(int n) {
        return n == 0 ? 0 : 1 + recursive(n - 1);
    }

    static double switches(int n, String s) {
        switch (n) {
            case 0: return 1.5;
            case 1: return 2;
            case 2: return 3;
            case 1000: return 4;
            default: break;
        }
        switch (s) {
            case "a": return 5;
            case "b": return 6;
            default: return s.length();
        }
    }

    static int finals(int n) {
        while (true) {
            try {
                if (n == 2) {
                    throw new Exception();
                }
                return n;
            } catch (Exception e) {
                caught();
                return -1;
            } finally {
                sum += 2;
            }
        }
    }

    // The first instruction is the target of a branch.
    static void loop() {
        for (;;) {
            if (sum++ % 10 == 9) {
                return;
            }
        }
    }

    static int task(int n) {
        int all = 0;

        for (int i = 0; i < n; i++) {
            all += leaf(i);
        }
        return all;
    }

    static int leaf(int i) {
        return i ^ 5;
    }

    static void spin(long ns) {
        long end = System.nanoTime() + ns;

        while (System.nanoTime() < end) {
            sum |= 1;
        }
    }

    static void allocate() {
        for (int i = 0; i < 2000; i++) {
            kept = new byte[100_000];
        }
    }

    static int overflow(int n) {
        return overflow(n + 1) + 1;
    }

    static void shapes() {
        for (int i = 0; i < 10; i++) {
            try {
                kept = i % 2 == 0 ? new Derived(i) : new Derived("" + i);
            } catch (RuntimeException e) {
                caught();
            }
        }
        for (int i = 0; i < 70; i++) {
            try {
                sum += locked(i);
            } catch (RuntimeException e) {
                sum++;
            }
        }
        for (int i = 0; i < 5; i++) {
            sum += (long) switches(i, i == 3 ? "a" : "cc") + finals(i);
        }
        recursive(100);
        loop();
    }

    static void threads() throws Exception {
        ExecutorService pool = Executors.newFixedThreadPool(4);
        List<Future<Integer>> results = new ArrayList<>();

        for (int i = 0; i < 100; i++) {
            final int n = i;
            results.add(pool.submit(() -> task(n)));
        }
        for (Future<Integer> result : results) {
            sum += result.get();
        }
        pool.shutdown();
        pool.awaitTermination(60, TimeUnit.SECONDS);
        Thread named = new Thread(() -> task(1000), "a thread with a long name");
        named.start();
        named.join();
    }

    public static void main(String[] arguments) throws Exception {
        switch (arguments[0]) {
            case "shapes": shapes(); break;
            case "threads": threads(); break;
            case "spin": spin(50_000_000); break;
            case "allocate": allocate(); System.gc(); break;
            case "overflow":
                try {
                    overflow(0);
                } catch (StackOverflowError e) {
                    caught();
                }
                leaf(1);
                break;
            case "forever":
                System.out.println("runs");
                while (System.in.available() == 0) {
                    task(10);
                    Thread.sleep(1);
                }
                break;
            case "exit": task(7); System.exit(7);
            case "throw": throw new RuntimeException("out of main");
            default: throw new IllegalArgumentException(arguments[0]);
        }
        System.out.println(sum);
    }
}
