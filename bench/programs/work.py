# SPDX-License-Identifier: BSD-2-Clause
"""CPU-bound Python: recursion, dictionaries, strings. The argument is the number of turns."""

import sys


def ackermann(m, n):
    if m == 0:
        return n + 1
    if n == 0:
        return ackermann(m - 1, 1)
    return ackermann(m - 1, ackermann(m, n - 1))


def fibonacci(n):
    return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)


def count_words(seed, length):
    counts = {}
    for _ in range(length):
        seed = (seed * 1103515245 + 12345) % 2147483648
        word = "w" + str(seed >> 18)
        counts[word] = counts.get(word, 0) + 1
    return counts


def join_words(counts):
    lines = [f"{word}={count:04d}" for word, count in sorted(counts.items())]
    return " ".join(lines).upper().replace("=", ":").split(" ")


def main():
    total = 0
    for turn in range(int(sys.argv[1])):
        total += fibonacci(21) + ackermann(2, 60)
        total += len(join_words(count_words(turn, 20000)))
    print(total)


sys.setrecursionlimit(5000)
main()
