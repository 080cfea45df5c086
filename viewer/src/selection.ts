// SPDX-License-Identifier: BSD-2-Clause
// Tables of the threads and the time that are chosen. Those that follow from a call tree are made
// anew, in others the rows of other threads are left out. Shares stay shares of everything that was
// seen, as with the filters of `assay report`.

import type {App} from "./app";
import {choiceOptions, Chosen} from "./choice";
import type {Cell, Table} from "./data";
import {WeightedSource} from "./flame_source";
import {shellWord} from "./format";
import type {Downward} from "./frames";
import {rangeOptions} from "./range";
import {graphOfChoice, treeOfChoice} from "./selection_trees";

/** Views of `assay report` that know no time, and those that know no threads either. */
const BY_TIME = ["functions", "lines", "modules", "processes", "threads", "callgraph", "tree"];
const OF_ALL = [
	"cpus", "losses", "coverage", "invariants", "args", "args --by-caller", "blocks", "values",
	"runs", "marktime"
];

/** What the options of `assay report` say of what is chosen; null: no options do for that view. */
export function optionsOf(app: App, view: string): [string, string][]|null {
	const { profile } = app.data, range = app.range();
	const threads = choiceOptions(profile.threads, app.state.values);
	if (!threads || (threads.length && OF_ALL.includes(view))) return null;
	if (range && !BY_TIME.includes(view)) return null;
	return [...threads, ...(range ? rangeOptions(profile.ticks.first, range) : [])];
}

/** Prints the view of what is chosen; null: no command does. */
export function commandOf(app: App, view: string): string|null {
	const options = optionsOf(app, view), { name } = app.data.profile;
	return options && [
		`assay report ${view}`, ...(name === "assay.db" ? [] : [`-i ${shellWord(name)}`]),
		...options.map(([option, value]) => `--${option} ${value}`)
	].join(" ");
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

/** Functions by what a table has a row for: themselves, or their modules. */
class Groups {
	private readonly find = new Map<string, number>();
	private readonly groups: Int32Array;

	constructor(keys: string[], private readonly keyOf: (row: number) => string) {
		this.groups = Int32Array.from(keys, key => {
			if (!this.find.has(key)) this.find.set(key, this.find.size);
			return this.find.get(key) ?? 0;
		});
	}

	of(row: number): number { return this.find.get(this.keyOf(row)) ?? -1; }

	sums(frames: Downward): { self: Float64Array; total: Float64Array } {
		return sumsBy(frames, this.groups, this.find.size);
	}

	/** Rows of the table of which something is left, each group once, the most first. */
	rows(table: Table, order: (group: number) => number,
		then: (group: number) => number): number[] {
		const used = new Set<number>();
		return Array.from({ length: table.rowCount }, (_, row) => row)
			.filter(row => {
				const group = this.of(row), fresh = group >= 0 && !used.has(group);
				used.add(group);
				return fresh && (order(group) > 0 || then(group) > 0);
			})
			.sort((a, b) => order(this.of(b)) - order(this.of(a)) ||
					then(this.of(b)) - then(this.of(a)));
	}
}

function groupsOf(app: App, table: Table): Groups|null {
	const { names, modules } = app.data.functions;
	if (table.view === "modules") return new Groups(modules, row => table.text(row, "module"));
	return table.view === "functions" ?
		new Groups(names.map((one, i) => `${modules[i]}\n${one}`),
			row => `${table.text(row, "module")}\n${table.text(row, "symbol")}`) :
		null;
}

function sampledCode(app: App, table: Table, groups: Groups): Table {
	const { self, total } = groups.sums(app.frames()), seen = table.totals.seen || 1;
	const rows = groups.rows(table, group => self[group], group => total[group]);
	return table.derive(rows, {
		self: row => self[groups.of(row)],
		share: row => self[groups.of(row)] / seen,
		total: row => total[groups.of(row)],
		total_share: row => total[groups.of(row)] / seen
	});
}

/** What a share in the table is a share of: that is the same in every row. */
function wholeOf(table: Table, amount: string): number {
	for (let row = 0; row < table.rowCount; row++) {
		const share = table.number(row, "share");
		if (share > 0) return table.number(row, amount) / share;
	}
	return 1;
}

function weighted(app: App, id: string): WeightedSource|null {
	const source = app.sources.find(one => one.id === id);
	return source instanceof WeightedSource ? source : null;
}

/** How many blocks the threads executed is not known: only instructions are in the tree. */
function executedCode(app: App, table: Table, groups: Groups): Table|null {
	const source = weighted(app, "instructions");
	if (!source) return null;
	const { self } = groups.sums(source.frames(app)), whole = wholeOf(table, "instructions");
	return table.derive(groups.rows(table, group => self[group], () => 0), {
		instructions: row => self[groups.of(row)],
		share: row => self[groups.of(row)] / whole
	},
		["blocks"]);
}

function calledCode(app: App, table: Table, groups: Groups): Table|null {
	const source = weighted(app, "calls"), frames = source?.framesOf(app, "calls");
	if (!source || !frames || table.view !== "functions") return null;
	const calls = groups.sums(frames).self, amount = (metric: string) => {
		const of = source.framesOf(app, metric);
		return of ? groups.sums(of) : { self: calls, total: calls };
	};
	const base = amount("base"), elapsed = amount("elapsed");
	const by = table.column("base") < 0 ? "calls" : "base", whole = wholeOf(table, by);
	return table.derive(groups.rows(table, group => base.self[group], group => calls[group]), {
		calls: row => calls[groups.of(row)],
		base: row => base.self[groups.of(row)],
		cum: row => base.total[groups.of(row)],
		elapsed: row => elapsed.total[groups.of(row)],
		share: row => base.self[groups.of(row)] / whole
	},
		["recursion"]);
}

function sampledTasks(app: App, table: Table): Table {
	const { threads, tree } = app.data.profile, { second, thread, count } = tree.samples;
	const range = app.range(), chosen = app.chosen(), seen = table.totals.seen || 1;
	const text = (row: number, column: string): string => table.text(row, column);
	const keys =
		threads.map(one => table.view === "threads" ? `${one.pid}:${one.tid}:${one.comm}` :
							      `${one.pid}:${one.process}`);
	const keyOf = (row: number): string => table.view === "threads" ?
		`${text(row, "pid")}:${text(row, "tid")}:${text(row, "comm")}` :
		`${text(row, "pid")}:${text(row, "comm")}`;
	const sums = new Map<string, number>();
	for (let i = 0; i < count.length; i++) {
		const early = range && second && second[i] < range.from;
		const late = range && second && second[i] >= range.to;
		if (early || late || thread[i] < 0 || (chosen && !chosen[thread[i]])) continue;
		sums.set(keys[thread[i]], (sums.get(keys[thread[i]]) ?? 0) + count[i]);
	}
	const of = (row: number): number => sums.get(keyOf(row)) ?? 0;
	// A process that executes its own program again is a row of a report, with the same key.
	const used = new Set<string>();
	const rows = Array.from({ length: table.rowCount }, (_, row) => row).filter(row => {
		const fresh = !used.has(keyOf(row));
		used.add(keyOf(row));
		return fresh && of(row) > 0;
	});
	rows.sort((a, b) => of(b) - of(a));
	return table.derive(
		rows, { self: row => of(row), share: row => of(row) / seen }, ["kernel"]);
}

/** Rows that name their thread; those without follow the row before. */
function rowsOfThreads(app: App, table: Table, chosen: NonNullable<Chosen>): Table|null {
	const pid = table.column("pid"), tid = table.column("tid");
	if (tid < 0) return null;
	const key = (one: Cell, two: Cell): string =>
		pid < 0 ? String(two) : `${String(one)} ${String(two)}`;
	const sides = [new Set<string>(), new Set<string>()];
	app.data.profile.threads.forEach((one, id) => {
		if (id > 0) sides[chosen[id]].add(key(one.pid, one.tid));
	});
	// Two programs under one number: rows cannot tell which of them they are of.
	if (Array.from(sides[1]).some(one => sides[0].has(one))) return null;
	let inside = false, named = false;
	const rows = Array.from({ length: table.rowCount }, (_, row) => row).filter(row => {
		const own = table.cell(row, tid);
		if (own !== null) inside = sides[1].has(key(table.cell(row, pid), own));
		named = named || own !== null;
		return inside;
	});
	return named ? table.derive(rows, {}) : null;
}

function fromTree(app: App, table: Table, frames: Downward|null): Table|null {
	if (!frames || table.column("total") < 0) return null;
	return table.view === "tree" ? treeOfChoice(app, table, frames) :
				       graphOfChoice(app, table, frames);
}

/** The table of what is chosen; null: the page cannot tell, and has that of everything. */
export function tableOfChoice(app: App, table: Table): Table|null {
	const range = app.range(), chosen = app.chosen(), groups = groupsOf(app, table);
	if (!range && !chosen) return table;
	const sampled = app.data.profile.tree.samples.node.length > 0;
	const executed = weighted(app, "instructions");
	if (table.view === "tree" || table.view === "callgraph") {
		const made = fromTree(app, table,
			sampled			   ? app.frames() :
				executed && !range ? executed.frames(app) :
						     null);
		if (made) return made;
	}
	if (groups && sampled && table.column("total") >= 0) return sampledCode(app, table, groups);
	if (["threads", "processes"].includes(table.view) && sampled && table.column("self") >= 0)
		return sampledTasks(app, table);
	if (range || !chosen) return null;
	if (groups && table.column("instructions") >= 0) return executedCode(app, table, groups);
	if (groups && table.column("calls") >= 0) return calledCode(app, table, groups);
	return rowsOfThreads(app, table, chosen);
}
