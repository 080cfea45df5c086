// SPDX-License-Identifier: BSD-2-Clause
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;

/** Threads with compiled code, faults that become exceptions, and collections of garbage. */
public class Attach {
	static long work(long x) {
		Map<Long, Long> counts = new HashMap<>();

		for (int round = 0; round < 250; round++) {
			for (int i = 0; i < 20000; i++) {
				x = x * 6364136223846793005L + 1442695040888963407L;
				counts.merge(x >>> 54, 1L, Long::sum);
			}
			try {
				Object none = round % 3 == 0 ? null : counts;

				none.hashCode();
			} catch (NullPointerException exception) {
				x++;
			}
			if (round % 100 == 0)
				System.gc();
		}
		return x + counts.size();
	}

	public static void main(String[] arguments) throws Exception {
		ExecutorService executor = Executors.newFixedThreadPool(4);
		List<Future<Long>> results = new ArrayList<>();

		for (int i = 0; i < 8; i++) {
			long seed = i;

			results.add(executor.submit(() -> work(seed)));
		}
		for (Future<Long> result : results)
			System.out.println(result.get());
		executor.shutdown();
	}
}
