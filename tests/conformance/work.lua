-- SPDX-License-Identifier: BSD-2-Clause
-- Loops that get compiled, strings, closures, coroutines, calls to C.
local function sieve(n)
	local composite, count = {}, 0
	for i = 2, n do
		if not composite[i] then
			count = count + 1
			for j = i * i, n, i do composite[j] = true end
		end
	end
	return count
end
print(sieve(300000))
local x = 0.5
for _ = 1, 3000000 do x = 3.9 * x * (1 - x) end
print(string.format("%.12f", x))
local parts = {}
for i = 1, 20000 do parts[#parts + 1] = ("%d:%x"):format(i, i * 7919) end
print(#table.concat(parts), parts[777])
local c = coroutine.wrap(function() for i = 1, 1000 do coroutine.yield(i * i) end end)
local s = 0
for _ = 1, 1000 do s = s + c() end
print(s)
print((pcall(error, { code = 5 })))
print(select("#", pcall(string.rep)))
local ffi = require("ffi")
ffi.cdef("int abs(int); typedef struct { double x, y; } point; void qsort(void *, size_t, size_t, int (*)(const int *, const int *));")
local sum = 0
for i = 1, 100000 do sum = sum + ffi.C.abs(-i) end
print(sum)
local numbers = ffi.new("int[100]")
for i = 0, 99 do numbers[i] = (i * 7919) % 101 end
local compare = ffi.cast("int (*)(const int *, const int *)", function(a, b) return a[0] - b[0] end)
ffi.C.qsort(numbers, 100, 4, compare)
print(numbers[0], numbers[50], numbers[99])
