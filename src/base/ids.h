/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Row ids of a profile. One struct each, so that a thread's id is never passed as a stack's. 0 =
 * none.
 */
#pragma once

#include <stdint.h>

// clang-format off
struct process_id { uint32_t v; };
struct thread_id { uint32_t v; };
struct module_id { uint32_t v; };
struct location_id { uint32_t v; };
struct stack_id { uint32_t v; };
struct symbol_id { uint32_t v; };
struct file_id { uint32_t v; };
struct recording_id { uint32_t v; };
struct machine_id { uint32_t v; };
struct value_item_id { uint32_t v; };
struct value_id { uint32_t v; };
struct block_id { uint32_t v; };
struct call_node_id { uint32_t v; };
struct mark_id { uint32_t v; };
// clang-format on
