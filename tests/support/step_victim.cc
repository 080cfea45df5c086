// SPDX-License-Identifier: BSD-2-Clause
// A C++ program to be stepped through: containers, virtual calls, exceptions, 128-bit arithmetic, bit tricks.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <vector>

namespace
{
struct shape {
	virtual ~shape() = default;
	virtual uint64_t area(uint64_t n) const = 0;
};

struct square : shape {
	uint64_t area(uint64_t n) const override
	{
		return n * n;
	}
};

struct wide : shape {
	uint64_t area(uint64_t n) const override
	{
		unsigned __int128 x = (unsigned __int128)n * 0x9e3779b97f4a7c15ull + n;

		return (uint64_t)(x / (n | 1)) ^ (uint64_t)(x >> 61) ^ (uint64_t)__builtin_popcountll(n);
	}
};

uint64_t thrown(uint64_t n)
{
	try {
		if (n % 3 == 0)
			throw std::runtime_error(std::to_string(n));
		return std::stoull(std::to_string(n * 31));
	} catch (const std::exception &e) {
		return __builtin_bswap64(n) + std::string(e.what()).size();
	}
}
} // namespace

int main()
{
	std::vector<std::unique_ptr<shape>> shapes;
	std::unordered_map<std::string, uint64_t> counts;
	std::map<int64_t, std::string> names;
	std::vector<uint32_t> order;
	uint64_t sum = 0;

	shapes.emplace_back(new square);
	shapes.emplace_back(new wide);
	for (uint64_t i = 1; i < 60000; i++) {
		sum += shapes[i & 1]->area(i * 2654435761u) + thrown(i);
		counts[std::to_string(sum % 500)]++;
		names[(int64_t)(sum << 7) >> 9] = "n" + std::to_string(i);
		if (names.size() > 300)
			names.erase(names.begin());
		order.push_back((uint32_t)(sum >> (i & 31)));
		if (order.size() == 512) {
			std::sort(order.begin(), order.end());
			sum ^= order[100];
			order.clear();
		}
	}
	std::printf("%llu %zu\n", (unsigned long long)sum, counts.size());
	return 0;
}
