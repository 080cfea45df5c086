// SPDX-License-Identifier: BSD-2-Clause
// Samples of each CPU and each thread over time. Dragging over a stretch chooses it for all views;
// of a profile that does not keep which stacks belong to which second, only for the threads below.

import type {App, View, ViewHandle} from "../app";
import {bar, el, replace} from "../dom";
import {count, percent} from "../format";

const THREADS_SHOWN = 40, COLUMNS_MAX = 400;

interface Row {
	name: string;
	thread: number;
	counts: Float64Array;
	total: number
}

class Timeline implements ViewHandle {
	private readonly rows: Row[];
	private readonly seconds: number;
	/** Seconds of a column. */
	private readonly step: number;
	private readonly chart = el("div", { class: "timeline", role: "group" });
	private readonly result = el("div", { class: "card" });
	private readonly marker = el("div", { class: "timeline-range", "aria-hidden": "true" });
	private readonly from: HTMLInputElement;
	private readonly to: HTMLInputElement;
	private dragged = -1;

	constructor(private readonly app: App, root: HTMLElement) {
		const { second } = app.data.profile.ticks;
		this.seconds = second.reduce((last, one) => Math.max(last, one), 0) + 1;
		this.step = Math.ceil(this.seconds / COLUMNS_MAX);
		this.rows = this.collect();
		this.from = this.field("from", "From second", 0);
		this.to = this.field("to", "to second", this.seconds);
		root.append(el("h1", {}, "Timeline"),
			el("p", { class: "summary" },
				app.data.profile.tree.samples.second ?
					"Samples of each CPU and thread in each second. Drag over a stretch of time: all views are then of it." :
					"Samples of each thread in each second. Drag over a stretch of time to see who was busy in it."),
			el("div", { class: "tools" }, el("label", {}, "From ", this.from),
				el("label", {}, " to ", this.to), " s",
				el("button", {
					type: "button",
					click: () => app.change({ from: "", to: "" })
				},
					"All")),
			this.chart, this.result);
		this.draw();
		this.update();
	}

	private field(name: string, label: string, initial: number): HTMLInputElement {
		const input: HTMLInputElement = el("input", {
			type: "number",
			min: 0,
			max: this.seconds,
			step: 1,
			"aria-label": label,
			value: this.app.state.values[name] ?? initial,
			change: () => this.app.change({ [name]: input.value })
		});
		return input;
	}

	private collect(): Row[] {
		const { ticks } = this.app.data.profile, byThread = new Map<number, Row>();
		for (let i = 0; i < ticks.second.length; i++) {
			let row = byThread.get(ticks.thread[i]);
			if (!row) {
				const { comm, tid } =
					this.app.data.profile.threads[ticks.thread[i]];
				row = {
					name: `${comm} ${tid}`,
					thread: ticks.thread[i],
					counts: new Float64Array(this.seconds),
					total: 0
				};
				byThread.set(ticks.thread[i], row);
			}
			row.counts[ticks.second[i]] += ticks.count[i];
			row.total += ticks.count[i];
		}
		return Array.from(byThread.values()).sort((a, b) => b.total - a.total);
	}

	private collectCpus(): Row[] {
		const { cpus } = this.app.data.profile, rows: Row[] = [];
		cpus.cpu.forEach((cpu, i) => {
			rows[cpu] ??= {
				name: `CPU ${cpu}`,
				thread: -1,
				counts: new Float64Array(this.seconds),
				total: 0
			};
			rows[cpu].counts[Math.min(cpus.second[i], this.seconds - 1)] +=
				cpus.count[i];
			rows[cpu].total += cpus.count[i];
		});
		return rows.filter(Boolean);
	}

	private draw(): void {
		const columns = Math.ceil(this.seconds / this.step);
		const cpus = this.collectCpus(),
		      rows = [...cpus, ...this.rows.slice(0, THREADS_SHOWN)];
		// A thread among many would be a flat line beside the processors.
		const peakOf = (list: Row[]): number =>
			list.reduce((most, row) => Math.max(most, ...this.columnsOf(row)), 1);
		const peaks = [peakOf(this.rows), peakOf(cpus)];
		const lanes = el("div", { class: "timeline-lanes" }, this.marker);
		for (const row of rows) {
			const cells = this.columnsOf(row).map((samples, i) => {
				const cell = el("span", {
					class: "tick",
					title: `${row.name}, second ${i * this.step}: ${
						count(samples)} samples`
				});
				cell.style.height =
					`${100 * samples / peaks[Number(row.thread < 0)]}%`;
				return cell;
			});
			const lane = el("div", {
				class: row.thread < 0 ? "timeline-lane cpu" : "timeline-lane",
				"data-samples": row.total,
				"data-name": row.name,
				"data-thread": row.thread
			},
				...cells);
			lane.style.gridTemplateColumns = `repeat(${columns}, 1fr)`;
			this.chart.append(this.laneName(row));
			lanes.append(lane);
		}
		const names = el(
			"div", { class: "timeline-names" }, ...Array.from(this.chart.childNodes));
		this.chart.append(names, lanes,
			el("span", { class: "timeline-axis" }, el("span", {}, "0 s"),
				el("span", {}, `${this.seconds} s`)));
		this.chart.setAttribute("aria-label",
			`Samples of ${cpus.length} CPUs and ${this.rows.length} threads over ${
				this.seconds} seconds; the table ` +
				"below has the numbers");
		this.listen(lanes);
	}

	/** That of a thread leads to its flame graph. */
	private laneName(row: Row): HTMLElement {
		const name = el("bdi", {}, row.name);
		if (row.thread < 0) return el("span", { class: "timeline-name" }, name);
		return el("a", {
			class: "timeline-name",
			"data-thread": row.thread,
			href: this.app.href("flame", { thread: String(row.thread) }),
			title: `${row.name}: ${count(row.total)} samples; its flame graph`
		},
			name);
	}

	private columnsOf(row: Row): number[] {
		const columns: number[] = [];
		for (let i = 0; i < this.seconds; i += this.step)
			columns.push(row.counts.subarray(i, i + this.step)
					     .reduce((sum, one) => sum + one, 0));
		return columns;
	}

	private listen(lanes: HTMLElement): void {
		const second = (event: PointerEvent): number => {
			const box = lanes.getBoundingClientRect();
			const share = Math.min(
				1, Math.max(0, (event.clientX - box.left) / (box.width || 1)));
			return Math.floor(share * this.seconds);
		};
		lanes.addEventListener("pointerdown", event => {
			this.dragged = second(event);
			lanes.setPointerCapture(event.pointerId);
		});
		lanes.addEventListener("pointermove", event => {
			if (this.dragged < 0) return;
			const here = second(event);
			this.app.change({
				from: String(Math.min(here, this.dragged)),
				to: String(Math.min(this.seconds, Math.max(here, this.dragged) + 1))
			});
		});
		lanes.addEventListener("pointerup", () => {
			this.dragged = -1;
		});
	}

	update(): void {
		const { values } = this.app.state;
		const from = Math.min(this.seconds, Math.max(0, Number(values.from) || 0));
		const to =
			Math.min(this.seconds, Math.max(from, Number(values.to) || this.seconds));
		this.from.value = String(from);
		this.to.value = String(to);
		this.marker.hidden = from === 0 && to === this.seconds;
		this.marker.style.left = `${100 * from / this.seconds}%`;
		this.marker.style.width = `${100 * (to - from) / this.seconds}%`;
		this.showThreads();
		this.show(from, to);
	}

	/** Where threads are chosen, those of others are hidden; processors are everybody's. */
	private showThreads(): void {
		const chosen = this.app.chosen();
		for (const lane of this.chart.querySelectorAll<HTMLElement>("[data-thread]")) {
			const thread = Number(lane.dataset.thread);
			lane.hidden = Boolean(chosen) && thread >= 0 && !chosen?.[thread];
		}
	}

	private show(from: number, to: number): void {
		const chosen = this.app.chosen();
		const busy = this.rows.filter(row => !chosen || chosen[row.thread])
				     .map(row => ({
					     thread: row.thread,
					     samples: row.counts.subarray(from, to).reduce(
						     (sum, one) => sum + one, 0)
				     }))
				     .filter(row => row.samples > 0)
				     .sort((a, b) => b.samples - a.samples);
		const all = busy.reduce((sum, row) => sum + row.samples, 0);
		this.result.dataset.samples = String(all);
		replace(this.result,
			el("h2", {}, `${count(all)} samples from second ${from} to ${to}`),
			el("div", { class: "table-scroll" },
				el("table", {},
					el("thead", {},
						el("tr", {},
							el("th", { scope: "col", class: "number" },
								"Of the stretch"),
							el("th", { scope: "col", class: "number" },
								"Samples"),
							el("th", { scope: "col" }, "Thread"),
							el("th", { scope: "col", class: "number" },
								"TID"),
							el("th", { scope: "col" }, "Process"),
							el("th", { scope: "col" }, ""))),
					el("tbody", {}, ...busy.slice(0, THREADS_SHOWN).map(row => {
						const thread =
							this.app.data.profile.threads[row.thread];
						return el("tr", {},
							el("td", { class: "number share" },
								bar(row.samples / (all || 1)),
								percent(row.samples / (all || 1))),
							el("td", { class: "number" },
								count(row.samples)),
							el("td", {}, el("bdi", {}, thread.comm)),
							el("td", { class: "number" },
								String(thread.tid)),
							el("td", {}, el("bdi", {}, thread.process)),
							el("td", {},
								el("a", {
									href: this.app.href("flame", {
										thread: String(
											row.thread)
									})
								},
									"Flame graph")));
					})))));
	}
}

export const timelineView: View = {
	id: "timeline",
	title: "Timeline",
	group: "Time",
	byChoice: true,
	render: (app, root) => new Timeline(app, root)
};
