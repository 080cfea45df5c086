// SPDX-License-Identifier: BSD-2-Clause
// Whose samples, waits or calls are shown: those of a thread, or of all threads of a program.

import type {Thread} from "./data";

/** By thread: 1 if it is chosen. null: all are. */
export type Chosen = Uint8Array|null;

export function chosenThreads(threads: readonly Thread[], values: Record<string, string>): Chosen {
	const { thread = "", program = "" } = values;
	if (!thread && !program) return null;
	return Uint8Array.from(threads,
		(one, id) => Number(thread ? String(id) === thread : one.process === program));
}

/** The same choice has the same key. */
export function choiceKey(values: Record<string, string>): string {
	return `${values.thread ?? ""}\n${values.program ?? ""}`;
}
