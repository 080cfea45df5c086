// SPDX-License-Identifier: BSD-2-Clause
// What a flame graph is of: samples, or a call tree with amounts of its own, such as the time that
// threads waited, or their calls.

import type {App} from "./app";
import {choiceKey, Chosen, chosenThreads} from "./choice";
import type {Data, Metric, Profile, WeightedTree} from "./data";
import {count, time} from "./format";
import {Downward, unite} from "./frames";
import {rangeText} from "./range";

export interface ThreadChoice {
	id: number;
	name: string;
	/** That the thread is of. */
	program: string;
	amount: number;
}

export interface FlameSource {
	id: string;
	title: string;
	group: string;
	/** What stands over the picture; "": nothing. */
	summary: string;
	/** Compared with an older profile, where there is one. */
	compared: boolean;
	/** Of the time that is chosen; false: always of the whole recording. */
	byTime: boolean;
	/** To choose from; with one or none there is no choice. */
	metrics: Metric[];
	labels: string[];
	/** What a choice of labels is called. */
	labelTitle: string;
	/** The same object as long as nothing else is chosen. */
	frames(app: App): Downward;
	/** With something of what is shown, the most first. */
	threads(app: App): ThreadChoice[];
	/** With its unit, where it is not a mere number. */
	amount(app: App, number: number): string;
	/** What is counted: "samples". */
	unit(app: App): string;
	rootName(app: App, all: number): string;
}

function sorted(threads: ThreadChoice[]): ThreadChoice[] {
	return threads.filter(one => one.id > 0 && one.amount > 0)
		.sort((a, b) => b.amount - a.amount);
}

export const samplesSource: FlameSource = {
	id: "flame",
	title: "Flame graph",
	group: "Time",
	summary: "",
	compared: true,
	byTime: true,
	metrics: [],
	labels: [],
	labelTitle: "",
	frames: app => app.frames(),
	threads: app => sorted(app.data.profile.threads.map(
		({comm, tid, samples, process}, id) =>
			({id, name: `${comm} ${tid}`, program: process, amount: samples}))),
	amount: (_, number) => count(number),
	unit: () => "samples",
	rootName: (app, all) => {
		const range = app.range();
		return range ? `${rangeText(range)}: ${count(all)} samples` :
			       `all: ${count(all)} samples seen`;
	}
};

/** A tree with amounts: of the metric, the thread and the label that are chosen. */
export class WeightedSource implements FlameSource {
	readonly compared: boolean;
	readonly byTime = false;
	readonly metrics: Metric[];
	readonly labels: string[];
	private cached: { key: string; frames: Downward }|null = null;
	private united: ReturnType<typeof unite>|null = null;

	constructor(private readonly tree: WeightedTree, private readonly older: WeightedTree|null,
		readonly id: string, readonly title: string, readonly group: string,
		readonly summary: string, readonly labelTitle = "") {
		this.compared = Boolean(older);
		this.metrics = tree.metrics;
		this.labels = Array.from(new Set(tree.rows.label)).filter(Boolean).sort();
	}

	private metric(app: App): number {
		const at = this.metrics.findIndex(one => one.name === app.state.values.metric);
		return Math.max(0, at);
	}

	private is(row: number, chosen: Chosen, label: string): boolean {
		const { rows } = this.tree;
		return (!chosen || Boolean(chosen[rows.thread[row]])) &&
			(!label || rows.label[row] === label);
	}

	frames(app: App): Downward {
		const { values } = app.state, metric = this.metric(app);
		const label = values.label ?? "", key = `${metric} ${choiceKey(values)} ${label}`;
		if (this.cached?.key === key) return this.cached.frames;
		const self = this.selves(app, metric, label);
		this.cached = {
			key,
			frames: this.older ?
				this.beside(app, self, this.older, label) :
				new Downward(this.tree.parent, this.tree.fn, self, null)
		};
		return this.cached.frames;
	}

	/** Of a metric, whichever the flame graph shows; null: there is no such metric. */
	framesOf(app: App, name: string): Downward|null {
		const metric = this.metrics.findIndex(one => one.name === name);
		return metric < 0 ? null :
				    new Downward(this.tree.parent, this.tree.fn,
					    this.selves(app, metric, ""), null);
	}

	/** By node, what the threads that are chosen have. */
	private selves(app: App, metric: number, label: string): Float64Array {
		const self = new Float64Array(this.tree.parent.length), chosen = app.chosen();
		const { node, amounts } = this.tree.rows;
		for (let i = 0; i < node.length; i++) {
			if (this.is(i, chosen, label)) self[node[i]] += amounts[metric][i];
		}
		return self;
	}

	/** With what the older profile has; its threads are others, its programs are not. */
	private beside(app: App, self: Float64Array, older: WeightedTree, label: string): Downward {
		this.united ??= unite(this.tree, older, app.data.functions);
		const { parent, fn, ofOlder } = this.united;
		const selves = new Float64Array(parent.length),
		      bases = new Float64Array(parent.length);
		selves.set(self);
		const { name } = this.metrics[this.metric(app)];
		const amounts =
			older.rows.amounts[older.metrics.findIndex(one => one.name === name)];
		const program = app.state.values.program ?? "";
		const chosen = chosenThreads(app.data.older?.threads ?? [], { program });
		older.rows.node.forEach((node, i) => {
			if (amounts && (!label || older.rows.label[i] === label) &&
				(!chosen || chosen[older.rows.thread[i]]))
				bases[ofOlder[node]] += amounts[i];
		});
		return new Downward(parent, fn, selves, bases);
	}

	threads(app: App): ThreadChoice[] {
		const { threads } = app.data.profile, metric = this.metric(app);
		const sums = new Float64Array(threads.length), { rows } = this.tree;
		rows.thread.forEach((thread, i) => {
			if (this.is(i, null, app.state.values.label ?? ""))
				sums[thread] += rows.amounts[metric][i];
		});
		return sorted(threads.map(({ comm, tid, process }, id) => ({
			id,
			name: `${comm} ${tid}`,
			program: process,
			amount: sums[id]
		})));
	}

	unit(app: App): string { return this.metrics[this.metric(app)].unit; }

	amount(app: App, number: number): string {
		return this.unit(app) === "ns" ? time(number) : count(number);
	}

	rootName(app: App, all: number): string {
		const { title, unit } = this.metrics[this.metric(app)];
		return unit === "ns" ? `${title}: ${time(all)}` : `all: ${count(all)} ${unit}`;
	}
}

/** Of the tree of this name, beside that of the older profile; none, if there is no such tree. */
export function weightedSources(data: Data, name: string, id: string, title: string, group: string,
	summary: string, labelTitle = ""): WeightedSource[] {
	const named = (profile: Profile|null): WeightedTree|null =>
		profile?.flames.find(one => one.name === name) ?? null;
	const tree = named(data.profile);
	return tree ? [new WeightedSource(
			      tree, named(data.older), id, title, group, summary, labelTitle)] :
		      [];
}
