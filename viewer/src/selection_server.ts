// SPDX-License-Identifier: BSD-2-Clause
// Tables of what is chosen that only the whole profile can give: the server has it. An answer is
// what `assay report --json` prints; columns that are only for people are put together here.

import type {App} from "./app";
import type {NewRow, Table} from "./data";
import {visible} from "./format";
import {titled} from "./selection_trees";

const ROWS_MAX = 5000;

function placeOf(row: NewRow): string {
	return row.file ? (row.line ? `${row.file}:${row.line}` : String(row.file)) : "";
}

/** What a row of a call graph says about the function, its caller or its callee. */
function callText(row: NewRow): string {
	const words: Record<string, string> = { caller: "from", callee: "to" };
	const word = words[String(row.relation)];
	if (word) return `  ${word} ${row.other ?? "outside"}`;
	return row.relation === "self" ? titled(String(row.symbol), String(row.module)) :
					 "  more than once on the stack";
}

function forPeople(row: NewRow): NewRow {
	const call = row.relation !== undefined;
	return {
		...row,
		place: placeOf(row),
		function: call ? callText(row) : row.symbol,
		site: call && row.relation !== "self" ? row.address : null
	};
}

function harmless(row: NewRow): NewRow {
	return Object.fromEntries(Object.entries(row).map(
		([name, cell]) => [name, typeof cell === "string" ? visible(cell) : cell]));
}

/** null: the server does not answer any more. */
export async function tableOfServer(
	app: App, table: Table, options: [string, string][]): Promise<Table|null> {
	try {
		const chosen = options.map(([name, value]) => `${name}=${value}`).join("&");
		const query = `${table.view}?${chosen}&limit=${ROWS_MAX}`;
		const answer = await app.server?.report(query);
		return answer ?
			table.refill(answer.rows.map(harmless).map(forPeople), answer.omitted) :
			null;
	} catch {
		return null;
	}
}
