// SPDX-License-Identifier: BSD-2-Clause
// Exceptions, containers, threads, atomics, strings, locale, coroutine-free.
#include <algorithm>
#include <atomic>
#include <future>
#include <iostream>
#include <map>
#include <memory>
#include <regex>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

struct Noisy {
	explicit Noisy(int number) : number(number)
	{
	}
	~Noisy()
	{
		std::cout << "gone " << number << '\n';
	}
	int number;
};

static int throwing(int depth)
{
	Noisy noisy(depth);

	if (!depth)
		throw std::out_of_range("bottom");
	return throwing(depth - 1) + noisy.number;
}

int main()
{
	std::map<std::string, int> counts;
	std::vector<std::thread> threads;
	std::atomic<int> sum{ 0 };
	std::ostringstream text;

	for (int i = 0; i < 20000; i++)
		counts["k" + std::to_string(i % 97)] += i;
	for (int i = 0; i < 6; i++)
		threads.emplace_back([&sum, i] {
			for (int j = 0; j < 10000; j++)
				sum += i ^ j;
		});
	for (auto &thread : threads)
		thread.join();
	try {
		throwing(4);
	} catch (const std::exception &error) {
		text << error.what() << ' ';
	}
	auto later = std::async(std::launch::async, []() -> int { throw 5; });
	try {
		later.get();
	} catch (int value) {
		text << value << ' ';
	}
	text << std::regex_replace(std::string("a1b22c"), std::regex("[0-9]+"), "<$&>");
	std::cout << counts["k5"] << ' ' << sum << ' ' << text.str() << std::endl;
	throw std::runtime_error("end");
}
