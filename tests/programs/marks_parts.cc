// SPDX-License-Identifier: BSD-2-Clause
// risky() throws now and then; the compiler moves the code that cleans up behind it to a part of its
// own, risky.cold, to which the unwinder jumps. Says how often risky() was called.
#include <cstdio>
#include <stdexcept>
#include <string>

static long calls;

__attribute__((noinline)) long risky(int i)
{
	std::string text = "number " + std::to_string(i);

	calls++;
	if (i % 7 == 0)
		throw std::runtime_error(text);
	return (long)text.size();
}

int main()
{
	long sum = 0;

	for (int i = 0; i < 2000; i++) {
		try {
			sum += risky(i);
		} catch (const std::exception &) {
			sum++;
		}
	}
	std::printf("risky %ld\n", calls);
	return sum == 0;
}
