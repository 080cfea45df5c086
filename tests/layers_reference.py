# SPDX-License-Identifier: BSD-2-Clause
"""What paths, strata and stratum layers are, in as few lines as possible: the oracle for src/paths/layer.c.

    lines = report(symbols, levels, max_cycle)

A cycle ends before the first symbol that it already holds, or when it has max_cycle symbols. Equal consecutive
cycles are one repeated cycle, the pair (cycle, trips): a symbol of the next level. Cycles are numbered from 1
in order of their first end.
"""


def cycles(symbols, max_cycle):
    cycle = {}
    for symbol in symbols:
        if symbol in cycle or len(cycle) == max_cycle:
            yield tuple(cycle)
            cycle = {}
        cycle[symbol] = True
    if cycle:
        yield tuple(cycle)


def repeats(sequence, numbers):
    last, trips = None, 0
    for cycle in sequence:
        number = numbers.setdefault(cycle, len(numbers) + 1)
        if last is not None and number != last:
            yield last, trips
            trips = 0
        last, trips = number, trips + 1
    if last is not None:
        yield last, trips


def report(symbols, levels, max_cycle):
    """A line for each level, then one for each of its cycles: trips, how often repeated, symbols."""
    lines = []
    for level in range(levels):
        numbers, trips, times = {}, {}, {}
        count = len(symbols)
        symbols = list(repeats(cycles(symbols, max_cycle), numbers))
        for number, n in symbols:
            trips[number] = trips.get(number, 0) + n
            times[number] = times.get(number, 0) + 1
        lines.append(f"level {level} symbols {count} cycles {sum(trips.values())} "
                     f"repeats {len(symbols)} distinct {len(numbers)}")
        for cycle, number in numbers.items():
            text = " ".join(str(s) if level == 0 else f"{s[0]}x{s[1]}" for s in cycle)
            lines.append(f"{level}.{number} {trips[number]} {times[number]}: {text}")
    return lines
