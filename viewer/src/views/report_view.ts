// SPDX-License-Identifier: BSD-2-Clause
// The table of a report's view.

import type {App, View} from "../app";
import {lostCount, Table} from "../data";
import {el, replace} from "../dom";
import {groupOf, titleOf} from "../domains";
import {count} from "../format";
import {rangeCommand, tableInRange} from "../range";
import {tableOfServer} from "../range_server";
import {TableWidget} from "../table";

/** A summary is part of a sentence in other places. */
export function sentence(text: string): string {
	return `${text.charAt(0).toUpperCase()}${text.slice(1)}.`;
}

/** Seen is what was kept and what was lost, in every view. */
function sums(table: Table): HTMLElement {
	const { seen, kept } = table.totals, runs = table.runs;
	return el("p", { class: "sums" },
		`seen ${count(seen)} = kept ${count(kept)} + lost ${
			count(lostCount(table.totals))}`,
		runs &&
			` · runs interpreted: seen ${count(runs.seen)} = kept ${
				count(runs.kept)} + lost ${count(lostCount(runs))}`);
}

/** Views that a report makes of a stretch of time, and the page does not, or not with all rows. */
const REPORT_KNOWS: Record<string, string> = {
	lines: "This table is of the whole recording. Of the time that is chosen:",
	callgraph:
		"All calls of one function from another are one row here. With each call site by itself:"
};

/** What is said where a time is chosen. */
function rangeNote(app: App, table: Table, whole: boolean): HTMLElement|null {
	const range = app.range(), text = REPORT_KNOWS[table.view];
	if (!range || (!whole && !text)) return null;
	return el("div", { class: whole ? "warning" : "", "data-note": whole ? "whole" : "part" },
		text ?? "This table is of the whole recording, whatever time is chosen.",
		text ? el("pre", {}, rangeCommand(app, table.view, range)) : null);
}

function tableWidget(app: App, table: Table): HTMLElement {
	const { values } = app.state;
	return new TableWidget(table, {
		link: (symbol, module) => app.functionHref(symbol, module),
		sort: values.sort ?? "",
		filter: values.filter ?? "",
		changed: changes => app.change(changes)
	}).element;
}

/**
 * Of the time that is chosen, where the table follows from samples alone; and where it does not,
 * as soon as the server has made it, if there is one.
 */
export function reportTable(app: App, root: HTMLElement, whole: Table): void {
	const chosen = tableInRange(app, whole), range = app.range(), box = el("div");
	const put = (table: Table, note: HTMLElement|null): void =>
		replace(box, note, tableWidget(app, table), sums(table));
	put(chosen ?? whole, rangeNote(app, whole, !chosen));
	root.append(box);
	if (range && app.server && whole.view in REPORT_KNOWS)
		void tableOfServer(app, whole, range).then(table => table && put(table, null));
}

export function reportView(table: Table): View {
	const title = titleOf(table.view);
	return {
		id: table.id,
		title,
		group: groupOf(table.view),
		empty: !table.rowCount,
		render: (app, root) => {
			root.append(el("h1", {}, title),
				el("p", { class: "summary" }, sentence(table.summary)));
			reportTable(app, root, table);
			return { update: () => undefined };
		}
	};
}
