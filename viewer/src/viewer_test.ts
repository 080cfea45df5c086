// SPDX-License-Identifier: BSD-2-Clause
// Serves: S3.
// What the pictures are computed from, without a browser. Run by node; the first failure ends it.

import {chosenThreads} from "./choice";
import {courseOf, Layout} from "./course";
import {CallTree, Column, dataOf, Functions, Table, Thread} from "./data";
import {addDomain, groupOf, groups, titleOf} from "./domains";
import {count, shellWord, visible} from "./format";
import {Downward, functionTotals, matchTotal, neighbours, unite, Upward, weigh} from "./frames";
import {sortNested} from "./order";
import {rangeOf} from "./range";
import {sumsBy} from "./selection";
import {graphOf} from "./selection_trees";
import {formatHash, keepFunction, parseHash, renumber} from "./state";

function equal(actual: unknown, expected: unknown, what: string): void {
	const [left, right] = [JSON.stringify(actual), JSON.stringify(expected)];
	if (left !== right) throw new Error(`${what}: ${left} instead of ${right}`);
}

const functions = new Functions();
const [main, walk, visit, lost] =
	["main", "walk", "visit", "[lost]"].map(name => functions.add(name, "demo"));

// main -> walk -> visit -> walk -> visit, and main -> visit; node 7 is what was lost.
function tree(): CallTree {
	return {
		parent: Int32Array.from([0, 0, 1, 2, 3, 4, 1, 0]),
		fn: Int32Array.from([-1, main, walk, visit, walk, visit, visit, lost]),
		samples: {
			node: Int32Array.from([1, 2, 3, 5, 6, 7]),
			thread: Int32Array.from([1, 1, 2, 1, 2, -1]),
			count: Float64Array.from([1, 2, 4, 8, 16, 5]),
			second: Int32Array.from([0, 1, 1, 2, 3, -1]),
		},
	};
}

/** -1: all. */
function only(thread: number): Uint8Array|null {
	return thread < 0 ? null : Uint8Array.from([0, 1, 2], one => Number(one === thread));
}

function downward(thread = -1): Downward {
	const { parent, fn } = tree();
	return new Downward(parent, fn, weigh(tree(), only(thread)), null);
}

function testDownward(): void {
	const frames = downward();
	equal(frames.total(0), 36, "the root has what was seen");
	equal(frames.children(0), [1, 7], "the heaviest child comes first");
	equal(frames.children(1), [6, 2], "children of main");
	equal([frames.total(2), frames.self(2)], [14, 2], "walk with what it calls");
	equal(downward(1).total(0), 11, "of one thread, without losses");
	const thread = (process: string): Thread =>
		({ pid: 1, tid: 1, comm: "x", process, samples: 1 });
	const threads = [thread(""), thread("cc1"), thread("ld"), thread("cc1")];
	equal(chosenThreads(threads, {}), null, "all threads");
	equal(Array.from(chosenThreads(threads, { program: "cc1" }) ?? []), [0, 1, 0, 1],
		"all threads of a program");
	equal(Array.from(chosenThreads(threads, { program: "cc1", thread: "3" }) ?? []),
		[0, 0, 0, 1], "one thread of it");
	equal(downward(1).children(1), [2], "frames without samples are left out");
}

// A stratum of 4 instructions (path 0 twice, path 1 once), run 1000 times, and 100 instructions of
// various strata.
function testCourse(): void {
	const course = courseOf({
		threads: { omitted: 0, thread: [1], instructions: [4100], stretches: [3] },
		stretches: {
			level: [1, 1, 0],
			cycle: [1, 0, 0],
			length: [4000, 100, 4100],
			trips: [1000, 7, 3007],
			hot: [0, 1, 0],
			hot_instructions: [2000, 60, 2000]
		},
		strata: { weight: [4], parts: [2] },
		parts: { path: [0, 1], trips: [2, 1], instructions: [2, 2], various: [0, 0] },
		paths: { number: [7, 8], weight: [1, 2], steps: [1, 2] },
		steps: {
			instructions: [1, 1, 1],
			name: [0, 0, 1],
			module: [2, 2, 2],
			place: [3, 3, 3]
		}
	},
		["walk", "visit", "demo", ""], functions);
	const boxes = (from: number, to: number, lane: string): unknown[] =>
		new Layout(course, course.threads[0], from, to, 1000)
			.boxes.filter(box => box.lane === lane)
			.map(box => [box.begin, box.end, box.what, box.trips]);
	equal(boxes(0, 4100, "strata"), [[0, 4000, 0, 1000], [4000, 4100, -1, 7]], "the whole run");
	equal(boxes(0, 4100, "paths"), [[0, 4100, -1, 0]], "paths that are too narrow");
	equal(boxes(1001, 1006, "strata"), [[1000, 1004, 0, 1], [1004, 1008, 0, 1]],
		"trips that are in sight");
	equal(boxes(1001, 1006, "paths"),
		[[1001, 1002, 0, 1], [1002, 1004, 1, 1], [1004, 1005, 0, 1], [1005, 1006, 0, 1]],
		"what a stratum holds");
	equal(boxes(1002, 1004, "functions"), [[1002, 1003, walk, 1], [1003, 1004, visit, 1]],
		"what a path runs through");
}

function testRecursion(): void {
	const frames = downward();
	equal(functionTotals(frames, walk), { self: 2, total: 14 }, "walk counts once");
	equal(functionTotals(frames, visit), { self: 28, total: 28 }, "visit");
	equal(neighbours(frames, walk).callers,
		[{ fn: main, samples: 14 }, { fn: visit, samples: 8 }], "callers of walk");
	equal(neighbours(frames, walk).callees, [{ fn: visit, samples: 12 }],
		"a sample counts once in a call");
	equal(matchTotal(frames, Uint8Array.from([0, 1, 0, 0])), 14,
		"samples with walk on the stack");
}

function testUpward(): void {
	const frames = new Upward(downward());
	const leaves = frames.children(0);
	equal(leaves.map(node => [frames.fn(node), frames.total(node)]),
		[[visit, 28], [lost, 5], [walk, 2], [main, 1]], "functions by their own samples");
	equal(frames.children(leaves[0]).map(node => [frames.fn(node), frames.total(node)]),
		[[main, 16], [walk, 12]], "callers of visit");
	equal(frames.self(leaves[3]), 1, "main begins the thread");
}

function testRange(): void {
	const { parent, fn } = tree();
	const range = rangeOf(tree(), { from: "1", to: "3" });
	const frames = new Downward(parent, fn, weigh(tree(), null, range), null);
	equal(frames.total(0), 14, "samples of two seconds, without losses");
	equal(rangeOf(tree(), {}), null, "nothing is chosen");
	equal(rangeOf(tree(), { from: "-5", to: "zz" }), null,
		"what makes no sense chooses nothing");
	equal(weigh(tree(), only(1), { from: 2, to: Infinity }).reduce((a, b) => a + b), 8,
		"of one thread until the end");
	const graph = graphOf(frames, 4);
	equal([Array.from(graph.total), Array.from(graph.recursive)],
		[[14, 14, 12, 0], [0, 8, 8, 0]], "recursion counts once, and is known");
	equal(graph.calls.map(one => [one.caller, one.callee, one.outer, one.inner]),
		[
			[-1, main, 14, 14], [main, walk, 14, 14], [walk, visit, 12, 12],
			[visit, walk, 0, 0]
		],
		"the caller of the outermost occurrence, and the callee of the innermost");
	const sums = sumsBy(frames, Int32Array.from([0, 1, 2, 3]), 4);
	equal(Array.from(sums.self), [0, 2, 12, 0], "in a function");
	equal(Array.from(sums.total), [14, 14, 12, 0], "with it on the stack, once each");
}

function testUnite(): void {
	const older: CallTree = {
		parent: Int32Array.from([0, 0, 1]),
		fn: Int32Array.from([-1, main, lost]),
		samples: {
			node: new Int32Array(0),
			thread: new Int32Array(0),
			count: new Float64Array(0),
			second: null
		},
	};
	const both = unite(tree(), older, functions);
	equal(Array.from(both.ofOlder), [0, 1, 8], "what only the older has is a new node");
	equal([both.parent[8], both.fn[8]], [1, lost], "below the node that both have");
}

function testTexts(): void {
	equal(visible("a\u202eb\u0007"), "a\\u202eb\\u0007", "what would be obeyed is shown");
	equal(shellWord("operator()"), "'operator()'", "words of a shell are quoted");
	equal(shellWord("it's"), "'it'\\''s'", "quotes too");
	equal(count(1234567), "1,234,567", "thousands");
	const state = { view: "flame", values: { search: "^a&b?c$", zoom: "1.2" } };
	equal(parseHash(formatHash(state)), state, "a link leads back");
	const anew = renumber({ view: "flame", values: { zoom: "4.2.9.1", fn: "2", search: "4" } },
		["fn", "zoom"], fn => fn === 9 ? undefined : fn + 10);
	equal(anew.values, { zoom: "14.12", fn: "12", search: "4" },
		"functions have other numbers in new data, up to the first that is gone");
	const page = { view: "function", values: { fn: "3" } }, nameOf = (): string => "m\nf";
	const gone = keepFunction(page, page, nameOf, () => undefined);
	equal(gone.values, { fn: "", awaited: "m\nf" }, "a function that is gone is awaited");
	equal(keepFunction(gone, gone, nameOf, name => name === "m\nf" ? 8 : undefined).values,
		{ fn: "8", awaited: "" }, "and shown when it is there again");
}

function testData(): void {
	const raw = {
		assay: 1,
		version: "1",
		difference: null,
		strings: ["f", "m", "ring_full", "full", "t"],
		profiles: [{
			name: "p",
			finished: 1,
			recordings: [],
			machines: [],
			totals: { seen: 5, kept: 3, lost: [[2, 3, 2]] },
			threads: { pid: [0, 7], tid: [0, 7], comm: [4, 4], process: [4, 4] },
			functions: { name: [0], module: [1], inlined: [0] },
			tree: { parent: [1, 1], function: [0, 0] },
			samples: { node: [1, 1], thread: [1, 1], count: [1, 2] },
			ticks: { second: [], thread: [], count: [] },
			tables: [],
			codes: [],
		}],
	};
	const { profile } = dataOf(JSON.stringify(raw));
	equal(Array.from(profile.tree.parent), [0, 0, 1, 0], "parents are differences");
	equal(Array.from(profile.tree.samples.node), [1, 2, 3],
		"nodes too, and what was lost is one");
	equal(weigh(profile.tree, null).reduce((sum, one) => sum + one), 5,
		"all is there that was seen");
	equal(profile.threads[1].samples, 3, "samples of a thread");
}

/** Columns of numbers; `level` and `group` are the numbers of theirs. */
function table(names: string[], data: (number|null)[][], level: number, group: number): Table {
	const columns = names.map((name): Column => ({
		name,
		title: name,
		kind: "count",
		use: "everywhere",
		elastic: 0,
		optional: 0
	}));
	const totals = { seen: 0, kept: 0, lost: [] };
	return new Table({
		view: "test",
		summary: "",
		nested: 1,
		totals,
		omitted: 0,
		level,
		group,
		columns,
		data
	},
		[]);
}

function testOrder(): void {
	const order = (of: Table, by: number): number[] => sortNested(of, 0,
		Array.from({ length: of.rowCount }, (_, row) => row),
		(a, b) => Number(of.cell(b, by) ?? -1) - Number(of.cell(a, by) ?? -1) || a - b);
	// 0 has 1, which has 2, and 3; 4 stands beside it.
	const tree = table(["total", "self", "level"],
		[[10, 6, 2, 4, 5], [0, 4, 2, 4, 9], [0, 1, 2, 1, 0]], 2, -1);
	equal(order(tree, 1), [4, 0, 1, 2, 3], "branches stay below their parent");
	const paths = table(["share", "blocks"], [[3, null, 2, null], [1, 5, 2, 7]], -1, -1);
	equal(order(paths, 1), [2, 3, 0, 1], "what says nothing in front belongs to what is above");
	const threads = table(["share", "tid"], [[1, 5, 9], [7, 7, 8]], -1, 1);
	equal(order(threads, 0), [2, 1, 0], "groups stay apart");
}

function testDomains(): void {
	addDomain({ group: "Trust", order: 90, tables: { losses: "" } });
	addDomain({ group: "Waits", order: 40, tables: { wakers: "Who wakes whom" } });
	equal(groups(), ["Waits", "More", "Trust"], "headings in their order");
	equal([groupOf("wakers"), groupOf("unheard")], ["Waits", "More"], "where a table belongs");
	equal([titleOf("wakers"), titleOf("losses")], ["Who wakes whom", "Losses"], "titles");
}

[testCourse, testDomains, testDownward, testOrder, testRange, testRecursion, testUpward, testUnite,
	testTexts, testData]
	.forEach(test => test());
