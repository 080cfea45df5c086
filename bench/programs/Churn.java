// SPDX-License-Identifier: BSD-2-Clause
// 64 threads that generate code all the time: each round defines the class Work anew, runs it until it is compiled, and
// forgets it. Each round also runs into null pointers, which the JVM finds by signals. Every result is checked.

import java.io.InputStream;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.LongUnaryOperator;

public class Churn {
    static final int THREADS = 64;
    static final int STEPS = 30_000;
    static final AtomicLong rounds = new AtomicLong(), wrong = new AtomicLong(), nulls = new AtomicLong();

    public static class Work implements LongUnaryOperator {
        int[] nothing;

        public long applyAsLong(long seed) {
            long value = seed;
            for (int i = 0; i < STEPS; i++) {
                value = value * 6364136223846793005L + 1442695040888963407L;
                if ((value & 0xfff) == 0)
                    value ^= fault(i);
            }
            return value;
        }

        long fault(int i) {
            try {
                return nothing[i];
            } catch (NullPointerException expected) {
                return i;
            }
        }
    }

    static class Fresh extends ClassLoader {
        Class<?> define(byte[] code) {
            return defineClass("Churn$Work", code, 0, code.length);
        }

        protected Class<?> loadClass(String name, boolean resolve) throws ClassNotFoundException {
            return super.loadClass(name, resolve);
        }
    }

    static void run(byte[] code, long seed, long expected, long end) {
        try {
            while (System.nanoTime() < end) {
                LongUnaryOperator work = (LongUnaryOperator) new Fresh().define(code).getDeclaredConstructor().newInstance();
                for (int i = 0; i < 20; i++)
                    if (work.applyAsLong(seed) != expected)
                        wrong.incrementAndGet();
                rounds.incrementAndGet();
            }
        } catch (Throwable problem) {
            problem.printStackTrace();
            wrong.incrementAndGet();
        }
    }

    public static void main(String[] arguments) throws Exception {
        long end = System.nanoTime() + Long.parseLong(arguments[0]) * 1_000_000_000L;
        byte[] code;
        Thread[] threads = new Thread[THREADS];

        try (InputStream stream = Churn.class.getResourceAsStream("Churn$Work.class")) {
            code = stream.readAllBytes();
        }
        for (int i = 0; i < THREADS; i++) {
            long seed = i + 1, expected = new Work().applyAsLong(seed);
            threads[i] = new Thread(() -> run(code, seed, expected, end));
        }
        for (Thread thread : threads)
            thread.start();
        for (Thread thread : threads)
            thread.join();
        System.err.println(rounds.get() + " rounds");
        System.out.println(wrong.get() + " wrong");
    }
}
