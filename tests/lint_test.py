#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Each check of tools/lint must catch its bad snippets, at the right line, and leave the good ones alone."""

import os
import subprocess
import sys
import tempfile
import unittest

LINT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tools", "lint")
SPDX = "// SPDX-License-Identifier: BSD-2-Clause\n"
BODY = "int f(int a)\n{\n%s\treturn a;\n}\n"
BLANK = "\ta++;\n"
WORK = "/" + "work/"
WALK = "## The way of a sample\n\n1. `src/a.c`: here.\n\n## House style\n"

# check: ({path: text}, "path:line" where it must be found)
BAD = [
    ("layers", {"src/store/a.c": SPDX + '#include "report/table.h"\n'}, "src/store/a.c:2"),
    ("layers", {"src/base/a.c": SPDX + '#include "wire/sample.h"\n'}, "src/base/a.c:2"),
    ("layers", {"src/wire/a.h": SPDX + '#include "base/err.h"\n'}, "src/wire/a.h:2"),
    ("layers", {"src/symbols/a.c": SPDX + '#include "image/loadmap.h"\n'}, "src/symbols/a.c:2"),
    ("layers", {"src/store/a.c": SPDX + '#\tinclude  "values/hotlist.h"\n'}, "src/store/a.c:2"),
    ("layers", {"src/util/a.c": SPDX}, "src/util/a.c:1"),
    ("includes", {"src/capture/kernel/a.bpf.c": SPDX + "#include <string.h>\n"},
     "src/capture/kernel/a.bpf.c:2"),
    ("includes", {"src/capture/kernel/a.bpf.c": SPDX + '#include "base/map.h"\n'},
     "src/capture/kernel/a.bpf.c:2"),
    ("includes", {"src/engine/a.c": SPDX + "#include <stdio.h>\n"}, "src/engine/a.c:2"),
    ("banned", {"src/base/a.c": SPDX + BODY % "\tstrcpy(x, y);\n"}, "src/base/a.c:4"),
    ("banned", {"src/base/a.c": SPDX + BODY % "\ta = atoi (x);\n"}, "src/base/a.c:4"),
    ("banned", {"src/base/a.h": SPDX + "#define F(x) \\\n\tsprintf(x, \"\")\n"}, "src/base/a.h:3"),
    ("banned", {"src/engine/a.c": SPDX + BODY % "\tx = malloc(a);\n"}, "src/engine/a.c:4"),
    ("banned", {"src/engine/tools/a.c": SPDX + BODY % "\texit(a);\n"}, "src/engine/tools/a.c:4"),
    ("banned", {"src/capture/kernel/a.bpf.c": SPDX + BODY % '\tbpf_printk("x");\n'},
     "src/capture/kernel/a.bpf.c:4"),
    ("function-length", {"src/base/a.c": SPDX + BODY % (BLANK * 118)}, "src/base/a.c:3"),
    ("function-length", {"src/base/a.c": SPDX + "static __attribute__((cold)) " + BODY % (BLANK * 118)},
     "src/base/a.c:3"),
    ("file-length", {"src/base/a.c": SPDX + "int a;\n" * 2000}, "src/base/a.c:2001"),
    ("conditionals", {"src/base/a.c": SPDX + BODY % "#ifdef X\n\ta++;\n#endif\n"}, "src/base/a.c:4"),
    ("conditionals", {"src/base/a.c": SPDX + BODY % "\tif (a) {\n#  if X\n#  endif\n\t}\n"},
     "src/base/a.c:5"),
    ("columns", {"src/base/a.c": SPDX + "/* " + "word " * 20 + "*/\n"}, "src/base/a.c:2"),
    ("walks", {"CONTRIBUTING.md": WALK, "src/a.c": SPDX + "/*\n *\tin\tit\n *\towner\tme\n */\n"}, "src/a.c:2"),
    ("walks", {"CONTRIBUTING.md": WALK}, "CONTRIBUTING.md:1"),
    ("columns", {"src/base/a.h": SPDX + " *\t" + "word " * 19 + "\n"}, "src/base/a.h:2"),
    ("columns", {"docs/a.md": "one\n" + "word " * 20 + "end\n"}, "docs/a.md:2"),
    ("columns", {"docs/a.md": "    " + "shown " * 20 + "\n    $ assay " + "word " * 20 + "\n"}, "docs/a.md:2"),
    ("words", {"docs/a.md": "one\nthe she" + "lf of files\n"}, "docs/a.md:2"),
    ("words", {"src/base/a.c": SPDX + "int colle" + "ctor_run(void);\n"}, "src/base/a.c:2"),
    ("requirements", {"docs/requirements.md": "| id |\n| V1 | sample |\n", "tests/a.py": "# " + SPDX[3:]
                      + "# Serves: V1, V2.\n"}, "tests/a.py:2"),
    ("spdx", {"src/base/a.c": "int a;\n"}, "src/base/a.c:1"),
    ("spdx", {"tools/a": "#!/bin/sh\necho\n"}, "tools/a:2"),
    ("spdx", {"tests/a.py": "print()\n"}, "tests/a.py:1"),
    ("machine-paths", {"docs/a.md": "see\n" + WORK + "main\n"}, "docs/a.md:2"),
    ("machine-paths", {"src/base/a.c": SPDX + '#define A "/' + 'home/me/x"\n'}, "src/base/a.c:2"),
    ("whitespace", {"docs/a.md": "one\ntwo \n"}, "docs/a.md:2"),
    ("whitespace", {"docs/a.md": "one\r\n"}, "docs/a.md:1"),
    ("whitespace", {"docs/a.md": "one"}, "docs/a.md:1"),
    ("whitespace", {"docs/a.md": "one\n\n"}, "docs/a.md:3"),
    ("unfinished", {"docs/a.md": "one\nTO" + "DO: two\n"}, "docs/a.md:2"),
    ("registered", {"src/base/a_test.c": SPDX, "src/base/meson.build": "test('b_test.c')\n"},
     "src/base/a_test.c:1"),
    ("registered", {"src/base/a_test.c": SPDX, "src/base/meson.build": "test('aa_test.c')\n"},
     "src/base/a_test.c:1"),
    ("registered", {"tests/fuzz/a_fuzz.c": SPDX}, "tests/fuzz/a_fuzz.c:1"),
    ("registered", {"tests/e2e/a.sh": "#!/bin/sh\n"}, "tests/e2e/a.sh:1"),
    ("format", {"src/base/a.c": SPDX + "int f(int a)\n{\n    return a;\n}\n"}, "src/base/a.c:3"),
    ("format", {"src/base/a.c": SPDX + "int f(int a) {\n\treturn a;\n}\n"}, "src/base/a.c:2"),
]

# Must pass every check.
GOOD = {
    "src/recorder/a.c": SPDX + '#include "symbols/symbols.h"\n#include "base/err.h"\n#include <stdio.h>\n',
    "src/capture/kernel/a.bpf.c": SPDX + '#include "vmlinux.h"\n#include <bpf/bpf_helpers.h>\n'
                                  '#include "wire/sample.h"\n',
    "src/base/long.c": SPDX + BODY % (BLANK * 117),
    "src/base/quoted.c": SPDX + "/* strcpy(a, b), and #if here */\n"
                         + BODY % '\tuse("strcpy(a, b) {", a);\n\ta = my_atoi(a) + x->atoi(a);\n'
                         + "#if A\nint b;\n#endif\n",
    "src/base/table.c": SPDX + "struct wide {\n" + "".join(f"\tint a{i};\n" for i in range(200)) + "};\n",
    "src/base/list.h": SPDX + "#define LIST(X)" + " " * 84 + "\\\n\tX(ONE, \"one\")" + " " * 78
                       + "\\\n\tX(TWO, \"two\")\n",
    "tests/programs/a.c": SPDX + BODY % "\ta = atoi(x);\n",
    "src/base/a_test.c": SPDX + "#include <stdio.h>\n",
    "src/base/meson.build": "test('a', executable('a_test', 'a_test.c'))\n",
    "docs/wide.md": "| " + "word " * 30 + "|\n\n    " + "word " * 30 + "end\n\n```\n" + "word " * 30 + "end\n```\n",
    "src/base/wide.h": SPDX + "/* https://" + "word" * 30 + " */\n",
    "docs/a.md": "Open it through /proc/PID/" + "root/usr/bin.\n",
}


def write_tree(root, files):
    for path, text in files.items():
        full = os.path.join(root, path)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        with open(full, "w", encoding="utf-8", newline="") as stream:
            stream.write(text)


def lint(root, *checks):
    run = subprocess.run([sys.executable, LINT, "--root", root, *checks], capture_output=True, text=True)
    return run.returncode, run.stdout, run.stderr


class LintTest(unittest.TestCase):
    def test_bad_is_caught(self):
        for check, files, where in BAD:
            with self.subTest(check=check, where=where), tempfile.TemporaryDirectory() as root:
                write_tree(root, files)
                status, out, err = lint(root, check)
                self.assertEqual(status, 1, out + err)
                self.assertIn(f"{where}: {check}: ", out)

    def test_good_passes(self):
        with tempfile.TemporaryDirectory() as root:
            write_tree(root, GOOD)
            status, out, err = lint(root)
            self.assertEqual((status, err), (0, ""), out + err)

    def test_every_check_has_a_snippet(self):
        out = subprocess.run([sys.executable, LINT, "--list"], capture_output=True, text=True).stdout
        self.assertEqual({line.split()[0] for line in out.splitlines()}, {case[0] for case in BAD})


if __name__ == "__main__":
    unittest.main()
