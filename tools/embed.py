#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Turns a text file into a C string: tools/embed.py NAME INPUT OUTPUT makes OUTPUT define `const char NAME[]`."""

import sys


# Two question marks would begin a trigraph.
ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\t": "\\t", "\n": "\\n", "?": "\\?"})


def c_line(line):
    escaped = line.translate(ESCAPES)
    return f'\t"{escaped}"'


def main():
    name, source, target = sys.argv[1:]
    with open(source, encoding="utf-8") as stream:
        lines = [c_line(line) for line in stream]
    with open(target, "w", encoding="utf-8") as stream:
        stream.write(f"extern const char {name}[];\nconst char {name}[] =\n" + "\n".join(lines) + ";\n")


if __name__ == "__main__":
    main()
