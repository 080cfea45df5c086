// SPDX-License-Identifier: BSD-2-Clause
// A table of a view: sorted by a click on a column, filtered by a pattern, rows added as they come
// into sight.

import type {Cell, Column, Table} from "./data";
import {isValues} from "./data";
import {bar, el, replace} from "./dom";
import {count, percent, rounded, signedPercent} from "./format";
import {helpOf} from "./help";
import {sortNested} from "./order";
import {valueBars} from "./values";

const CHUNK = 150;
const NARROW = "(max-width: 760px)";
/** Columns that lead to a function, and the column of its name. */
const FUNCTION_COLUMNS = ["function", "where", "symbol"];
/** Columns that say what the values of a row are of. */
const ABOUT_VALUES = ["what", "text", "item"];

export interface TableOptions {
	/** Where a row's function is shown; null: nowhere. */
	link(symbol: string, module: string): string|null;
	/** The column sorted by, and whether the smallest comes first. */
	sort: string;
	filter: string;
	/** Rows that are shown at all; undefined: every one. */
	rows?: number[];
	changed(values: { sort?: string; filter?: string }): void;
	/** Leaves out the tools above the table. */
	plain?: boolean;
	/** Columns that are left out. */
	hide?: string[];
}

export class TableWidget {
	readonly element = el("div", { class: "table-widget" });
	private readonly columns: number[];
	private readonly body = el("tbody");
	private readonly status = el("p", { class: "table-status", role: "status" });
	private rows: number[] = [];
	private shown = 0;
	private readonly watcher: IntersectionObserver;
	private readonly end = el("div", { class: "table-end" });

	constructor(private readonly table: Table, private options: TableOptions) {
		this.columns = table.columns.map((_, i) => i)
				       .filter(i => this.isShown(table.columns[i], i));
		if (matchMedia(NARROW).matches)
			this.columns.sort((a, b) => this.rank(a) - this.rank(b) || a - b);
		this.watcher = new IntersectionObserver(seen => {
			if (seen.some(one => one.isIntersecting)) this.more();
		});
		this.render();
	}

	/** On a small screen what a row is about comes first: the rest may lie beyond the edge. */
	private rank(index: number): number {
		const column = this.table.columns[index];
		if (FUNCTION_COLUMNS.includes(column.name) || column.name === "mark") return 0;
		if (column.kind === "values") return 2;
		return this.hasValues() && ABOUT_VALUES.includes(column.name) ? 1 : 3;
	}

	private hasValues(): boolean {
		return this.table.columns.some(one => one.kind === "values");
	}

	/** What is empty in every row takes no room. */
	private isShown(column: Column, index: number): boolean {
		if (column.use === "data" || this.options.hide?.includes(column.name)) return false;
		const rows = this.everyRow();
		return (!column.optional && (column.kind !== "text" || !rows.length)) ||
			rows.some(row => (this.table.cell(row, index) ?? "") !== "");
	}

	private everyRow(): number[] {
		return this.options.rows ??
			Array.from({ length: this.table.rowCount }, (_, i) => i);
	}

	private render(): void {
		const tools = this.options.plain ? null : this.tools();
		this.element.append(...(tools ? [tools] : []),
			el("div", {
				class: "table-scroll",
				tabindex: 0,
				role: "region",
				"aria-label": `Table ${this.table.view}`
			},
				el("table", { class: this.hasValues() ? "has-values" : "" },
					this.header(), this.body)),
			this.end, this.status, ...this.notes());
		this.refresh();
		this.watcher.observe(this.end);
	}

	/** Why there is nothing, and what the columns mean. */
	private notes(): HTMLElement[] {
		const { table, options } = this;
		if (!table.rowCount && table.empty)
			return [el("p", { class: "empty", "data-empty": "" }, table.empty)];
		const known = this.columns.map(index => table.columns[index])
				      .filter(one => helpOf(table.view, one.name));
		if (options.plain || !table.rowCount || !known.length) return [];
		return [el("details", { class: "help" }, el("summary", {}, "What the columns mean"),
			el("dl", {},
				...known.flatMap(
					one => [el("dt", {}, one.title),
						el("dd", {}, helpOf(table.view, one.name))])))];
	}

	private tools(): HTMLElement {
		const input = el("input", {
			type: "search",
			placeholder: "Filter rows (regular expression)",
			"aria-label": "Filter rows",
			value: this.options.filter,
			input: () => {
				this.options.filter = input.value;
				this.options.changed({ filter: input.value });
				this.refresh();
			}
		});
		return el("div", { class: "tools" }, input);
	}

	private header(): HTMLElement {
		return el("thead", {}, el("tr", {}, ...this.columns.map(index => {
			const column = this.table.columns[index];
			const numeric = isNumeric(column) ? "number" : "";
			const cell = el("th", {
				scope: "col",
				class: numeric,
				"data-column": column.name,
				title: helpOf(this.table.view, column.name) || null
			});
			if (this.options.plain)
				cell.textContent = column.title;
			else
				cell.append(el("button", {
					type: "button",
					class: "sort",
					click: () => this.sortBy(column)
				},
					column.title));
			return cell;
		})));
	}

	private sortBy(column: Column): void {
		const [name, order] = this.options.sort.split(":");
		const turned = name === column.name && order !== "up" && this.options.sort !== "";
		this.options.sort = turned ? `${column.name}:up` : column.name;
		this.options.changed({ sort: this.options.sort });
		this.refresh();
	}

	private refresh(): void {
		this.rows = this.sorted(this.filtered(this.everyRow()));
		this.shown = 0;
		replace(this.body);
		this.more();
		for (const cell of this.element.querySelectorAll("th")) {
			const [name, order] = this.options.sort.split(":");
			const is = cell.dataset.column === name && this.options.sort !== "";
			const numeric = cell.classList.contains("number");
			if (is)
				cell.setAttribute("aria-sort",
					(order === "up") === numeric ? "ascending" : "descending");
			else
				cell.removeAttribute("aria-sort");
		}
		const hidden = this.everyRow().length - this.rows.length;
		this.status.textContent = this.options.plain ? "" : [
			`${count(this.rows.length)} ${this.rows.length === 1 ? "row" : "rows"}`,
			hidden ? `${count(hidden)} filtered out` : "",
			this.table.omitted ?
				`${count(this.table.omitted)} more entries are not on this page; ` +
					`assay report ${this.table.view} has them` :
				"",
		].filter(Boolean).join(" · ");
	}

	private filtered(rows: number[]): number[] {
		const pattern = patternOf(this.options.filter);
		if (!pattern) return rows;
		return rows.filter(row => this.columns.some(index => pattern.test(cellText(
								    this.table.cell(row, index)))));
	}

	/**
	 * Numbers fall and texts rise, as in reports; what is missing comes last, and what belongs
	 * together stays together.
	 */
	private sorted(rows: number[]): number[] {
		const [name, order] = this.options.sort.split(":");
		const index = this.table.column(name);
		if (index < 0) return rows;
		const sign =
			(order === "up" ? -1 : 1) * (isNumeric(this.table.columns[index]) ? -1 : 1);
		const compare = (a: number, b: number): number =>
			compareCells(this.table.cell(a, index), this.table.cell(b, index), sign) ||
			a - b;
		return this.table.nested ?
			sortNested(this.table, Math.min(...this.columns), rows, compare) :
			rows.slice().sort(compare);
	}

	private more(): void {
		const until = Math.min(this.rows.length, this.shown + CHUNK);
		let group: Cell = this.shown ? this.groupOf(this.rows[this.shown - 1]) : null;
		for (; this.shown < until; this.shown++) {
			const row = this.rows[this.shown];
			const begins = this.table.group >= 0 && this.shown > 0 &&
				this.groupOf(row) !== group;
			group = this.groupOf(row);
			this.body.append(this.row(row, begins));
		}
	}

	private groupOf(row: number): Cell {
		return this.table.group >= 0 ? this.table.cell(row, this.table.group) : null;
	}

	private row(row: number, begins: boolean): HTMLElement {
		const head = this.table.text(row, "relation") === "self";
		return el("tr", { class: [begins ? "group" : "", head ? "head" : ""].join(" ") },
			...this.columns.map(index => this.cell(row, index)));
	}

	private cell(row: number, index: number): HTMLElement {
		const column = this.table.columns[index], value = this.table.cell(row, index);
		const element = el("td", {
			class: [
				isNumeric(column) ? "number" : "", column.elastic ? "elastic" : "",
				column.kind, column.name === "timeline" ? "mono" : ""
			].join(" ")
		});
		if (value === null) return element;
		if (isValues(value))
			element.append(valueBars(value));
		else if (column.kind === "share")
			element.append(bar(value as number), percent(value as number));
		else if (column.kind === "delta")
			this.delta(element, value as number);
		else if (column.kind === "bool")
			element.textContent = value ? "yes" : "no";
		else if (typeof value === "string" && column.name === "when")
			element.append(whenBar(value));
		else if (typeof value === "string" && column.kind === "text")
			this.textCell(element, row, column, value);
		else
			element.textContent = cellText(value, column);
		return element;
	}

	private delta(element: HTMLElement, value: number): void {
		element.classList.add(value > 0 ? "grew" : "shrank");
		element.textContent = signedPercent(value);
	}

	/** A row of a call graph leads to the other end of the call. */
	private target(row: number): string|null {
		const other = this.table.text(row, "other");
		return other ? this.options.link(other, this.table.text(row, "other_module")) :
			       this.options.link(this.table.text(row, "symbol"),
				       this.table.text(row, "module"));
	}

	private textCell(element: HTMLElement, row: number, column: Column, text: string): void {
		const target = FUNCTION_COLUMNS.includes(column.name) ? this.target(row) : null;
		const indent = this.table.level >= 0 && column.elastic ?
			Number(this.table.cell(row, this.table.level) ?? 0) :
			0;
		const inner = target ?
			el("a", { href: target }, el("bdi", {}, text)) :
			column.name === "place" ?
			el("span", { class: "clip-start" }, el("bdi", { dir: "ltr" }, text)) :
			el("bdi", {}, text);
		inner.classList.add("clip");
		element.title = text.slice(0, 500);
		if (indent) element.style.paddingLeft = `${8 + Math.min(40, indent) * 12}px`;
		element.append(inner);
	}
}

/** The bar of a report's text, such as "..##....", as a picture. */
function whenBar(text: string): HTMLElement {
	const first = text.indexOf("#"), last = text.lastIndexOf("#") + 1;
	const fill = el("span", { class: "when-fill" });
	fill.style.left = `${100 * first / text.length}%`;
	fill.style.width = `${100 * (last - first) / text.length}%`;
	return el("span", {
		class: "when",
		role: "img",
		"aria-label": `${percent(first / text.length, 0)} to ${
			percent(last / text.length, 0)} of the run`
	},
		fill);
}

export function patternOf(text: string): RegExp|null {
	if (!text) return null;
	try {
		return new RegExp(text, "i");
	} catch {
		return new RegExp(text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"), "i");
	}
}

function isNumeric(column: Column): boolean { return !["text", "values"].includes(column.kind); }

function cellText(cell: Cell, column?: Column): string {
	if (cell === null) return "";
	if (isValues(cell)) return [cell.label, ...cell.common.map(value => value.text)].join(" ");
	if (typeof cell === "string") return cell;
	if (column?.kind === "integer") return String(cell);
	return Number.isInteger(cell) ? count(cell) : rounded(cell);
}

function sortKey(cell: Cell): number|string {
	if (isValues(cell)) return -(cell.common[0]?.share ?? 0);
	if (typeof cell === "string" && cell.startsWith("0x")) return Number(cell);
	return cell ?? 0;
}

function compareCells(a: Cell, b: Cell, sign: number): number {
	if (a === null || b === null) return (a === null ? 1 : 0) - (b === null ? 1 : 0);
	const left = sortKey(a), right = sortKey(b);
	return left === right ? 0 : (left < right ? -1 : 1) * sign;
}
