// SPDX-License-Identifier: BSD-2-Clause
// The call tree and the call graph of what is chosen, made as `assay report` makes them; only
// call sites are not known here, so that all calls of one function from another are one row.

import type {App} from "./app";
import type {NewRow, Table} from "./data";
import type {Downward} from "./frames";

/** What has a smaller share is left out, as in reports. */
const MIN_SHARE = 0.005;

export function titled(name: string, module: string): string {
	return module.startsWith("[") ? `${name} ${module}` : `${name} [${module}]`;
}

export function treeOfChoice(app: App, table: Table, frames: Downward): Table {
	const { names, modules } = app.data.functions;
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

/**
 * Samples by function, and by call from one to another. In a recursion a sample counts for the
 * caller of the outermost occurrence of a function, and for the callee of the innermost one: so the
 * callers of a function add up to its total, and so do its callees and its self.
 */
export interface Graph {
	self: Float64Array;
	total: Float64Array;
	/** Samples with the function on the stack more than once. */
	recursive: Float64Array;
	/** `caller` of -1: nobody. outer: for the callee, inner: for the caller. */
	calls: { caller: number; callee: number; outer: number; inner: number }[];
}

export function graphOf(frames: Downward, functions: number): Graph {
	const { parents, fns } = frames, width = functions + 1;
	const of = (node: number): number => node ? fns[node] : -1;
	const calls = new Map < number, {
		outer: number;
		inner: number
	}
	> ();
	const call = (node: number): { outer: number; inner: number } => {
		const key = (of(parents[node]) + 1) * width + fns[node];
		const known = calls.get(key) ?? { outer: 0, inner: 0 };
		calls.set(key, known);
		return known;
	};
	const graph: Graph = {
		self: new Float64Array(functions),
		total: new Float64Array(functions),
		recursive: new Float64Array(functions),
		calls: []
	};
	for (let i = 1; i < parents.length; i++) {
		const total = frames.total(i), fn = fns[i];
		if (!total) continue;
		let before = 0, left = 0;
		for (let below = i, above = parents[i]; above;
			below = above, above = parents[above])
			if (fns[above] === fn && ++before === 1) left = below;
		graph.self[fn] += frames.selves[i];
		if (before === 0) graph.total[fn] += total;
		if (before === 1) graph.recursive[fn] += total;
		if (before === 0) call(i).outer += total;
		call(i).inner += total;
		// What is here has a deeper occurrence than the one that was left by that call.
		if (left) call(left).inner -= total;
	}
	graph.calls = Array.from(calls,
		([key, samples]) =>
			({ caller: Math.floor(key / width) - 1, callee: key % width, ...samples }));
	return graph;
}

function add(map: Map<number, NewRow[]>, key: number, row: NewRow): void {
	const rows = map.get(key) ?? [];
	rows.push(row);
	map.set(key, rows);
}

export function graphOfChoice(app: App, table: Table, frames: Downward): Table {
	const { names, modules } = app.data.functions, seen = table.totals.seen || 1;
	const graph = graphOf(frames, names.length), rows: NewRow[] = [];
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
	for (const { caller, callee, outer, inner } of graph.calls) {
		if (outer)
			add(callers, callee, row(callee, "caller", outer, other("from", caller)));
		if (inner && caller >= 0)
			add(callees, caller, row(caller, "callee", inner, other("to", callee)));
	}
	for (const own of [...callers.values(), ...callees.values()])
		own.sort((one, two) => Number(two.total) - Number(one.total));
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
