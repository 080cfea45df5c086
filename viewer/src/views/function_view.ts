// SPDX-License-Identifier: BSD-2-Clause
// Everything about one function: who calls it and whom it calls, its arguments, its instructions
// with their values, and the commands that would tell more.

import type {App, View, ViewHandle} from "../app";
import {choiceText} from "../choice";
import type {Code, Table} from "../data";
import {factOf, isValues} from "../data";
import {bar, copyButton, el, say} from "../dom";
import {count, percent, shellWord} from "../format";
import type {Way} from "../server";
import type {FlameSource} from "../flame_source";
import {functionTotals, Neighbour, neighbours} from "../frames";
import {TableWidget} from "../table";
import {valueBars} from "../values";

const COMMAND_MAX = 120, NEIGHBOURS_SHOWN = 12, PATHS_SHOWN = 10;
/** Columns that would say in every row what the page is about. */
const KNOWN_COLUMNS = ["function", "shown_samples", "percentage"];
/** What the server records when operands are asked for. */
const OPERANDS = "result,operands,address,loaded,stored,taken,target";

/** What the page counts, and how much of it there is. */
interface Measure {
	source: FlameSource;
	all: number;
}

function metric(app: App, measure: Measure, label: string, amount: number): HTMLElement {
	return el("div", { class: "figure" }, el("b", {}, percent(amount / (measure.all || 1))),
		el("span", {}, `${measure.source.amount(app, amount)} ${label}`));
}

function capital(text: string): string { return text.charAt(0).toUpperCase() + text.slice(1); }

function neighbourTable(
	app: App, measure: Measure, title: string, list: Neighbour[], empty: string): HTMLElement {
	const { source, all } = measure, unit = source.unit(app);
	const { functions } = app.data;
	const rows = list.map((one, i) => {
		const name = one.fn < 0 ? "[the outermost function]" : functions.names[one.fn];
		const module = one.fn < 0 ? "" : functions.modules[one.fn];
		const href = one.fn < 0 ? null : app.functionHref(name, module);
		return el("tr", { hidden: i >= NEIGHBOURS_SHOWN },
			el("td", { class: "number share" }, bar(one.samples / (all || 1)),
				percent(one.samples / (all || 1))),
			el("td", { class: "number" }, source.amount(app, one.samples)),
			el("td", { class: "elastic" },
				href ? el("a", { href, class: "clip" }, el("bdi", {}, name)) :
				       name),
			el("td", { class: "module" }, module));
	});
	return el("section", { class: "card" }, el("h2", {}, title),
		list.length ?
			el("div", { class: "table-scroll" },
				el("table", { "data-neighbours": title.toLowerCase() },
					el("thead", {},
						el("tr", {},
							el("th", { class: "number", scope: "col" },
								"Of all"),
							el("th", { class: "number", scope: "col" },
								unit === "ns" ? "Time" :
										capital(unit)),
							el("th", { scope: "col" }, "Function"),
							el("th", { scope: "col" }, "Module"))),
					el("tbody", {}, ...rows)),
				moreButton(rows)) :
			el("p", { class: "empty" }, empty));
}

/** Shows the rows that are hidden at first. */
function moreButton(rows: HTMLElement[]): HTMLElement|null {
	if (rows.length <= NEIGHBOURS_SHOWN) return null;
	const button = el("button", {
		type: "button",
		class: "small",
		click: () => {
			for (const row of rows) row.hidden = false;
			button.remove();
		}
	},
		`Show all ${count(rows.length)}`);
	return button;
}

/** Where the parts of the page begin: it may be long. */
function contents(cards: HTMLElement[]): HTMLElement {
	const links = cards.filter(card => card.dataset.card).map(card => {
		const heading = card.querySelector("h2"), title = heading?.textContent ?? "";
		heading?.setAttribute("tabindex", "-1");
		return el("button", {
			type: "button",
			class: "small",
			click: () => {
				card.scrollIntoView();
				heading?.focus({ preventScroll: true });
			}
		},
			title);
	});
	return el("div",
		{ class: "tools contents", role: "group", "aria-label": "Parts of this page" },
		...links);
}

/** Rows of a report's table that are about the function. */
function rowsOf(table: Table, name: string, module: string): number[] {
	const rows: number[] = [];
	for (let row = 0; row < table.rowCount; row++) {
		if (table.text(row, "symbol") === name && table.text(row, "module") === module)
			rows.push(row);
	}
	return rows;
}

/** The first paths that lead through the function, each with all its steps. */
function pathRows(table: Table, name: string, module: string): number[] {
	const wanted = new Set(rowsOf(table, name, module)), rows: number[] = [];
	let shown = 0;
	for (let begin = 0, end = 1; begin < table.rowCount && shown < PATHS_SHOWN; begin = end++) {
		while (end < table.rowCount && table.cell(end, table.column("part")) === null)
			end++;
		const path = Array.from({ length: end - begin }, (_, i) => begin + i);
		if (!path.some(row => wanted.has(row))) continue;
		rows.push(...path);
		shown++;
	}
	return rows;
}

function tableCard(app: App, view: string, title: string, name: string, module: string,
	choose = rowsOf): HTMLElement|null {
	const table = app.data.profile.tables.find(one => one.view === view);
	const rows = table ? choose(table, name, module) : [];
	if (!table || !rows.length) return null;
	const widget = new TableWidget(table, {
		link: (a, b) => app.functionHref(a, b),
		sort: "",
		filter: "",
		rows,
		changed: () => undefined,
		plain: true,
		hide: view.startsWith("args") ? KNOWN_COLUMNS : []
	});
	return el("section", { class: "card", "data-card": table.id }, el("h2", {}, title),
		widget.element);
}

/** The share of the function's own samples that a row has, as the warmth behind it. */
function instructionRow(table: Table, row: number, open: () => void): HTMLElement {
	const self = table.number(row, "self") || table.number(row, "executed"),
	      part = table.number(row, "part");
	const values = table.cell(row, table.column("values"));
	const element = el("tr", { class: self ? "hot" : "" },
		el("td", { class: "number share" }, self > 0 && bar(part, "warm"),
			self ? count(self) : ""),
		el("td", { class: "address" },
			el("button", {
				type: "button",
				class: "place",
				title: "What to record about this instruction",
				"aria-label": `Record more about ${table.text(row, "address")} ${
					table.text(row, "text")}`,
				"aria-expanded": "false",
				"data-at": table.text(row, "address"),
				click: open
			},
				table.text(row, "address"))),
		el("td", { class: "code" }, table.text(row, "text")),
		el("td", { class: "values" }, values && isValues(values) ? valueBars(values) : ""));
	if (self) {
		element.style.setProperty("--heat", String(Math.min(1, part * 3)));
		element.dataset.heat = String(self);
	}
	return element;
}

function codeRows(app: App, code: Code): HTMLElement[] {
	const rows: HTMLElement[] = [];
	let last = "";
	for (let row = 0; row < code.table.rowCount; row++) {
		const file = code.table.text(row, "file"),
		      place = `${file}:${code.table.text(row, "line")}`;
		if (file && place !== last) {
			rows.push(el("tr", { class: "source" },
				el("td", { colspan: 2, class: "place", title: place },
					place.slice(place.lastIndexOf("/") + 1)),
				el("td", { colspan: 2, class: "code" },
					code.sources.get(place) ?? "")));
			last = place;
		}
		const address = code.table.text(row, "address");
		rows.push(instructionRow(code.table, row,
			() => app.change({ at: app.state.values.at === address ? "" : address })));
	}
	return rows;
}

/** Goes to the hottest instruction, then to the next one, and so on. */
function hottestButton(rows: HTMLElement[]): HTMLElement|null {
	const heat = (row: HTMLElement): number => Number(row.dataset.heat ?? 0);
	const hot = rows.filter(row => heat(row) > 0).sort((a, b) => heat(b) - heat(a));
	let next = 0;
	return hot.length === 0 ?
		null :
		el("button", {
			type: "button",
			class: "small hottest",
			title: "Each click goes to the next one",
			click: () => {
				hot[next].scrollIntoView({ block: "center" });
				hot[next].querySelector<HTMLElement>("button.place")?.focus({
					preventScroll: true
				});
				next = (next + 1) % hot.length;
			}
		},
			"Hottest instruction");
}

function codeCard(app: App, name: string, module: string): HTMLElement {
	const code =
		app.data.profile.codes.find(one => one.symbol === name && one.module === module);
	if (!code) {
		return el("section", { class: "card" }, el("h2", {}, "Code"),
			el("p", { class: "empty" },
				`The page has the code of the ${
					app.data.profile.codes
						.length} busiest functions; of this one, try `,
				el("code", {}, `assay annotate ${shellWord(name)}`), "."));
	}
	const rows = codeRows(app, code);
	return el("section", { class: "card", "data-card": "code" }, el("h2", {}, "Code"),
		hottestButton(rows),
		el("div", {
			class: "table-scroll code-table",
			tabindex: 0,
			role: "region",
			"aria-label": "Instructions"
		},
			el("table", {},
				el("thead", {},
					el("tr", {},
						el("th", { scope: "col", class: "number" },
							code.table.column("executed") < 0 ?
								"Samples" :
								"Executed"),
						el("th", { scope: "col" }, "Address"),
						el("th", { scope: "col" }, "Instruction"),
						el("th", { scope: "col" }, "Values"))),
				el("tbody", {}, ...rows))));
}

/** Starts what the command line beside it would; only where the server may. */
function startButton(app: App, way: Way, mark: string, title: string): HTMLElement|null {
	const { server } = app;
	if (!server?.state?.may_start) return null;
	const button = el("button", {
		class: "small start",
		type: "button",
		"data-way": way,
		"aria-label": `Start: ${title}`,
		click: () => {
			button.disabled = true;
			server.start(way, mark).then(
				() => {
					say(button, "Started");
				},
				(error: Error) => {
					say(button, error.message);
				});
		}
	},
		"Start");
	return button;
}

/** What to run next: how it is started from here, what it tells, and the command lines. */
interface Advice {
	way: Way;
	title: string;
	/** What is marked, of the way "marks". */
	mark?: string;
	text: string;
}

/** The command that the profile is of. */
function commandOf(app: App): string {
	const recorded = factOf(app.data.profile, "command");
	return recorded && recorded.length <= COMMAND_MAX ? recorded : "COMMAND";
}

function adviceList(app: App, list: Advice[]): HTMLElement[] {
	return list.map(({ way, title, mark, text }) => el("div", { class: "command" },
				el("h3", {}, title, copyButton(text, title),
					startButton(app, way, mark ?? "", title)),
				el("pre", {}, text)));
}

/** Code outside of files, as that of the kernel, has no marks. */
function isFile(module: string): boolean { return module !== "" && !module.startsWith("["); }

/** A name that was made from an address is not in the file: the address is. */
function markOf(name: string, module: string): string {
	const made = /^sub_([0-9a-f]+)$/.exec(name);
	return made && isFile(module) ? `${module}!0x${made[1]}` : name;
}

function commandsCard(app: App, name: string, module: string): HTMLElement {
	const command = commandOf(app), symbol = shellWord(name), mark = markOf(name, module);
	return el("section", { class: "card", "data-card": "commands" },
		el("h2", {}, "Record more about it"), ...adviceList(app, [
			{
				way: "values",
				title: "Which values it computes and is called with",
				text: `assay record --values -- ${command}\nassay annotate ${
					symbol}\nassay report args --symbol ${symbol}`
			},
			{
				way: "paths",
				title: "Which paths lead through it, and how often they repeat",
				text: `assay trace -- ${command}\nassay report paths --symbol ${
					symbol}`
			},
			{
				way: "counts",
				title: "How often exactly its lines are executed",
				text: `assay trace --tool count -- ${
					command}\nassay report lines --symbol ${symbol}`
			},
			{
				way: "marks",
				title: "How often it is entered, and what one visit costs",
				mark,
				text: `assay count -m ${shellWord(mark)} -- ${command}`
			},
		]));
}

/** The same of one instruction. */
function instructionAdvice(app: App, name: string, module: string, address: string): HTMLElement {
	const command = commandOf(app), symbol = shellWord(name), mark = `${module}!${address}`;
	const marked: Advice[] = isFile(module) ? [{
		way: "marks",
		title: "How often it is executed, exactly",
		mark,
		text: `assay count -m ${shellWord(mark)} -- ${command}\nassay report marks`
	}] :
						  [];
	return el("tr", { class: "advice" }, el("td", { colspan: 4 }, ...adviceList(app, [
		{
			way: "operands",
			title: "Which values it reads, computes and writes",
			text: `assay record --values=${OPERANDS} -- ${command}\nassay annotate ${
				symbol} --values ${OPERANDS}`
		},
		...marked, {
			way: "paths",
			title: "Which paths lead through it, and in which order",
			text: `assay trace -- ${command}\nassay report paths --symbol ${symbol}`
		}
	])));
}

/** Opens what is said about the instruction in the address, and closes the others. */
function showInstruction(app: App, root: HTMLElement, name: string, module: string): void {
	const { at } = app.state.values;
	root.querySelectorAll("tr.advice").forEach(one => one.remove());
	for (const button of root.querySelectorAll<HTMLElement>("button.place")) {
		const open = button.dataset.at === at;
		button.setAttribute("aria-expanded", String(open));
		button.closest("tr")?.classList.toggle("chosen-place", open);
		if (open) button.closest("tr")?.after(instructionAdvice(app, name, module, at));
	}
}

/** What it is, how much of everything it has, and its neighbours in the calls. */
function renderHead(app: App, root: HTMLElement, id: number): void {
	const { functions } = app.data, name = functions.names[id];
	const source = app.sources.find(one => one.frames(app).total(0) > 0);
	const head = el("div", { class: "function-head" },
		el("h1", { class: "function-name" }, el("bdi", {}, name)),
		el("span", { class: "module" }, functions.modules[id]));
	root.append(head);
	if (!source) return;
	const frames = source.frames(app), measure = { source, all: frames.total(0) };
	const chosen = choiceText(app.data.profile.threads, app.state.values);
	const totals = functionTotals(frames, id), around = neighbours(frames, id);
	const search = `^${name.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")}$`;
	head.append(metric(app, measure, "itself", totals.self),
		metric(app, measure, "with what it calls", totals.total),
		el("span", { class: "chosen", id: "chosen-part" }, chosen && `only of ${chosen}`),
		el("a", { class: "open", href: app.href(source.id, { search }) },
			"Find it in the flame graph"));
	root.append(el("div", { class: "columns" },
		neighbourTable(app, measure, "Callers", around.callers,
			"Nobody calls it: it begins a thread."),
		neighbourTable(app, measure, "Callees", around.callees,
			source.id === "flame" ? "It calls nothing that was sampled." :
						"It calls nothing that was recorded.")));
}

function render(app: App, root: HTMLElement): void|ViewHandle {
	const { functions, profile } = app.data, id = Number(app.state.values.fn || -1);
	const name = functions.names[id], module = functions.modules[id];
	if (name === undefined) {
		const { awaited } = app.state.values;
		root.append(el("p", { class: "empty", "data-empty": "" },
			awaited ? `${awaited.split("\n")[1]} is not in what was recorded so far.` :
				  "The page has no such function."));
		return;
	}
	renderHead(app, root, id);
	const whole = (app.range() || app.chosen()) &&
		el("p", { class: "warning", "data-note": "whole" },
			"What follows is of the whole recording and of all threads, whatever is chosen.");
	const cards = [
		whole, tableCard(app, "args", "Arguments", name, module),
		profile.codes.length > 0 && codeCard(app, name, module),
		tableCard(app, "invariants", "Invariants", name, module),
		tableCard(app, "args --by-caller", "Arguments by call site", name, module),
		tableCard(app, "callgraph", "Call sites", name, module),
		tableCard(app, "paths", "Paths through it", name, module, pathRows),
		commandsCard(app, name, module)
	].filter((card): card is HTMLElement => Boolean(card));
	root.querySelector(".function-head")?.after(contents(cards));
	root.append(...cards);
	showInstruction(app, root, name, module);
	if (app.state.values.at)
		requestAnimationFrame(() => root.querySelector(".chosen-place")?.scrollIntoView({
			block: "center"
		}));
	return { update: () => showInstruction(app, root, name, module) };
}

export const functionView: View = {
	id: "function",
	title: "Function",
	group: "",
	render
};
