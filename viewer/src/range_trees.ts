// SPDX-License-Identifier: BSD-2-Clause
// The call tree and the call graph of a stretch of time, made as `assay report` makes them; only
// call sites are not known here, so that all calls of one function from another are one row.

import type {App} from "./app";
import type {NewRow, Table} from "./data";
import type {Downward} from "./frames";

/** What has a smaller share is left out, as in reports. */
const MIN_SHARE = 0.005;

export function titled(name: string, module: string): string {
	return module.startsWith("[") ? `${name} ${module}` : `${name} [${module}]`;
}

export function treeInRange(app: App, table: Table): Table {
	const frames = app.rangeFrames(), { names, modules } = app.data.functions;
	const seen = table.totals.seen || 1, rows: NewRow[] = [];
	const waiting: [node: number, level: number, module: string][] = [];
	const wait = (node: number, level: number, module: string): void => {
		for (const child of [...frames.children(node)].reverse())
			waiting.push([child, level, module]);
	};
	wait(0, 0, "");
	while (waiting.length) {
		const [node, level, above] = waiting.pop() ?? [0, 0, ""];
		const total = frames.total(node), self = frames.self(node), fn = frames.fn(node);
		if (total < MIN_SHARE * seen) continue;
		rows.push({
			total,
			total_share: total / seen,
			self,
			share: self / seen,
			symbol: names[fn],
			module: modules[fn],
			function: modules[fn] === above ? names[fn] :
							  titled(names[fn], modules[fn]),
			level
		});
		wait(node, level + 1, modules[fn]);
	}
	return table.refill(rows);
}

/** Samples by function, and by call from one to another; a caller of -1: nobody. */
export interface Graph {
	self: Float64Array;
	total: Float64Array;
	/** Samples with the function on the stack more than once. */
	recursive: Float64Array;
	calls: { caller: number; callee: number; samples: number }[];
}

/** A sample counts once for a function and once for a call, however often the stack has them. */
export function graphOf(frames: Downward, functions: number): Graph {
	const { parents, fns } = frames, width = functions + 1;
	const of = (node: number): number => node ? fns[node] : -1;
	const calls = new Map<number, number>();
	const graph: Graph = {
		self: new Float64Array(functions),
		total: new Float64Array(functions),
		recursive: new Float64Array(functions),
		calls: []
	};
	for (let i = 1; i < parents.length; i++) {
		const total = frames.total(i), fn = fns[i], caller = of(parents[i]);
		if (!total) continue;
		let before = 0, same = 0;
		for (let above = parents[i]; above; above = parents[above]) {
			if (fns[above] !== fn) continue;
			before++;
			if (of(parents[above]) === caller) same++;
		}
		graph.self[fn] += frames.selves[i];
		if (before === 0) graph.total[fn] += total;
		if (before === 1) graph.recursive[fn] += total;
		const key = (caller + 1) * width + fn;
		if (!same) calls.set(key, (calls.get(key) ?? 0) + total);
	}
	graph.calls = Array.from(calls,
		([key, samples]) =>
			({ caller: Math.floor(key / width) - 1, callee: key % width, samples }));
	graph.calls.sort((a, b) => b.samples - a.samples);
	return graph;
}

function add(map: Map<number, NewRow[]>, key: number, row: NewRow): void {
	const rows = map.get(key) ?? [];
	rows.push(row);
	map.set(key, rows);
}

export function graphInRange(app: App, table: Table): Table {
	const { names, modules } = app.data.functions, seen = table.totals.seen || 1;
	const graph = graphOf(app.rangeFrames(), names.length), rows: NewRow[] = [];
	const callers = new Map<number, NewRow[]>(), callees = new Map<number, NewRow[]>();
	const row = (fn: number, relation: string, total: number, rest: NewRow): NewRow => ({
		symbol: names[fn],
		module: modules[fn],
		relation,
		total,
		total_share: total / seen,
		part: total / (graph.total[fn] || 1),
		...rest
	});
	const other = (word: string, fn: number): NewRow => fn < 0 ?
		{ function: `  ${word} outside` } :
		{ function: `  ${word} ${names[fn]}`, other: names[fn], other_module: modules[fn] };
	for (const { caller, callee, samples } of graph.calls) {
		add(callers, callee, row(callee, "caller", samples, other("from", caller)));
		if (caller >= 0)
			add(callees, caller, row(caller, "callee", samples, other("to", callee)));
	}
	Array.from(graph.total, (total, fn) => ({ fn, total }))
		.filter(one => one.total >= MIN_SHARE * seen && one.total > 0)
		.sort((a, b) => b.total - a.total)
		.forEach(({ fn, total }, stanza) => {
			const again = graph.recursive[fn], self = graph.self[fn];
			const own = [
				...callers.get(fn) ?? [], row(fn, "self", total, {
					function: titled(names[fn], modules[fn]),
					self,
					share: self / seen
				}),
				...callees.get(fn) ?? []
			];
			if (again)
				own.push(row(fn, "recursion", again,
					{ function: "  more than once on the stack" }));
			rows.push(...own.map(one => ({...one, stanza })));
		});
	return table.refill(rows);
}
