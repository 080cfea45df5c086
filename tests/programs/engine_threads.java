// SPDX-License-Identifier: BSD-2-Clause
/* Threads whose code is compiled while they run. Deterministic. */
import java.util.HashMap;
import java.util.TreeMap;
import java.util.concurrent.Executors;
import java.util.stream.IntStream;

class engine_threads {
	static long mix(long seed, int count)
	{
		HashMap<Integer, Long> sums = new HashMap<>();
		long state = seed, result = 0;

		for (int i = 0; i < count; i++) {
			state = state * 6364136223846793005L + 1442695040888963407L;
			sums.merge((int)(state >>> 54), state, (a, b) -> a ^ b);
		}
		for (var entry : new TreeMap<>(sums).entrySet())
			result = result * 31 + entry.getKey() + entry.getValue();
		return result;
	}

	static int fibonacci(int n)
	{
		return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2);
	}

	public static void main(String[] arguments) throws Exception
	{
		var pool = Executors.newFixedThreadPool(8);
		var results = IntStream.range(0, 16).mapToObj(i -> pool.submit(() -> mix(i, 20000))).toList();

		for (var result : results)
			System.out.println(result.get());
		pool.shutdown();
		System.out.println(fibonacci(27));
		System.out.println(IntStream.range(0, 20000).mapToObj(i -> String.format("%x", i)).toList().hashCode());
	}
}
