// SPDX-License-Identifier: BSD-2-Clause
// A plugin of gcc that only is called where the compiler goes on to something else: its code marks the place in a trace.
#include <gcc-plugin.h>

int plugin_is_GPL_compatible;

#define MARK(name) extern "C" __attribute__((noinline, aligned(64))) void name(void *, void *) { __asm__ volatile(""); }
MARK(mark_parsed)
MARK(mark_ipa_start)
MARK(mark_ipa_end)
MARK(mark_passes_start)

int plugin_init(struct plugin_name_args *info, struct plugin_gcc_version *)
{
	register_callback(info->base_name, PLUGIN_FINISH_PARSE_FUNCTION, mark_parsed, nullptr);
	register_callback(info->base_name, PLUGIN_ALL_IPA_PASSES_START, mark_ipa_start, nullptr);
	register_callback(info->base_name, PLUGIN_ALL_IPA_PASSES_END, mark_ipa_end, nullptr);
	register_callback(info->base_name, PLUGIN_ALL_PASSES_START, mark_passes_start, nullptr);
	return 0;
}
