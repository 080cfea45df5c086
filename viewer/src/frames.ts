// SPDX-License-Identifier: BSD-2-Clause
// What a flame graph draws: frames with weights, from the root down, or from the running function
// up.
//
// Of a large profile only what is wide enough to see is ever asked for, so children are looked up
// and sorted when they are asked for. Weights are samples; `base` are those of an older profile,
// where there is one.

import type {Chosen} from "./choice";
import type {CallTree, Functions} from "./data";
import type {Range} from "./range";

export interface Frames {
	/** Node 0 is the root, which is no function. */
	total(node: number): number;
	base(node: number): number;
	self(node: number): number;
	/** -1: the root. */
	fn(node: number): number;
	parent(node: number): number;
	/** The heaviest first. */
	children(node: number): readonly number[];
}

/**
 * Of the chosen threads; null: of all, losses included. Of a range of time none are, as nobody
 * knows when.
 */
export function weigh(tree: CallTree, chosen: Chosen, range: Range|null = null): Float64Array {
	const self = new Float64Array(tree.parent.length);
	const { node, thread: owner, count, second } = tree.samples;
	for (let i = 0; i < node.length; i++) {
		const inside = !range || !second ||
			(second[i] >= range.from && second[i] < range.to && second[i] >= 0);
		if (inside && (!chosen || chosen[owner[i]])) self[node[i]] += count[i];
	}
	return self;
}

/** With everything below each node. */
export function accumulate(parent: Int32Array, self: Float64Array): Float64Array {
	const total = Float64Array.from(self);
	for (let i = parent.length - 1; i > 0; i--) total[parent[i]] += total[i];
	return total;
}

type Tree = Pick<CallTree, "parent"|"fn">;

/** Two trees as one: a node for each list of functions that either has. */
export function unite(newer: Tree, older: Tree,
	functions: Functions): {parent: Int32Array; fn: Int32Array; ofOlder: Int32Array} {
	const width = functions.names.length + 1;
	const places = new Map<number, number>();
	const parent = Array.from(newer.parent);
	const fn = Array.from(newer.fn);
	for (let i = 1; i < parent.length; i++) places.set(parent[i] * width + fn[i], i);
	const ofOlder = new Int32Array(older.parent.length);
	for (let i = 1; i < older.parent.length; i++) {
		const above = ofOlder[older.parent[i]];
		const key = above * width + older.fn[i];
		let place = places.get(key);
		if (place === undefined) {
			place = parent.length;
			places.set(key, place);
			parent.push(above);
			fn.push(older.fn[i]);
		}
		ofOlder[i] = place;
	}
	return { parent: Int32Array.from(parent), fn: Int32Array.from(fn), ofOlder };
}

/** From the root down. */
export class Downward implements Frames {
	private readonly totals: Float64Array;
	private readonly bases: Float64Array|null;
	private readonly first: Int32Array;
	private readonly list: Int32Array;
	private readonly sorted = new Map<number, number[]>();

	constructor(readonly parents: Int32Array, readonly fns: Int32Array,
		readonly selves: Float64Array, readonly baseSelves: Float64Array|null) {
		const nodes = parents.length;
		this.totals = accumulate(parents, selves);
		this.bases = baseSelves ? accumulate(parents, baseSelves) : null;
		this.first = new Int32Array(nodes + 1);
		this.list = new Int32Array(Math.max(0, nodes - 1));
		for (let i = 1; i < nodes; i++) this.first[parents[i] + 1]++;
		for (let i = 0; i < nodes; i++) this.first[i + 1] += this.first[i];
		const next = this.first.slice();
		for (let i = 1; i < nodes; i++) this.list[next[parents[i]]++] = i;
	}

	total(node: number): number { return this.totals[node]; }
	base(node: number): number { return this.bases ? this.bases[node] : 0; }
	self(node: number): number { return this.selves[node]; }
	fn(node: number): number { return node ? this.fns[node] : -1; }
	parent(node: number): number { return this.parents[node]; }

	children(node: number): readonly number[] {
		let children = this.sorted.get(node);
		if (!children) {
			children = Array.from(this.list.subarray(
						      this.first[node], this.first[node + 1]))
					   .filter(child => this.totals[child] || this.base(child));
			children.sort((a, b) => this.totals[b] - this.totals[a] ||
					this.base(b) - this.base(a) || a - b);
			this.sorted.set(node, children);
		}
		return children;
	}
}

interface Group {
	fn: number;
	parent: number;
	total: number;
	base: number;
	origins: number[];
	cursors: number[]
}

/**
 * From the running function up to its callers. A group is the samples whose innermost functions are
 * those on its path; for each of them it has where the sample was taken and how far up it has come.
 */
export class Upward implements Frames {
	private readonly groups: Group[] = [];
	private readonly known = new Map<number, number[]>();

	constructor(private readonly of : Downward) {
		const root: Group = {
			fn: -1,
			parent: 0,
			total: of.total(0),
			base: of.base(0),
			origins: [],
			cursors: []
		};
		for (let i = 1; i < of.parents.length; i++) {
			if (of.selves[i] || of.baseSelves?.[i]) {
				root.origins.push(i);
				root.cursors.push(i);
			}
		}
		this.groups.push(root);
	}

	total(node: number): number { return this.groups[node].total; }
	base(node: number): number { return this.groups[node].base; }
	fn(node: number): number { return this.groups[node].fn; }
	parent(node: number): number { return this.groups[node].parent; }

	/** What no caller of it accounts for. */
	self(node: number): number {
		return this.total(node) -
			this.children(node).reduce((sum, child) => sum + this.total(child), 0);
	}

	children(node: number): readonly number[] {
		let children = this.known.get(node);
		if (!children) {
			children = this.split(node);
			children.sort((a, b) => this.total(b) - this.total(a) ||
					this.base(b) - this.base(a) || a - b);
			this.known.set(node, children);
		}
		return children;
	}

	private split(node: number): number[] {
		const { origins, cursors } = this.groups[node];
		const byFn = new Map<number, number>();
		for (let i = 0; i < origins.length; i++) {
			const fn = this.of.fns[cursors[i]];
			if (!cursors[i]) continue;
			let id = byFn.get(fn);
			if (id === undefined) {
				id = this.groups.length;
				byFn.set(fn, id);
				this.groups.push({
					fn,
					parent: node,
					total: 0,
					base: 0,
					origins: [],
					cursors: []
				});
			}
			const group = this.groups[id];
			group.total += this.of.selves[origins[i]];
			group.base += this.of.baseSelves ? this.of.baseSelves[origins[i]] : 0;
			group.origins.push(origins[i]);
			group.cursors.push(this.of.parents[cursors[i]]);
		}
		return Array.from(byFn.values());
	}
}

/** Samples whose stack has a function that matches. */
export function matchTotal(frames: Downward, matches: Uint8Array): number {
	const inside = new Uint8Array(frames.parents.length);
	let sum = 0;
	for (let i = 1; i < frames.parents.length; i++) {
		inside[i] = matches[frames.fns[i]] || inside[frames.parents[i]];
		if (inside[i]) sum += frames.selves[i];
	}
	return sum;
}

/** Samples in a function, and with it on the stack, however often. */
export function functionTotals(frames: Downward, fn: number): {self: number; total: number} {
	const inside = new Uint8Array(frames.parents.length);
	let self = 0, total = 0;
	for (let i = 1; i < frames.parents.length; i++) {
		const is = frames.fns[i] === fn;
		inside[i] = is ? 1 : inside[frames.parents[i]];
		if (is) self += frames.selves[i];
		if (inside[i]) total += frames.selves[i];
	}
	return { self, total };
}

export interface Neighbour {
	fn: number;
	samples: number
}

/**
 * Who calls a function and whom it calls, with the samples of each. In a recursion a sample counts
 * once for each neighbour: at the outermost call.
 */
export function neighbours(
	frames: Downward, fn: number): {callers: Neighbour[]; callees: Neighbour[]} {
	const callers = new Map<number, number>(), callees = new Map<number, number>();
	const add = (map: Map<number, number>, key: number, samples: number): void => {
		map.set(key, (map.get(key) ?? 0) + samples);
	};
	const { parents, fns } = frames;
	for (let i = 1; i < parents.length; i++) {
		const above = parents[i];
		if (fns[i] === fn && !onPath(frames, above, fn, above ? fns[above] : -1))
			add(callers, above ? fns[above] : -1, frames.total(i));
		if (above && fns[above] === fn && !onPath(frames, above, fns[i], fn))
			add(callees, fns[i], frames.total(i));
	}
	const list = (map: Map<number, number>): Neighbour[] =>
		Array.from(map, ([of, samples]) => ({ fn: of, samples }))
			.filter(one => one.samples > 0)
			.sort((a, b) => b.samples - a.samples);
	return { callers: list(callers), callees: list(callees) };
}

/** Whether the call from `caller` to `callee` is already there at the node or above it. */
function onPath(frames: Downward, node: number, callee: number, caller: number): boolean {
	for (let i = node; i; i = frames.parents[i]) {
		const above = frames.parents[i];
		if (frames.fns[i] === callee && (above ? frames.fns[above] : -1) === caller)
			return true;
	}
	return false;
}
