// SPDX-License-Identifier: BSD-2-Clause
// A stretch of time, chosen on the timeline.

import type {CallTree} from "./data";

/** Seconds: from the first on, and before the second. */
export interface Range {
	from: number;
	to: number;
}

/** null: none is chosen, or the profile does not keep which stacks belong to which second. */
export function rangeOf(tree: CallTree, values: Record<string, string>): Range|null {
	if (!tree.samples.second) return null;
	// Anybody may have written the address.
	const second = (text: string|undefined, none: number): number =>
		/^\d+$/.test(text ?? "") ? Number(text) : none;
	const from = second(values.from, 0), to = second(values.to, Infinity);
	return from === 0 && to === Infinity ? null : { from, to };
}

export function rangeText(range: Range): string {
	return `seconds ${range.from} to ${range.to === Infinity ? "the end" : range.to}`;
}

/** The options of `assay report` that choose it; without an end, one. */
export function rangeOptions(first: number, range: Range): [string, string][] {
	const to: [string, string][] =
		range.to === Infinity ? [] : [["to", String(first + range.to)]];
	return [["from", String(first + range.from)], ...to];
}
