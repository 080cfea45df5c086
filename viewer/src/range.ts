// SPDX-License-Identifier: BSD-2-Clause
// A stretch of time, chosen on the timeline: the tables that follow from samples alone are made
// anew for it. Shares stay shares of everything that was seen, as in `assay report --from --to`.

import type {App} from "./app";
import type {CallTree, Table} from "./data";
import {shellWord} from "./format";
import type {Downward} from "./frames";
import {graphInRange, treeInRange} from "./range_trees";

/** Seconds: from the first on, and before the second. */
export interface Range {
	from: number;
	to: number;
}

/** null: none is chosen, or the profile does not keep which stacks belong to which second. */
export function rangeOf(tree: CallTree, values: Record<string, string>): Range|null {
	if (!tree.samples.second || !(values.from || values.to)) return null;
	return { from: Number(values.from || 0), to: values.to ? Number(values.to) : Infinity };
}

export function rangeText(range: Range): string {
	return `seconds ${range.from} to ${range.to === Infinity ? "the end" : range.to}`;
}

/** Seconds as `assay report` counts them, with what comes before each; without an end, one. */
function secondsOf(app: App, range: Range, from: string, to: string): string[] {
	const { first } = app.data.profile.ticks;
	return [
		`${from}${first + range.from}`,
		...(range.to === Infinity ? [] : [`${to}${first + range.to}`])
	];
}

/** Prints the view of the time that is chosen. */
export function rangeCommand(app: App, view: string, range: Range): string {
	const { name } = app.data.profile;
	return [
		`assay report ${view}`, ...(name === "assay.db" ? [] : [`-i ${shellWord(name)}`]),
		...secondsOf(app, range, "--from ", "--to ")
	].join(" ");
}

/** The same for the server. */
export function rangeQuery(app: App, range: Range): string {
	return secondsOf(app, range, "from=", "to=").join("&");
}

/** By a number of each function: samples in it, and with it on the stack, however often. */
export function sumsBy(frames: Downward, groups: Int32Array,
	count: number): {self: Float64Array; total: Float64Array} {
	const self = new Float64Array(count), total = new Float64Array(count);
	const { parents, fns } = frames;
	for (let i = 1; i < parents.length; i++) {
		if (!frames.total(i)) continue;
		const group = groups[fns[i]];
		self[group] += frames.selves[i];
		let above = parents[i];
		while (above && groups[fns[above]] !== group) above = parents[above];
		if (!above) total[group] += frames.total(i);
	}
	return { self, total };
}

function numbered(keys: string[]): { groups: Int32Array; find: Map<string, number>} {
	const find = new Map<string, number>();
	const groups = Int32Array.from(keys, key => {
		if (!find.has(key)) find.set(key, find.size);
		return find.get(key) ?? 0;
	});
	return { groups, find };
}

/** Rows of functions or modules, whose key `keyOf` gives as of a function. */
function codeTable(app: App, table: Table, keys: string[], keyOf: (row: number) => string): Table {
	const { groups, find } = numbered(keys), frames = app.rangeFrames();
	const sums = sumsBy(frames, groups, find.size), seen = table.totals.seen || 1;
	const group = (row: number): number => find.get(keyOf(row)) ?? -1;
	const used = new Set<number>();
	const rows = Array.from({ length: table.rowCount }, (_, row) => row).filter(row => {
		const fresh = group(row) >= 0 && !used.has(group(row));
		used.add(group(row));
		return fresh && sums.total[group(row)] > 0;
	});
	rows.sort((a, b) => sums.self[group(b)] - sums.self[group(a)] ||
			sums.total[group(b)] - sums.total[group(a)]);
	return table.derive(rows, {
		self: row => sums.self[group(row)],
		share: row => sums.self[group(row)] / seen,
		total: row => sums.total[group(row)],
		total_share: row => sums.total[group(row)] / seen
	});
}

function taskTable(app: App, table: Table, range: Range, keys: string[],
	keyOf: (row: number) => string): Table {
	const { second, thread, count } = app.data.profile.tree.samples;
	const sums = new Map<string, number>(), seen = table.totals.seen || 1;
	for (let i = 0; i < count.length; i++) {
		if (!second || second[i] < range.from || second[i] >= range.to || thread[i] < 0)
			continue;
		const key = keys[thread[i]];
		sums.set(key, (sums.get(key) ?? 0) + count[i]);
	}
	const of = (row: number): number => sums.get(keyOf(row)) ?? 0;
	const rows = Array.from({ length: table.rowCount }, (_, row) => row).filter(row => of(row));
	rows.sort((a, b) => of(b) - of(a));
	return table.derive(
		rows, { self: row => of(row), share: row => of(row) / seen, kernel: () => null });
}

/** The table of the range that is chosen; null: this one is not by time. */
export function tableInRange(app: App, table: Table): Table|null {
	const range = app.range();
	const { functions, profile } = app.data;
	if (!range) return table;
	const name = (row: number, column: string): string => table.text(row, column);
	switch (table.view) {
		case "functions":
			return codeTable(app, table,
				functions.names.map((one, i) => `${functions.modules[i]}\n${one}`),
				row => `${name(row, "module")}\n${name(row, "symbol")}`);
		case "modules":
			return codeTable(app, table, functions.modules, row => name(row, "module"));
		case "threads":
			return taskTable(app, table, range,
				profile.threads.map(one => `${one.pid}:${one.tid}:${one.comm}`),
				row => `${name(row, "pid")}:${name(row, "tid")}:${
					name(row, "comm")}`);
		case "processes":
			return taskTable(app, table, range,
				profile.threads.map(one => `${one.pid}:${one.process}`),
				row => `${name(row, "pid")}:${name(row, "comm")}`);
		case "tree":
			return table.column("total") < 0 ? null : treeInRange(app, table);
		case "callgraph":
			return graphInRange(app, table);
		default:
			return null;
	}
}
