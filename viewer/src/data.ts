// SPDX-License-Identifier: BSD-2-Clause
// The data of a page, as `assay html` writes it (README.md) and as the views use it.

import {Course, courseOf, RawCourse} from "./course";
import {visible} from "./format";

export type ColumnKind = "text"|"count"|"integer"|"address"|"share"|"delta"|"real"|"bool"|"values";

export interface Column {
	name: string;
	title: string;
	kind: ColumnKind;
	use: "everywhere"|"data"|"people";
	elastic: number;
	optional: number;
}

/** text, count, share, low, high */
type RawValue = [number, number, number, number, number];
/** label, distinct values, the most common ones */
type RawValues = [number, number, RawValue[]];
type RawCell = number|string|null|RawValues;

interface RawTotals {
	seen: number;
	kept: number;
	lost: [number, number, number][]
}

interface RawTable {
	view: string;
	summary: string;
	nested?: number;
	totals: RawTotals;
	runs?: RawTotals;
	/** Why there are no rows. */
	empty?: number;
	omitted: number;
	level: number;
	group: number;
	columns: Column[];
	data: RawCell[][];
}

interface RawRecording {
	kind: string;
	unit: string;
	started: number;
	duration: number;
	parts: number;
	totals: RawTotals;
	facts: [string, string][];
}

interface RawFlame {
	name: string;
	metrics: Metric[];
	functions: { name: number[]; module: number[] };
	tree: { parent: number[]; function: number[] };
	rows: { node: number[]; thread: number[]; label: number[]; amounts: number[][] };
}

interface RawProfile {
	name: string;
	finished: number;
	recordings: RawRecording[];
	machines: Machine[];
	totals: RawTotals;
	threads: { pid: number[]; tid: number[]; comm: number[]; process: number[] };
	functions: { name: number[]; module: number[]; inlined: number[] };
	tree: { parent: number[]; function: number[] };
	samples: { node: number[]; thread: number[]; count: number[]; second?: number[] };
	ticks: { first?: number; second: number[]; thread: number[]; count: number[] };
	cpus?: { second: number[]; cpu: number[]; count: number[] };
	tables: RawTable[];
	codes: { symbol: number; module: number; sources: [number, number][]; table: RawTable }[];
	flames?: RawFlame[];
	course?: RawCourse;
}

interface RawData {
	assay: number;
	version: string;
	profiles: RawProfile[];
	difference: RawTable|null;
	strings: string[];
}

export interface Machine {
	host: string;
	kernel: string;
	architecture: string
}

/**
 * What one activity recorded; facts are [name, text], of one that was merged a name may come
 * twice.
 */
export interface Recording {
	kind: string;
	unit: string;
	/** ns since 1970, and ns. */
	started: number;
	duration: number;
	parts: number;
	totals: Totals;
	facts: [string, string][];
}

export interface Loss {
	reason: string;
	text: string;
	count: number
}
export interface Totals {
	seen: number;
	kept: number;
	lost: Loss[]
}

export interface CommonValue {
	text: string;
	count: number;
	share: number;
	low: number;
	high: number
}
export interface Values {
	label: string;
	distinct: number;
	common: CommonValue[]
}
export type Cell = string|number|Values|null;

export function isValues(cell: Cell): cell is Values {
	return typeof cell === "object" && cell !== null;
}

/** A row by the names of columns. */
export type NewRow = Record<string, string|number|null>;

export class Table {
	/** What comes behind `assay report` to print it: "args", "args --by-caller". */
	readonly view: string;
	/** The same as a word, for addresses. */
	readonly id: string;
	readonly summary: string;
	readonly nested: boolean;
	readonly totals: Totals;
	readonly runs: Totals|null;
	/** Why there are no rows; "": there are some. */
	readonly empty: string;
	readonly omitted: number;
	readonly level: number;
	readonly group: number;
	readonly columns: Column[];
	readonly rowCount: number;

	constructor(private readonly raw: RawTable, private readonly strings: string[]) {
		this.view = raw.view;
		this.id = raw.view.replace(/[^a-z]+/g, "-");
		this.summary = raw.summary;
		this.nested = Boolean(raw.nested);
		this.totals = totals(raw.totals, strings);
		this.runs = raw.runs ? totals(raw.runs, strings) : null;
		this.empty = raw.empty === undefined ? "" : strings[raw.empty];
		this.omitted = raw.omitted;
		this.level = raw.level;
		this.group = raw.group;
		this.columns = raw.columns;
		this.rowCount = raw.data.length ? raw.data[0].length : 0;
	}

	/** -1: there is no such column. */
	column(name: string): number {
		return this.columns.findIndex(column => column.name === name);
	}

	cell(row: number, column: number): Cell {
		const cell = column < 0 ? null : this.raw.data[column][row];
		if (cell === null) return null;
		if (Array.isArray(cell)) return values(cell, this.strings);
		if (this.columns[column].kind === "text") return this.strings[cell as number];
		return cell;
	}

	text(row: number, name: string): string {
		const cell = this.cell(row, this.column(name));
		return typeof cell === "string"		? cell :
			cell === null || isValues(cell) ? "" :
							  String(cell);
	}

	/**
	 * The same columns with other rows and numbers: those of `rows`, with what `change` says.
	 * What is unknown of them is not shown.
	 */
	derive(rows: number[], change: Record<string, (row: number) => number | null>,
		unknown: string[] = []): Table {
		const columns = this.columns.map(
			one => unknown.includes(one.name) ? {...one, use: "data" as const} : one);
		const data = this.columns.map((column, i) => {
			const numbers = change[column.name];
			return rows.map(row => numbers ? numbers(row) : this.raw.data[i][row]);
		});
		return new Table({...this.raw, columns, data }, this.strings);
	}

	/** The same columns with rows of their own; what a row does not name is empty. */
	refill(rows: NewRow[], omitted = 0): Table {
		const texts: string[] = [], before = this.strings.length;
		const data = this.columns.map(column => rows.map(row => {
			const cell = row[column.name] ?? null;
			return column.kind === "text" && typeof cell === "string" ?
				before + texts.push(cell) - 1 :
				cell;
		}));
		return new Table({...this.raw, data, omitted }, this.strings.concat(texts));
	}

	number(row: number, name: string): number {
		const cell = this.cell(row, this.column(name));
		return typeof cell === "number" ? cell : 0;
	}
}

function values(raw: RawValues, strings: string[]): Values {
	return {
		label: strings[raw[0]],
		distinct: raw[1],
		common: raw[2].map(value => ({
			text: strings[value[0]],
			count: value[1],
			share: value[2],
			low: value[3],
			high: value[4]
		}))
	};
}

function totals(raw: RawTotals, strings: string[]): Totals {
	return {
		seen: raw.seen,
		kept: raw.kept,
		lost: raw.lost.map(([reason, text, count]) => (
					   { reason: strings[reason], text: strings[text], count }))
	};
}

export function lostCount(of: Totals): number {
	return of.lost.reduce((sum, loss) => sum + loss.count, 0);
}

/**
 * Functions of all profiles of the page. Those of one name in one module are one function here,
 * inlined or not. Losses are functions too, so that a flame graph is as wide as what was seen.
 */
export class Functions {
	readonly names: string[] = [];
	readonly modules: string[] = [];
	private readonly ids = new Map<string, number>();

	add(name: string, module: string): number {
		const key = `${module}\n${name}`;
		let id = this.ids.get(key);
		if (id === undefined) {
			id = this.names.length;
			this.ids.set(key, id);
			this.names.push(name);
			this.modules.push(module);
		}
		return id;
	}

	find(name: string, module: string): number|undefined {
		return this.findKey(`${module}\n${name}`);
	}

	/** By module and name, with a line break between them. */
	findKey(key: string): number|undefined { return this.ids.get(key); }
}

/** A module that stands for no code: losses. */
export const LOST_MODULE = "[lost]";

export interface Thread {
	pid: number;
	tid: number;
	comm: string;
	process: string;
	samples: number
}

/** Node 0 is the root; a node comes after its parent. thread -1: of nobody known. */
export interface CallTree {
	parent: Int32Array;
	fn: Int32Array;
	samples: {
		node: Int32Array; thread: Int32Array; count: Float64Array;
		/** When the moment of a sample begins; -1: not known. null: of none. */
		second: Int32Array | null
	};
}

export interface Metric {
	name: string;
	title: string;
	/** "ns", or what is counted. */
	unit: string;
}

/** A call tree of something other than samples: waits, calls. */
export interface WeightedTree {
	name: string;
	metrics: Metric[];
	parent: Int32Array;
	fn: Int32Array;
	rows: {
		node: Int32Array; thread: Int32Array;
		/** Why a thread waited; of calls "". */
		label: string[];
		/** By metric. */
		amounts: Float64Array[]
	};
}

export interface Code {
	symbol: string;
	module: string;
	sources: Map<string, string>;
	table: Table
}

export interface Profile {
	name: string;
	finished: boolean;
	recordings: Recording[];
	machines: Machine[];
	totals: Totals;
	threads: Thread[];
	tree: CallTree;
	/** first: what `assay report --from` calls second 0 of the page. */
	ticks: { first: number; second: Int32Array; thread: Int32Array; count: Float64Array };
	/** Samples seen by each CPU. */
	cpus: { second: number[]; cpu: number[]; count: number[] };
	tables: Table[];
	codes: Code[];
	flames: WeightedTree[];
	/** What threads repeated when; null: the profile does not have it. */
	course: Course|null;
}

export interface Data {
	version: string;
	functions: Functions;
	/** The profile that the page is about. */
	profile: Profile;
	/** An older one that it is compared with. */
	older: Profile|null;
	difference: Table|null;
}

/** A fact of whichever recording has it; "" if none has. */
export function factOf(profile: Profile, name: string): string {
	for (const recording of profile.recordings) {
		const found = recording.facts.find(([key]) => key === name);
		if (found) return found[1];
	}
	return "";
}

/** Adds up differences from one entry to the next. */
function sums(differences: number[], extra: number): Int32Array {
	const result = new Int32Array(differences.length + extra);
	let sum = 0;
	for (let i = 0; i < differences.length; i++) result[i] = sum += differences[i];
	return result;
}

function callTree(raw: RawProfile, lost: Loss[], fns: number[], functions: Functions): CallTree {
	const nodes = raw.tree.parent.length + 1;
	const parent = new Int32Array(nodes + lost.length);
	const fn = new Int32Array(nodes + lost.length).fill(-1);
	for (let i = 1; i < nodes; i++) {
		parent[i] = i - raw.tree.parent[i - 1];
		fn[i] = fns[raw.tree.function [i - 1]];
	}
	const samples = raw.samples.node.length;
	const node = sums(raw.samples.node, lost.length);
	const thread = new Int32Array(samples + lost.length).fill(-1);
	const counts = new Float64Array(samples + lost.length);
	thread.set(raw.samples.thread);
	counts.set(raw.samples.count);
	lost.forEach((loss, i) => {
		fn[nodes + i] = functions.add(`[lost: ${loss.reason}]`, LOST_MODULE);
		node[samples + i] = nodes + i;
		counts[samples + i] = loss.count;
	});
	const second = raw.samples.second ? sums(raw.samples.second, lost.length) : null;
	second?.fill(-1, samples);
	return { parent, fn, samples: { node, thread, count: counts, second } };
}

function weightedTree(raw: RawFlame, strings: string[], functions: Functions): WeightedTree {
	const fns = raw.functions.name.map(
		(name, i) => functions.add(strings[name], strings[raw.functions.module[i]]));
	const nodes = raw.tree.parent.length + 1;
	const parent = new Int32Array(nodes), fn = new Int32Array(nodes).fill(-1);
	for (let i = 1; i < nodes; i++) {
		parent[i] = i - raw.tree.parent[i - 1];
		fn[i] = fns[raw.tree.function [i - 1]];
	}
	return {
		name: raw.name,
		metrics: raw.metrics,
		parent,
		fn,
		rows: {
			node: sums(raw.rows.node, 0),
			thread: Int32Array.from(raw.rows.thread),
			label: raw.rows.label.map(text => strings[text]),
			amounts: raw.rows.amounts.map(one => Float64Array.from(one))
		}
	};
}

function threads(raw: RawProfile, strings: string[]): Thread[] {
	const list = raw.threads.tid.map((tid, i) => ({
		tid,
		pid: raw.threads.pid[i],
		comm: strings[raw.threads.comm[i]],
		process: strings[raw.threads.process[i]],
		samples: 0
	}));
	raw.samples.thread.forEach((thread, i) => {
		list[thread].samples += raw.samples.count[i];
	});
	return list;
}

function profile(raw: RawProfile, strings: string[], functions: Functions): Profile {
	const fns = raw.functions.name.map(
		(name, i) => (functions.add(strings[name], strings[raw.functions.module[i]])));
	const all = totals(raw.totals, strings);
	const sampled = raw.samples.node.length > 0;
	return {
		name: visible(raw.name),
		finished: Boolean(raw.finished),
		recordings: raw.recordings.map(one => ({
			...one,
			totals: totals(one.totals, strings),
			facts: one.facts.map(([name, text]) => [name, visible(text)])
		})),
		machines: raw.machines.map(one => ({
			host: visible(one.host),
			kernel: visible(one.kernel),
			architecture: visible(one.architecture)
		})),
		totals: all,
		threads: threads(raw, strings),
		tree: callTree(raw, sampled ? all.lost : [], fns, functions),
		ticks: {
			first: raw.ticks.first ?? 0,
			second: Int32Array.from(raw.ticks.second),
			thread: Int32Array.from(raw.ticks.thread),
			count: Float64Array.from(raw.ticks.count)
		},
		cpus: raw.cpus ?? { second: [], cpu: [], count: [] },
		tables: raw.tables.map(table => new Table(table, strings)),
		codes: raw.codes.map(code => ({
			symbol: strings[code.symbol],
			module: strings[code.module],
			sources: new Map(code.sources.map(
				([place, text]) => [strings[place], strings[text]])),
			table: new Table(code.table, strings)
		})),
		flames: (raw.flames ?? []).map(one => weightedTree(one, strings, functions)),
		course: raw.course ? courseOf(raw.course, strings, functions) : null,
	};
}

/** Functions that only tables name: of executed code there is no call tree. */
function addNamed(table: Table, functions: Functions): void {
	const symbol = table.column("symbol"), module = table.column("module");
	if (symbol < 0 || module < 0) return;
	for (let row = 0; row < table.rowCount; row++) {
		const name = table.cell(row, symbol), file = table.text(row, "module");
		// A row without a module is no code: a thread, above its tree of calls.
		if (typeof name === "string" && name && file) functions.add(name, file);
	}
}

export function dataOf(json: string): Data {
	const raw = JSON.parse(json) as RawData;
	if (raw.assay !== 1)
		throw new Error("the data of this page is of another version than its script");
	const strings = raw.strings.map(visible);
	const functions = new Functions();
	const all = raw.profiles.map(one => profile(one, strings, functions));
	for (const one of all) one.tables.forEach(table => addNamed(table, functions));
	return {
		version: raw.version,
		functions,
		profile: all[all.length - 1],
		older: all.length > 1 ? all[0] : null,
		difference: raw.difference ? new Table(raw.difference, strings) : null
	};
}

declare class DecompressionStream {
	constructor(format: string);
	readonly readable: ReadableStream<Uint8Array>;
	readonly writable: WritableStream<Uint8Array>;
}

/** Newer browsers can do it themselves, ten times as fast. */
function bytesOf(base64: string): Uint8Array {
	const { fromBase64 } = Uint8Array as { fromBase64?: (text: string) => Uint8Array };
	if (fromBase64) return fromBase64.call(Uint8Array, base64);
	const binary = atob(base64), bytes = new Uint8Array(binary.length);
	for (let i = 0; i < binary.length; i++) bytes[i] = binary.charCodeAt(i);
	return bytes;
}

/** gzip in base64, as text. */
export async function unpack(base64: string): Promise<string> {
	const stream = new Blob([
		bytesOf(base64.trim())
	]).stream().pipeThrough(new DecompressionStream("gzip"));
	return new Response(stream).text();
}
