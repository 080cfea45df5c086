#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# S7: what must hold on the kernel of the distribution, in an emulated machine. All kernels: make check-kernels.
SECONDS=540 exec "$SRC/tests/kernels/run"
