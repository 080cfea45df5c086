// SPDX-License-Identifier: BSD-2-Clause
// What a virtual machine does, by name: compiled loops, garbage, locks, faults that become exceptions, deep stacks, code unloaded.
import java.util.*;
import java.util.concurrent.*;
import java.util.concurrent.atomic.*;
import java.util.stream.*;

public class Things {
	static class Node {
		Node next;
		int value;
	}

	static int fibonacci(int n) {
		return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2);
	}

	static int deep(int n) {
		return 1 + deep(n + 1);
	}

	static void loops() {
		long sum = fibonacci(27);
		double[] all = new double[20000];
		for (int r = 0; r < 200; r++)
			for (int i = 0; i < all.length; i++)
				all[i] = all[i] * 0.5 + i % 7;
		System.out.println(sum + " " + Arrays.stream(all).sum());
	}

	static void garbage() {
		Map<Integer, List<int[]>> kept = new HashMap<>();
		for (int i = 0; i < 400000; i++) {
			List<int[]> list = kept.computeIfAbsent(i % 1000, k -> new ArrayList<>());
			list.add(new int[20 + i % 13]);
			if (list.size() > 20)
				list.clear();
		}
		Node head = null;
		for (int i = 0; i < 500000; i++) {
			Node node = new Node();
			node.next = i % 2000 == 0 ? null : head;
			node.value = i;
			head = node;
		}
		System.gc();
		System.out.println(kept.size() + " " + head.value);
	}

	static void locks() throws Exception {
		ExecutorService pool = Executors.newFixedThreadPool(8);
		Object lock = new Object();
		int[] plain = new int[1];
		AtomicLong atomic = new AtomicLong();
		List<Future<Integer>> results = new ArrayList<>();
		for (int t = 0; t < 16; t++) {
			final int mine = t;
			results.add(pool.submit(() -> {
				for (int i = 0; i < 5000; i++) {
					synchronized (lock) {
						plain[0]++;
					}
					atomic.addAndGet(i ^ mine);
				}
				return mine * mine;
			}));
		}
		int sum = 0;
		for (Future<Integer> result : results)
			sum += result.get();
		pool.shutdown();
		System.out.println(plain[0] + " " + atomic.get() + " " + sum + " "
			+ IntStream.range(0, 100000).parallel().mapToLong(i -> i % 7).sum());
	}

	static void faults() {
		Node nothing = null;
		int[] few = new int[2];
		int zero = fibonacci(0), caught = 0;
		for (int i = 0; i < 20000; i++) {
			try {
				if (i % 3 == 0)
					caught += nothing.value;
				else if (i % 3 == 1)
					caught += 5 / zero;
				else
					caught += few[i];
			} catch (NullPointerException e) {
				caught += 1;
			} catch (ArithmeticException e) {
				caught += 100;
			} catch (ArrayIndexOutOfBoundsException e) {
				caught += 10000;
			}
		}
		try {
			deep(0);
		} catch (StackOverflowError e) {
			System.out.println("deep");
		}
		System.out.println(caught);
	}

	public static void main(String[] arguments) throws Exception {
		switch (arguments[0]) {
		case "loops":
			loops();
			break;
		case "garbage":
			garbage();
			break;
		case "locks":
			locks();
			break;
		default:
			faults();
			System.exit(7);
		}
	}
}
