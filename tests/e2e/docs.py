#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
# Serves: S3.
"""What the documentation says about the command line is true: commands, options, views, reasons, links.

Each command line in a page, "$ assay ..." or "# assay ..." in an indented or fenced block, is given to the
parser of the binary itself, and must not be wrong usage. Nothing is recorded: record and trace get --help after their
options, the readers run in an empty folder, where they can only fail to find the profile.
"""

import glob
import os
import re
import shlex
import subprocess
import unittest

import lib

PAGES = sorted(glob.glob(os.path.join(lib.ROOT, "docs/*.md"))) + [os.path.join(lib.ROOT, "README.md")]
ABOUT_USE = ["where-does-the-time-go", "whole-machine", "reading-the-totals", "names-and-lines", "compare-two-runs",
             "other-tools", "without-root", "which-values-flow", "take-a-running-process",
             "what-was-executed", "which-paths-repeat", "who-really-paid", "what-do-threads-wait-for",
             "how-often-is-this-executed", "see-it-in-the-browser"]
WRONG_USAGE = 2
RUNS_SOMETHING = ("record", "trace", "calls", "count", "doctor")
PUNCTUATION = {"|", "||", "&", "&&", ";", "<", ">", ">>"}


def read(*path):
    with open(os.path.join(lib.ROOT, *path), encoding="utf-8") as stream:
        return stream.read()


def simple_commands(line):
    """The words of each simple command of a shell line, without variables set before it and redirections."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars="|&;<>")
    lexer.whitespace_split = True
    command, skip = [], False
    for word in lexer:
        if word in PUNCTUATION:
            if "<" not in word and ">" not in word:
                yield command
                command = []
            skip = "<" in word or ">" in word
        elif skip:
            skip = False
        elif command or not re.match(r"\w+=", word):
            command.append(word)
    yield command


def commands(text):
    """The arguments of each assay command that a page shows at a prompt."""
    for line in re.findall(r"(?m)^(?: {4,}|\t)?[$#] (.*\bassay .*)$", re.sub(r"\\\n\s*", "", text)):
        # What a command prints is an argument like any other.
        for words in simple_commands(re.sub(r"\$\([^)]*\)", "1", line)):
            if words[:1] == ["assay"]:
                yield words[1:]


def parsed(arguments, folder):
    """Runs the parser of the binary over the arguments: (exit status, output)."""
    if arguments[0] in RUNS_SOMETHING:
        options = arguments[:arguments.index("--")] if "--" in arguments else arguments
        arguments = options + ["--help"]
    run = subprocess.run([lib.ASSAY, *arguments], cwd=folder, capture_output=True, text=True, timeout=60,
                         stdin=subprocess.DEVNULL)
    return run.returncode, run.stdout + run.stderr


def listed(text):
    """What a help lists without dashes: commands, views, formats."""
    return re.findall(r"(?m)^  ([a-z]\w+) {2,}\S", text)


def section(text, heading):
    """A page from the heading on, up to the next one of its kind."""
    mark = heading.split()[0]
    return heading + text.split(heading, 1)[1].split(f"\n{mark} ", 1)[0]


def names_of(header, listing, folder="src/wire"):
    """The JSON names in an X-macro list."""
    block = re.search(rf"(?ms)^#define {listing}\(X\)(.*?[^\\])$", read(folder, header)).group(1)
    return re.findall(r'X\(\w+,\s*"(\w+)"', block)


class Docs(unittest.TestCase):
    def setUp(self):
        self.folder = lib.scratch("empty")
        os.makedirs(self.folder, exist_ok=True)

    def wrong(self, arguments):
        """What is wrong with a command, or None."""
        code, output = parsed(arguments, self.folder)
        if arguments[0] in RUNS_SOMETHING:
            return None if code == 0 else output
        absent = "does not exist" if "--live" in arguments else "no such profile"
        return None if code == 1 and absent in output else output or f"exit status {code}"

    def test_commands(self):
        for page in PAGES:
            with self.subTest(page=os.path.basename(page)):
                for arguments in commands(read(page)):
                    self.assertIsNone(self.wrong(arguments), arguments)

    def test_check_has_teeth(self):
        """What the test above must refuse."""
        for line in ("assay recrod -- true", "assay record --frequency 9 -- true", "assay report heap",
                     "assay report --module", "assay report --limit many", "assay diff a.db",
                     "assay export svg", "assay annotate", "assay doctor --fix"):
            found = list(commands(f"    $ {line}\n"))
            self.assertEqual(len(found), 1, line)
            self.assertIsNotNone(self.wrong(found[0]), line)

    def test_commands_are_found(self):
        text = "    $ X=1 assay record -p $(pidof a b) -- sh -c 'x; y' < in > log\n" \
               "    # assay report --json | jq '.a | .b' && assay doctor\n  text: $ assay no\nassay none\n"
        self.assertEqual(list(commands(text)), [["record", "-p", "1", "--", "sh", "-c", "x; y"],
                                                ["report", "--json"], ["doctor"]])

    def test_pages_are_about_use(self):
        for name in ABOUT_USE:
            text = read("docs", name + ".md")
            self.assertGreaterEqual(len(list(commands(text))), 3, name)
            self.assertIn(f"({name}.md)", read("docs/README.md"))

    def test_every_command_is_listed(self):
        """In the tables for those who look for what there is; with a manual of its own, which the main one names."""
        _, text = parsed(["help"], self.folder)
        readme, pages, manual = read("README.md"), read("docs/README.md"), read("docs/man/assay.1")
        names = listed(text)
        self.assertGreater(len(names), 12)
        for name in names:
            with self.subTest(command=name):
                self.assertIn(f"`assay {name}", section(readme, "## Commands"))
                self.assertIn(f"`{name}`", pages)
                self.assertIn(f".It Cm {name}\n", manual)
                self.assertIn(f".Xr assay-{name} 1", section(manual, ".Sh SEE ALSO"))
                self.assertTrue(os.path.exists(os.path.join(lib.ROOT, f"docs/man/assay-{name}.1")))

    def test_every_view_and_format_is_listed(self):
        table = section(read("README.md"), "## Commands")
        for command, least in (("report", 25), ("export", 8)):
            _, text = parsed([command, "--help"], self.folder)
            manual = read(f"docs/man/assay-{command}.1")
            self.assertGreater(len(listed(text)), least)
            for name in listed(text):
                with self.subTest(command=command, name=name):
                    self.assertIn(f"`{name}`", table)
                    self.assertRegex(manual, rf"(?m)^\.It Cm (\w+ , )*{name}\b")

    def test_reasons_are_explained(self):
        text = read("docs/reading-the-totals.md")
        names = names_of("sample.h", "LOSS_REASONS") + names_of("unwind.h", "STACK_ENDS")
        names += names_of("engine_source.h", "SEGMENT_LOSSES", "src/recorder/engine")
        names += names_of("mark_memory.h", "MARK_LOSSES", "src/recorder/engine")
        self.assertGreater(len(names), 10)
        self.assertEqual([name for name in names if f"`{name}`" not in text], [])

    def test_run_ends_are_explained(self):
        text = read("docs/which-values-flow.md")
        names = ["length"] + names_of("uop.h", "UOP_ENDS") + names_of("run.h", "RUN_LOSSES")
        self.assertGreater(len(names), 15)
        self.assertEqual([name for name in names if f"`{name}`" not in text], ["none"])

    def test_man_page_has_all_values(self):
        """Everything that --values=help lists; of a numbered row of sources the first and the last."""
        _, text = parsed(["record", "--values=help"], self.folder)
        sources = re.findall(r"(?m)^  ([a-z]+[0-9]?) {2,}\S", text)
        self.assertGreater(len(sources), 40)
        ends = [name for name in sources if not (name[-1].isdigit() and {
            name[:-1] + str(int(name[-1]) + step) for step in (-1, 1)} <= set(sources))]
        words = set(re.findall(r"[a-z]+[0-9]?", read("docs/man/assay-record.1")))
        self.assertEqual([name for name in ends if name not in words], [])

    def test_links(self):
        for page in PAGES + glob.glob(os.path.join(lib.ROOT, "docs/design/*.md")):
            for link in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", read(page)):
                if "://" not in link:
                    target = os.path.normpath(os.path.join(os.path.dirname(page), link))
                    self.assertTrue(os.path.exists(target), (page, link))


if __name__ == "__main__":
    lib.main()
