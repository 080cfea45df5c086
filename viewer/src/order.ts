// SPDX-License-Identifier: BSD-2-Clause
// Tables whose rows mean something only beside each other, in another order: what belongs together
// stays together.
//
//  1. Branches of a tree are sorted below their parent, which comes before them.
//  2. A function of a call graph stays with its callers and callees, in their order.
//  3. Elsewhere a row whose first column is empty belongs to the row above it.
//  4. Groups, such as the threads of a profile, stay apart, and come by their best row.

import type {Table} from "./data";

export type Compare = (a: number, b: number) => number;

/** Rows that stay together; the first is the one that decides where. */
interface Bundle {
	key: number;
	rows: number[];
}

function split(rows: number[], begins: (row: number, before: number) => boolean): number[][] {
	const parts: number[][] = [];
	rows.forEach((row, i) => {
		if (!i || begins(row, rows[i - 1])) parts.push([]);
		parts[parts.length - 1].push(row);
	});
	return parts;
}

function best(rows: number[], compare: Compare): number {
	return rows.reduce((a, b) => compare(b, a) < 0 ? b : a);
}

function ordered(bundles: Bundle[], compare: Compare): number[] {
	return bundles.sort((a, b) => compare(a.key, b.key)).flatMap(one => one.rows);
}

/** Rows in preorder, whose depth the column of levels has. */
function sortTree(table: Table, rows: number[], compare: Compare): number[] {
	const level = (row: number): number => Number(table.cell(row, table.level) ?? 0);
	const below = new Map<number, number[]>(), path: number[] = [];
	for (const row of rows) {
		while (path.length && level(path[path.length - 1]) >= level(row)) path.pop();
		const parent = path.length ? path[path.length - 1] : -1;
		const siblings = below.get(parent) ?? [];
		siblings.push(row);
		below.set(parent, siblings);
		path.push(row);
	}
	const result: number[] = [], waiting = [-1];
	while (waiting.length) {
		const row = waiting.pop() ?? -1;
		if (row >= 0) result.push(row);
		waiting.push(...(below.get(row) ?? []).sort(compare).reverse());
	}
	return result;
}

function sortGroup(table: Table, first: number, rows: number[], compare: Compare): number[] {
	if (table.level >= 0) return sortTree(table, rows, compare);
	const bundles = split(rows, row => table.cell(row, first) !== null);
	return ordered(bundles.map(one => ({ key: best(one, compare), rows: one })), compare);
}

/** The row that a group of a call graph is about. */
function headOf(table: Table, rows: number[]): number|undefined {
	return rows.find(row => table.text(row, "relation") === "self" ||
			table.text(row, "role") === "self");
}

/** `first`: the first column that is shown. */
export function sortNested(
	table: Table, first: number, rows: number[], compare: Compare): number[] {
	const groups = table.group < 0 ?
		[rows] :
		split(rows, (a, b) => table.cell(a, table.group) !== table.cell(b, table.group));
	return ordered(groups.map(group => {
		const head = table.level < 0 ? headOf(table, group) : undefined;
		return head === undefined ? {
			key: best(group, compare),
			rows: sortGroup(table, first, group, compare)
		} :
					    { key: head, rows: group };
	}),
		compare);
}
