// SPDX-License-Identifier: BSD-2-Clause
// Exceptions: through frames, libraries, threads, destructors, and out of main.
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <future>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

struct Tracer {
	int number;
	~Tracer()
	{
		if (number >= 1000 && number % 1000 == 0)
			std::printf("unwound %d\n", number);
	}
};

static int down(int depth)
{
	Tracer tracer{ depth };
	if (!depth)
		throw std::runtime_error("bottom");
	return down(depth - 1) + 1;
}

static void rethrow()
{
	try {
		down(5);
	} catch (...) {
		std::throw_with_nested(std::logic_error("outer"));
	}
}

int main(int argc, char **)
{
	long caught = 0;
	for (int i = 0; i < 3000; i++)
		try {
			down(i % 20 + 1);
		} catch (const std::exception &) {
			caught++;
		}
	std::printf("%ld\n", caught);
	try {
		down(3000);
	} catch (const std::exception &error) {
		std::printf("%s\n", error.what());
	}
	try {
		rethrow();
	} catch (const std::exception &error) {
		try {
			std::rethrow_if_nested(error);
		} catch (const std::exception &inner) {
			std::printf("%s in %s\n", inner.what(), error.what());
		}
	}
	std::vector<std::future<int>> results;
	for (int i = 0; i < 8; i++)
		results.push_back(std::async(std::launch::async, [i] { return i % 2 ? down(i) : i; }));
	for (auto &result : results)
		try {
			std::printf("%d\n", result.get());
		} catch (const std::exception &error) {
			std::printf("thrown %s\n", error.what());
		}
	try {
		std::printf("%c\n", std::string("x").at(5));
	} catch (const std::out_of_range &) {
		std::printf("out of range\n");
	}
	try {
		std::vector<char>(1ul << 62);
	} catch (const std::bad_alloc &) {
		std::printf("no memory\n");
	}
	std::set_terminate([] {
		std::printf("terminated\n");
		std::fflush(stdout);
		std::_Exit(9);
	});
	if (argc == 1)
		throw 5;
	return 0;
}
