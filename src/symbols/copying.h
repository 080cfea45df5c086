/* SPDX-License-Identifier: BSD-2-Clause */
/* Whether C++ may copy objects of a class byte by byte. Runs only in a worker (worker.h). */
#pragma once

#include <elfutils/libdw.h>

enum copying { COPYING_BYTES, COPYING_UNSURE, COPYING_CALLS };

/* class: a structure, class or union. */
enum copying copying_of(Dwarf_Die *class);
