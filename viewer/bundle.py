#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Makes one page of the viewer: viewer/bundle.py ESBUILD FOLDER OUTPUT DEPFILE.

The script and the style are put into page.html, and their hashes into its content security policy: the
browser then runs this script, applies this style, and nothing else. @PROFILE@ and @CONNECT@ stay for `assay html`
and `assay serve`.
"""

import base64
import hashlib
import os
import subprocess
import sys


def bundle(esbuild, folder, text, *options):
    command = [esbuild, "--minify", "--charset=utf8", "--log-level=warning", *options]
    run = subprocess.run(command, input=text.encode(), check=True, stdout=subprocess.PIPE, cwd=folder)
    return run.stdout.decode().strip()


def entry(folder):
    """Every domain, whatever there is in their folder, and then the page."""
    names = sorted(os.listdir(os.path.join(folder, "src/domains")))
    return "".join(f'import "./src/domains/{name[:-3]}";\n' for name in names if name.endswith(".ts")) + \
        'import "./src/main";\n'


def depfile_write(folder, target, path):
    """The folders too: a file that is new changes them."""
    parts = [os.path.join(where, name) for where, _, names in os.walk(os.path.join(folder, "src")) for name in names]
    parts += [where for where, _, _ in os.walk(os.path.join(folder, "src"))]
    with open(path, "w", encoding="utf-8") as stream:
        stream.write(f"{target}: {' '.join(sorted(parts))}\n")


def policy_hash(text):
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def main():
    esbuild, folder, target, depfile = sys.argv[1:]
    script = bundle(esbuild, folder, entry(folder), "--loader=ts", "--bundle", "--format=iife", "--target=es2020")
    with open(os.path.join(folder, "style.css"), encoding="utf-8") as stream:
        style = bundle(esbuild, folder, stream.read(), "--loader=css")
    if "</script" in script.lower() or "</style" in style.lower() or "@PROFILE@" in script + style:
        sys.exit("bundle: the script or the style would end its own element")
    with open(os.path.join(folder, "page.html"), encoding="utf-8") as stream:
        page = stream.read()
    for mark, text in [("@SCRIPT_HASH@", policy_hash(script)), ("@STYLE_HASH@", policy_hash(style)),
                       ("@STYLE@", style), ("@SCRIPT@", script)]:
        before, found, after = page.partition(mark)
        if not found:
            sys.exit(f"bundle: page.html has no {mark}")
        page = before + text + after
    with open(target, "w", encoding="utf-8") as stream:
        stream.write(page)
    depfile_write(folder, target, depfile)


if __name__ == "__main__":
    main()
