#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
# Serves: W1.
"""Commands answer in the engine as they do by themselves: those of tests/conformance that are not slow.

"make check-engine" runs all of them.
"""

import os
import subprocess
import sys

SRC = os.environ.get("SRC", os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

sys.exit(subprocess.run([os.path.join(SRC, "tests/conformance/run"), "--quick"], check=False).returncode)
