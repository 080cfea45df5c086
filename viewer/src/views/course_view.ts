// SPDX-License-Identifier: BSD-2-Clause
// The course of a thread as a picture: phases as bands, below them strata, the paths that they
// repeat, and the functions that these run through. Everything can be enlarged, down to single
// trips.

import type {App, View, ViewHandle} from "../app";
import {Box, Course, CourseThread, Lane, Layout} from "../course";
import {copyButton, el, replace} from "../dom";
import {count, percent, short} from "../format";
import {HUES, Phase, phasesOf} from "./phases_view";
import {reportTable} from "./report_view";

const ROW = 30, LABEL = 16, GAP = 6, LEAST_RANGE = 8, TEXT_LEAST = 34;
const LANES = ["phases", "strata", "paths", "functions"] as const;

type Shown = {
	lane: "phases"; begin: number; end: number; phase: Phase
}|Box;

function themeColour(name: string): string {
	return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

/** Equal things get equal colours; neighbouring numbers get different ones. */
function hue(number: number): number { return (number * 137.508) % 360; }

class CourseView implements ViewHandle {
	private readonly canvas = el("canvas", {
		tabindex: 0,
		role: "application",
		"aria-roledescription": "picture of a run",
		"aria-label":
			"The course of the thread. Arrow keys move between stretches and between levels, Enter zooms in, Escape zooms out. The table below has the numbers."
	});
	private readonly context: CanvasRenderingContext2D;
	private readonly detail = el("div", { class: "flame-detail", "aria-live": "polite" });
	private readonly axis = el("div", { class: "phase-axis" });
	private readonly command = el("div", { class: "command" });
	private readonly resized: ResizeObserver;
	private readonly dark = matchMedia("(prefers-color-scheme: dark)");
	private readonly repaint = (): void => this.update();
	private boxes: Shown[] = [];
	private focused: Shown|null = null;
	private dragged = -1;

	constructor(private readonly app: App, root: HTMLElement, private readonly course: Course) {
		const context = this.canvas.getContext("2d");
		if (!context) throw new Error("this browser cannot draw on a canvas");
		this.context = context;
		const box = el("div", { class: "flame-box" }, this.canvas);
		root.append(el("h1", {}, "Course"),
			el("p", { class: "summary" },
				"What the thread repeated when, from its first instruction to its last. Click on a stretch to look into it, or drag over one."),
			this.toolbar(), this.detail, box, this.axis, this.command);
		const table = app.data.profile.tables.find(one => one.view === "course");
		if (table) reportTable(app, root, table);
		this.listen();
		this.resized = new ResizeObserver(() => this.update());
		this.resized.observe(box);
		this.dark.addEventListener("change", this.repaint);
		window.addEventListener("themechange", this.repaint);
		this.update();
	}

	close(): void {
		this.resized.disconnect();
		this.dark.removeEventListener("change", this.repaint);
		window.removeEventListener("themechange", this.repaint);
	}

	private get thread(): CourseThread {
		const wanted = Number(this.app.state.values.run || -1);
		return this.course.threads.find(one => one.thread === wanted) ??
			this.course.threads[0];
	}

	private get range(): [number, number] {
		const { begin, end } = this.app.state.values, all = this.thread.instructions;
		const from = Math.min(Math.max(0, Number(begin) || 0), all - 1);
		const to = Math.min(all, Math.max(Number(end) || all, from + 1));
		return [from, to];
	}

	private zoom(begin: number, end: number): void {
		const all = this.thread.instructions;
		if (end - begin < LEAST_RANGE) {
			const middle = (begin + end) / 2;
			begin = middle - LEAST_RANGE / 2;
			end = middle + LEAST_RANGE / 2;
		}
		begin = Math.max(0, Math.floor(begin));
		end = Math.min(all, Math.ceil(end));
		this.focused = null;
		this.app.change({
			begin: begin > 0 ? String(begin) : "",
			end: end < all ? String(end) : ""
		});
	}

	private zoomOut(factor: number): void {
		const [from, to] = this.range, middle = (from + to) / 2,
			     half = (to - from) / 2 * factor;
		this.zoom(middle - half, middle + half);
	}

	private toolbar(): HTMLElement {
		const { threads } = this.course, { app } = this;
		const select: HTMLSelectElement = el("select", {
			"aria-label": "Thread",
			id: "run",
			change: () => app.change({ run: select.value, begin: "", end: "" })
		},
			...threads.map(one => {
				const { comm, tid } = app.data.profile.threads[one.thread];
				return el("option", {
					value: one.thread,
					selected: one.thread === this.thread.thread
				},
					`${comm} ${tid} (${short(one.instructions)} instructions)`);
			}));
		const button = (text: string, click: () => void): HTMLElement =>
			el("button", { type: "button", click }, text);
		return el("div",
			{ class: "tools", role: "group", "aria-label": "Tools of the picture" },
			threads.length > 1 && select, button("Zoom in", () => this.zoomOut(0.25)),
			button("Zoom out", () => this.zoomOut(4)),
			button("Whole run", () => this.zoom(0, this.thread.instructions)),
			this.course.omitted > 0 &&
				el("span", { class: "warning" },
					`${count(this.course.omitted)} short threads are not on this page`));
	}

	private phases(): Phase[] {
		const table = this.app.data.profile.tables.find(one => one.view === "phases");
		const { tid } = this.app.data.profile.threads[this.thread.thread];
		return table ? phasesOf(table).filter(phase => phase.tid === tid) : [];
	}

	update(): void {
		const [from, to] = this.range, width = this.width;
		const select = document.querySelector<HTMLSelectElement>("select#run");
		if (select) select.value = String(this.thread.thread);
		const layout = new Layout(this.course, this.thread, from, to, width);
		this.boxes = [
			...this.phases()
				.filter(phase => phase.end > from && phase.begin < to)
				.map(phase => ({
					lane: "phases" as const,
					begin: phase.begin,
					end: phase.end,
					phase
				})),
			...layout.boxes
		];
		this.canvas.dataset.boxes = String(this.boxes.length);
		this.canvas.dataset.from = String(from);
		this.canvas.dataset.to = String(to);
		this.draw();
		this.describe();
		replace(this.axis, el("span", {}, count(from)),
			el("span", {}, `${short(to - from)} instructions`),
			el("span", {}, count(to)));
	}

	private get width(): number { return this.canvas.parentElement?.clientWidth ?? 0; }

	private x(instruction: number): number {
		const [from, to] = this.range;
		return (instruction - from) / (to - from) * this.width;
	}

	private top(lane: Lane|"phases"): number {
		return LANES.indexOf(lane) * (ROW + LABEL + GAP) + LABEL;
	}

	private draw(): void {
		const ratio = window.devicePixelRatio || 1, { context, canvas, width } = this;
		const height = LANES.length * (ROW + LABEL + GAP);
		canvas.width = Math.round(width * ratio);
		canvas.height = Math.round(height * ratio);
		canvas.style.height = `${height}px`;
		context.setTransform(ratio, 0, 0, ratio, 0, 0);
		context.textBaseline = "middle";
		context.font = "12px ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace";
		const letter = context.measureText("0123456789").width / 10;
		context.fillStyle = themeColour("--quiet");
		for (const lane of LANES)
			context.fillText(lane.charAt(0).toUpperCase() + lane.slice(1), 0,
				this.top(lane) - LABEL / 2);
		const text = themeColour("--frame-text"), dark = themeColour("--dark") === "1";
		for (const box of this.boxes) this.drawBox(box, letter, text, dark);
		if (this.focused) this.outline(this.focused);
	}

	private fill(box: Shown, dark: boolean): string {
		if (box.lane === "phases") {
			const of = HUES[Math.abs(box.phase.label) % HUES.length];
			return dark ? `hsl(${of} 34% 36%)` : `hsl(${of} 60% 76%)`;
		}
		const of = box.lane === "functions" ? this.functionOf(box) : box.path;
		if (box.what < 0)
			return dark ? `hsl(${hue(of)} 9% 27%)` : `hsl(${hue(of)} 22% 91%)`;
		return dark ? `hsl(${hue(of)} 34% 34%)` : `hsl(${hue(of)} 62% 80%)`;
	}

	private drawBox(box: Shown, letter: number, text: string, dark: boolean): void {
		const left = Math.max(0, this.x(box.begin)),
		      right = Math.min(this.width, this.x(box.end));
		const width = Math.max(0.5, right - left - (right - left > 3 ? 1 : 0));
		const y = this.top(box.lane);
		this.context.fillStyle = this.fill(box, dark);
		this.context.fillRect(left, y, width, ROW);
		if (width < TEXT_LEAST) return;
		const room = Math.floor((width - 8) / letter), name = this.nameOf(box);
		this.context.fillStyle = text;
		this.context.fillText(
			name.length > room ? `${name.slice(0, Math.max(0, room - 1))}…` : name,
			left + 4, y + ROW / 2);
	}

	private outline(box: Shown): void {
		const left = Math.max(1, this.x(box.begin)),
		      right = Math.min(this.width - 1, this.x(box.end));
		this.context.strokeStyle = themeColour("--focus");
		this.context.lineWidth = 2;
		this.context.strokeRect(
			left, this.top(box.lane) + 1, Math.max(2, right - left - 2), ROW - 2);
	}

	/** The function that the box leads to: its own, or the one in which the path begins. */
	private functionOf(box: Box): number {
		if (box.lane === "functions" && box.what >= 0) return box.what;
		return this.course.paths[box.path]?.steps[0]?.fn ?? -1;
	}

	private nameOf(box: Shown): string {
		if (box.lane === "phases") return `Phase ${box.phase.name}`;
		const fn = this.functionOf(box);
		const name = fn < 0 ? "[unknown]" : this.app.data.functions.names[fn];
		const times = box.trips > 1 ? ` ×${count(box.trips)}` : "";
		return box.what < 0 ? `mostly ${name}` : `${name}${times}`;
	}

	private kindOf(box: Shown): string {
		const many = "what" in box && box.what < 0;
		const times = "trips" in box && box.trips ? `, ${count(box.trips)} trips` : "";
		switch (box.lane) {
			case "phases":
				return "phase";
			case "strata":
				return many ? `various strata${times}` :
					box.trips > 1 ? `one stratum, ${count(box.trips)} trips` :
							"one trip of a stratum";
			case "paths":
				return many ? `various paths${times}` :
					      `path ${this.course.paths[box.path].number}` +
						(box.trips > 1 ? `, ${count(box.trips)} trips` :
								 ", one trip");
			default:
				return many ? "various functions" : "function";
		}
	}

	private linkOf(box: Shown): string|null {
		if (box.lane === "phases") {
			const table =
				this.app.data.profile.tables.find(one => one.view === "phases");
			return table ? this.app.functionHref(table.text(box.phase.row, "symbol"),
					       table.text(box.phase.row, "module")) :
				       null;
		}
		const fn = this.functionOf(box), { names, modules } = this.app.data.functions;
		return fn < 0 ? null : this.app.functionHref(names[fn], modules[fn]);
	}

	private placeOf(box: Box): string {
		return box.place || (this.course.paths[box.path]?.steps[0]?.place ?? "");
	}

	private describe(): void {
		const [from, to] = this.range;
		const { tid, comm } = this.app.data.profile.threads[this.thread.thread];
		const box = this.focused, at = Math.floor(box ? Math.max(box.begin, from) : from);
		const title = "The blocks at this point";
		const text = `assay report at --tid ${tid} --instruction ${at}`;
		replace(this.command, el("h3", {}, title, copyButton(text, title)),
			el("pre", {}, text));
		if (!box) {
			replace(this.detail,
				el("bdi", { class: "flame-name clip" }, `thread ${comm} ${tid}`),
				el("span", { class: "metric" },
					`instructions ${count(from)} to ${count(to)}`));
			return;
		}
		const link = this.linkOf(box), length = box.end - box.begin;
		replace(this.detail, el("bdi", { class: "flame-name clip" }, this.nameOf(box)),
			el("span", {}, this.kindOf(box)),
			el("span", { class: "metric" },
				el("b", {}, percent(length / this.thread.instructions)),
				` ${count(length)} instructions from ${count(box.begin)} on`),
			box.lane !== "phases" &&
				el("span", { class: "module" },
					this.placeOf(box).replace(/^.*\//, "")),
			link && el("a", { class: "open", href: link }, "To the code →"));
	}

	/** The box at a point of the canvas. */
	private at(x: number, y: number): Shown|null {
		const [from, to] = this.range;
		const lane = LANES[Math.floor(y / (ROW + LABEL + GAP))];
		const instruction = from + x / this.width * (to - from);
		return this.boxes.find(box => box.lane === lane && instruction >= box.begin &&
				       instruction < box.end) ??
			null;
	}

	private focus(box: Shown|null): void {
		this.focused = box;
		this.draw();
		this.describe();
	}

	private listen(): void {
		const { canvas } = this;
		const instruction = (event: PointerEvent): number => {
			const [from, to] = this.range;
			return from + event.offsetX / this.width * (to - from);
		};
		let start = 0;
		canvas.addEventListener("pointermove", event => {
			if (this.dragged >= 0) return;
			const box = this.at(event.offsetX, event.offsetY);
			canvas.style.cursor = box ? "pointer" : "default";
			if (box !== this.focused && box) this.focus(box);
		});
		canvas.addEventListener("pointerdown", event => {
			start = event.offsetX;
			this.dragged = instruction(event);
			canvas.setPointerCapture(event.pointerId);
		});
		canvas.addEventListener("pointerup", event => {
			const from = this.dragged, to = instruction(event);
			this.dragged = -1;
			if (from >= 0 && Math.abs(event.offsetX - start) > 4)
				this.zoom(Math.min(from, to), Math.max(from, to));
			else
				this.enter(this.at(event.offsetX, event.offsetY));
		});
		canvas.addEventListener("wheel", event => {
			if (!event.ctrlKey) return;
			this.zoomOut(event.deltaY > 0 ? 1.5 : 0.67);
			event.preventDefault();
		}, { passive: false });
		canvas.addEventListener("keydown", event => this.key(event));
	}

	/**
	 * A box that fills the picture already is a stretch of many trips: a few of them come into
	 * sight.
	 */
	private enter(box: Shown|null): void {
		if (!box) return;
		const [from, to] = this.range;
		const trips = "trips" in box && box.what >= 0 ? box.trips : 1;
		const filled = box.begin <= from && box.end >= to;
		if (filled && trips > 1) {
			const each = (box.end - box.begin) / trips;
			const begin = box.begin + Math.floor((from - box.begin) / each) * each;
			this.zoom(begin, begin + each * 4);
		} else {
			this.zoom(box.begin, box.end);
		}
		this.focused = box;
		this.draw();
		this.describe();
	}

	private neighbour(key: string): Shown|null {
		const here = this.focused;
		if (!here) return this.boxes[0] ?? null;
		if (key === "ArrowUp" || key === "ArrowDown") {
			const lane = LANES[LANES.indexOf(here.lane) + (key === "ArrowUp" ? -1 : 1)];
			const middle = Math.max(here.begin, this.range[0]);
			return this.boxes.find(box => box.lane === lane && box.end > middle) ??
				here;
		}
		const lane = this.boxes.filter(box => box.lane === here.lane);
		const at = lane.indexOf(here) + (key === "ArrowRight" ? 1 : -1);
		return lane[at] ?? here;
	}

	private key(event: KeyboardEvent): void {
		if (event.key.startsWith("Arrow"))
			this.focus(this.neighbour(event.key));
		else if (event.key === "Enter")
			this.enter(this.focused);
		else if (event.key === "Escape" || event.key === "Backspace")
			this.zoomOut(4);
		else
			return;
		event.preventDefault();
	}
}

export function courseView(course: Course): View {
	return {
		id: "course",
		title: "Course",
		group: "Execution",
		byChoice: true,
		render: (app, root) => new CourseView(app, root, course)
	};
}
