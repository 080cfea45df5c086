// SPDX-License-Identifier: BSD-2-Clause
import java.util.*;
import java.util.concurrent.*;
import java.util.concurrent.atomic.*;
import java.util.stream.*;

/** Threads, compiled code, exceptions, collections, garbage: the same answer each time. */
public class Threads {
    static long work(int seed) {
        long x = seed;
        Map<Long, Integer> seen = new HashMap<>();
        for (int i = 0; i < 60000; i++) {
            x = x * 6364136223846793005L + 1442695040888963407L;
            seen.merge(x >>> 56, 1, Integer::sum);
        }
        return x ^ seen.values().stream().mapToInt(v -> v * v).sum();
    }

    static int thrown(int n) {
        try {
            if (n % 3 == 0) throw new IllegalStateException("n" + n);
            Object o = n % 3 == 1 ? null : "x";
            return o.hashCode();
        } catch (NullPointerException e) {
            return 1000;
        } catch (IllegalStateException e) {
            return e.getMessage().length();
        }
    }

    static int depth(int n) {
        return depth(n + 1) + 1;
    }

    public static void main(String[] args) throws Exception {
        ExecutorService pool = Executors.newFixedThreadPool(6);
        List<Future<Long>> results = new ArrayList<>();
        for (int i = 0; i < 24; i++) {
            int seed = i;
            results.add(pool.submit(() -> work(seed)));
        }
        long sum = 0;
        for (Future<Long> result : results) sum += result.get();
        pool.shutdown();
        System.out.println(sum);
        int caught = 0;
        for (int i = 0; i < 30000; i++) caught += thrown(i);
        System.out.println(caught);
        try {
            depth(0);
        } catch (StackOverflowError e) {
            System.out.println("overflow");
        }
        AtomicLong total = new AtomicLong();
        IntStream.range(0, 100000).parallel().forEach(i -> total.addAndGet(i % 7));
        System.out.println(total);
        StringBuilder text = new StringBuilder();
        for (int i = 0; i < 200000; i++) if (i % 20000 == 0) text.append(new byte[1000].length + i);
        System.out.println(text);
        System.exit(7);
    }
}
