// SPDX-License-Identifier: BSD-2-Clause
#include "marks/module_file.h"

int module_file_open(pid_t pid, const struct stream_module *module, struct loadmap_file *ret)
{
	const struct event_mmap mmap = {
		.start = module->start,
		.end = module->end,
		.offset = module->offset,
		.inode = module->inode,
		.major = module->device_major,
		.minor = module->device_minor,
		.path = module->path,
	};

	return loadmap_file_open((uint32_t)pid, &mmap, module->path, ret);
}
