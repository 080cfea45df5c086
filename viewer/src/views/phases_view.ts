// SPDX-License-Identifier: BSD-2-Clause
// The whole run of each thread as bands: phases that are alike have one colour. The table below has
// what was hot in each.

import type {App, View} from "../app";
import type {Table} from "../data";
import {el} from "../dom";
import {count, percent, short} from "../format";
import {tableOfChoice} from "../selection";
import {reportTable, sentence} from "./report_view";

export const HUES = [212, 28, 155, 340, 275, 48, 190, 100];

export interface Phase {
	row: number;
	tid: number;
	label: number;
	name: string;
	begin: number;
	end: number;
	number: number
}

/** A phase has a row for each of its hot paths; the first one stands for it. */
export function phasesOf(table: Table): Phase[] {
	const seen = new Set<string>(), phases: Phase[] = [];
	for (let row = 0; row < table.rowCount; row++) {
		const phase = {
			row,
			tid: table.number(row, "tid"),
			label: table.number(row, "label"),
			name: table.text(row, "shown_label"),
			begin: table.number(row, "begin"),
			end: table.number(row, "end"),
			number: table.number(row, "phase")
		};
		const key = `${phase.tid}:${phase.begin}`;
		if (!seen.has(key) && phase.end > phase.begin) {
			seen.add(key);
			phases.push(phase);
		}
	}
	return phases;
}

function band(app: App, table: Table, phase: Phase, all: number): HTMLElement {
	const share = (phase.end - phase.begin) / all;
	const where = table.text(phase.row, "where");
	const text = `Phase ${phase.name}: instructions ${count(phase.begin)} to ${
			     count(phase.end)}, ${percent(share)} of the thread` +
		(where ? `, hottest in ${where}` : "");
	const href =
		app.functionHref(table.text(phase.row, "symbol"), table.text(phase.row, "module"));
	const element = href ?
		el("a", { class: "phase", href, title: text, "aria-label": text }) :
		el("span", { class: "phase", title: text, role: "img", "aria-label": text });
	element.style.left = `${100 * phase.begin / all}%`;
	element.style.width = `${100 * share}%`;
	element.style.setProperty("--hue", String(HUES[Math.abs(phase.label) % HUES.length]));
	if (share > 0.04) element.append(phase.name);
	return element;
}

function picture(app: App, table: Table): HTMLElement {
	const phases = phasesOf(table), tids = Array.from(new Set(phases.map(phase => phase.tid)));
	return el("div", { class: "phases card" }, ...tids.map(tid => {
		const own = phases.filter(phase => phase.tid === tid);
		const all = own.reduce((last, phase) => Math.max(last, phase.end), 1);
		return el("div", { class: "phase-lane" },
			el("h2", {}, `Thread ${tid}: ${count(own.length)} phases`),
			el("div", { class: "phase-bands" },
				...own.map(phase => band(app, table, phase, all))),
			el("div", { class: "phase-axis" }, el("span", {}, "0"),
				el("span", {}, `${short(all)} instructions`)));
	}));
}

export function phasesView(table: Table): View {
	return {
		id: "phases",
		title: "Phases",
		group: "Execution",
		render: (app, root) => {
			root.append(el("h1", {}, "Phases"),
				el("p", { class: "summary" }, sentence(table.summary)));
			const chosen = tableOfChoice(app, table) ?? table;
			if (chosen.rowCount) root.append(picture(app, chosen));
			reportTable(app, root, table);
			return { update: () => undefined };
		}
	};
}
