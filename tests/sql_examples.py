#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
# Serves: S1.
"""Checks docs/profile-format.md against a real profile: tests/sql_examples.py MAKE_PROFILE DOCUMENT

Every ```sql block is given to sqlite3 and every ```sh block to a shell, beside a profile that MAKE_PROFILE writes;
each must print something and nothing on stderr. Every table and view must have its section, with a row for each of
its columns, and nothing else.
"""

import os
import re
import sqlite3
import subprocess
import sys
import tempfile

EXAMPLES_MIN = 8


def blocks(text, language):
    return re.findall(rf"(?ms)^```{language}\n(.*?)^```$", text)


def run(command, folder, what):
    """One problem, or none."""
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if done.returncode != 0 or done.stderr:
        return [f"failed: {what}\n{done.stderr}"]
    if not done.stdout.strip() or not re.search(r"[1-9]", done.stdout):
        return [f"printed nothing of interest: {what}\n{done.stdout}"]
    return []


def examples_check(text, folder):
    problems = []
    queries = blocks(text, "sql")
    if len(queries) < EXAMPLES_MIN:
        problems.append(f"only {len(queries)} examples, at least {EXAMPLES_MIN}")
    for query in queries:
        problems += run(["sqlite3", "assay.db", query], folder, query)
    for script in blocks(text, "sh"):
        problems += run(["sh", "-ec", script], folder, script)
    return problems


def documented(text):
    """Name to columns, of each section whose heading is a name; the first table of the section counts."""
    sections = {}
    for name, body in re.findall(r"(?ms)^### `(\w+)`\n(.*?)(?=^##|\Z)", text):
        table = re.search(r"(?m)^\| column \|.*\n\|[-|]+\n((?:\|.*\n)*)", body)
        sections[name] = re.findall(r"(?m)^\| `(\w+)` \|", table.group(1)) if table else []
    return sections


def layout_check(text, folder):
    database = sqlite3.connect(os.path.join(folder, "assay.db"))
    names = [name for name, in database.execute("select name from sqlite_schema where type in ('table', 'view')")]
    sections = documented(text)
    problems = [f"{name} is documented but does not exist" for name in sections if name not in names]
    for name in names:
        columns = [row[1] for row in database.execute(f"pragma table_info({name})")]
        if name not in sections:
            problems.append(f"{name} has no section")
        elif sections[name] != columns:
            problems.append(f"{name} has the columns {columns}, documented are {sections[name]}")
    return problems


def main():
    make_profile, document = sys.argv[1:]
    with open(document, encoding="utf-8") as stream:
        text = stream.read()
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([os.path.abspath(make_profile), "-o", "assay.db", "--seconds", "20", "--stacks", "3000",
                        "--values", "2000"], cwd=folder, check=True)
        left = sorted(os.listdir(folder))
        problems = [] if left == ["assay.db"] else [f"make_profile left {left}"]
        problems += examples_check(text, folder) + layout_check(text, folder)
    for problem in problems:
        print(problem)
    print(f"{len(blocks(text, 'sql'))} examples, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
