/* SPDX-License-Identifier: BSD-2-Clause */
/* Keys of a profile's meta table that readers use. */
#pragma once

#define META_EVENT "event" /* "cpu-clock", "cycles", "instructions" */
#define META_PERIOD "period" /* mean interval: ns for cpu-clock, events otherwise */
#define META_STARTED "started" /* ns since 1970 */
#define META_DURATION "duration_ns" /* ns */
