// SPDX-License-Identifier: BSD-2-Clause
// The table of a report's view.

import type {App, View} from "../app";
import {lostCount, Table} from "../data";
import {el, replace} from "../dom";
import {groupOf, titleOf} from "../domains";
import {count} from "../format";
import {commandOf, optionsOf, tableOfChoice} from "../selection";
import {tableOfServer} from "../selection_server";
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

/** Views of which the server has more than the page can tell of what is chosen. */
const SERVER_KNOWS = ["lines", "callgraph"];

/** What is said where threads or a time are chosen, and the table is not quite that. */
function choiceNote(app: App, table: Table, whole: boolean): HTMLElement|null {
	const range = app.range(), chosen = app.chosen(), part = table.view === "callgraph";
	if ((!range && !chosen) || (!whole && !part)) return null;
	const command = commandOf(app, table.view);
	const all = [
		range ? "of the whole recording" : "", chosen ? "of all threads" : ""
	].filter(Boolean).join(" and ");
	const text = whole ?
		`This table is ${all}, whatever is chosen.${command ? " Of what is chosen:" : ""}` :
		"All calls of one function from another are one row here. With each call site by itself:";
	return whole || command ?
		el("div", { class: whole ? "warning" : "", "data-note": whole ? "whole" : "part" },
			text, command ? el("pre", {}, command) : null) :
		null;
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
 * Of what is chosen, where the page can tell; and where it cannot, as soon as the server has made
 * it, if there is one.
 */
export function reportTable(app: App, root: HTMLElement, whole: Table): void {
	const chosen = tableOfChoice(app, whole), box = el("div");
	const put = (table: Table, note: HTMLElement|null): void =>
		replace(box, note, tableWidget(app, table), sums(table));
	put(chosen ?? whole,
		chosen && !chosen.rowCount && whole.rowCount ?
			el("p", { class: "empty", "data-empty": "" },
				"None of this is of what is chosen.") :
			choiceNote(app, whole, !chosen));
	root.append(box);
	const options = optionsOf(app, whole.view);
	if (app.server && options?.length && SERVER_KNOWS.includes(whole.view) &&
		whole.column("total") >= 0)
		void tableOfServer(app, whole, options).then(table => table && put(table, null));
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
