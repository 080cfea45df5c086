/* SPDX-License-Identifier: BSD-2-Clause */
/* The file of a module that an engine has told the host of. */
#pragma once

#include <sys/types.h>

#include "image/loadmap_file.h"
#include "wire/stream.h"

/* Opens the file that pid has mapped as that module, as loadmap_file_open() does. */
int module_file_open(pid_t pid, const struct stream_module *module, struct loadmap_file *ret);
