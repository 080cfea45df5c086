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

/** "thread worker 4711", "program gcc"; "": all are. */
export function choiceText(threads: readonly Thread[], values: Record<string, string>): string {
	const { thread = "", program = "" } = values, one = threads[thread ? Number(thread) : -1];
	if (one) return `thread ${one.comm} ${one.tid}`;
	if (thread) return "a thread that is not in this profile";
	return program ? `program ${program}` : "";
}

const PIDS_MAX = 100;

/**
 * The options of `assay report` that choose the same threads. null: there are none, because
 * another program ran under the same number, or because they would be too many.
 */
export function choiceOptions(
	threads: readonly Thread[], values: Record<string, string>): [string, string][]|null {
	const chosen = chosenThreads(threads, values);
	if (!chosen) return [];
	const key = ({ pid, tid }: Thread): string => values.thread ? `${pid} ${tid}` : `${pid}`;
	const inside = threads.filter((_, id) => chosen[id]), keys = new Set(inside.map(key));
	if (!inside.length || keys.size > PIDS_MAX) return null;
	if (threads.some((one, id) => id > 0 && !chosen[id] && keys.has(key(one)))) return null;
	const pids = Array.from(new Set(inside.map(one => one.pid))).join(",");
	return values.thread ? [["pid", pids], ["tid", String(inside[0].tid)]] : [["pid", pids]];
}
