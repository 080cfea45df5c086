// SPDX-License-Identifier: BSD-2-Clause
import java.util.Scanner;

/** Calls that its input asks for, as calls_live.c has them. */
public class CallsLive {
	static volatile int sum;

	static void leaf() {
		sum++;
	}

	static void work() {
		leaf();
		leaf();
		leaf();
	}

	static void answer(String text, long number) {
		System.out.println(text + " " + number);
		System.out.flush();
	}

	public static void main(String[] arguments) {
		Scanner input = new Scanner(System.in);

		answer("ready", ProcessHandle.current().pid());
		while (input.hasNextLong()) {
			long count = input.nextLong();

			for (long i = 0; i < count; i++)
				work();
			answer("done", count);
		}
		answer("over", 1);
		System.exit(5);
	}
}
