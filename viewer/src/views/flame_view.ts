// SPDX-License-Identifier: BSD-2-Clause
// The flame graph with its tools: search, zoom, direction, threads, and the frame that is pointed
// at.

import type {App, View, ViewHandle} from "../app";
import {LOST_MODULE, Profile} from "../data";
import {el, replace} from "../dom";
import {Flame, FlameColours, FlameOptions} from "../flame";
import {FlameSource, samplesSource} from "../flame_source";
import {count, percent, signedPercent} from "../format";
import {Downward, Frames, matchTotal, Upward} from "../frames";
import {patternOf} from "../table";

const HUES = [212, 28, 155, 275, 340, 48, 190, 100];
const THREADS_SHOWN = 200;

function themeColour(name: string): string {
	return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

/** Modules with the most samples get the colours that are easiest to tell apart. */
export function moduleHues(app: App, frames: Downward): Map<string, number> {
	const { modules } = app.data.functions;
	const selves = new Float64Array(modules.length), weights = new Map<string, number>();
	for (let i = 1; i < frames.fns.length; i++) selves[frames.fns[i]] += frames.selves[i];
	modules.forEach((module, fn) => {
		weights.set(module, (weights.get(module) ?? 0) + selves[fn]);
	});
	weights.delete(LOST_MODULE);
	const ranked = Array.from(weights).sort((a, b) => b[1] - a[1]).map(([module]) => module);
	return new Map(ranked.map((module, i) => [module, HUES[i % HUES.length]]));
}

/** The same name always gets the same shade. */
function shade(name: string): number {
	let hash = 7;
	for (let i = 0; i < name.length && i < 64; i++) hash = (hash * 31 + name.charCodeAt(i)) | 0;
	return (hash >>> 0) % 9 - 4;
}

class FlameView implements ViewHandle {
	private readonly canvas = el("canvas", {
		tabindex: 0,
		role: "application",
		"aria-roledescription": "flame graph",
		"aria-label":
			"Flame graph. Arrow keys move between frames, Enter zooms in, Escape zooms out, the key / searches."
	});
	private readonly detail = el("div", { class: "flame-detail", "aria-live": "polite" });
	private readonly matched = el("output", { class: "matched" });
	private readonly legend = el("ul", { class: "legend", "aria-label": "Colours of modules" });
	private readonly whole = el("p", { class: "warning", "data-note": "whole" },
		"This picture is of the whole recording, whatever time is chosen.");
	private readonly search: HTMLInputElement;
	private readonly tools: HTMLElement;
	private readonly flame: Flame;
	private frames: Frames;
	private hues = new Map<string, number>();
	private readonly resized: ResizeObserver;
	private readonly dark = matchMedia("(prefers-color-scheme: dark)");
	private readonly repaint = (): void => this.update();
	private source: Downward|null = null;
	private upward = false;
	/** Choices of threads follow the program. */
	private readonly threads = el("span");
	private program: string|undefined = "";

	constructor(
		private readonly app: App, root: HTMLElement, private readonly from: FlameSource) {
		this.frames = from.frames(app);
		this.search = el("input", {
			type: "search",
			placeholder: "Search (regular expression)",
			"aria-label": "Search functions",
			value: app.state.values.search,
			input: () => app.change({ search: this.search.value })
		});
		const box = el("div", { class: "flame-box" }, this.canvas);
		root.append(el("h1", { class: from.summary ? "" : "visually-hidden" }, from.title));
		if (from.summary) root.append(el("p", { class: "summary" }, from.summary));
		this.tools = this.toolbar();
		root.append(this.whole, this.tools, this.legend, this.detail, box);
		this.flame = new Flame(this.canvas, this.options());
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

	private get values(): Record<string, string> { return this.app.state.values; }

	private get older(): Profile|null {
		return this.from.compared ? this.app.data.older : null;
	}

	private metricChoice(): HTMLElement|null {
		const { metrics } = this.from;
		if (metrics.length < 2) return null;
		const select: HTMLSelectElement = el("select", {
			"aria-label": "Metric",
			id: "metric",
			change: () => this.app.change({ metric: select.value })
		},
			...metrics.map(
				({ name, title }) => el("option",
					{ value: name, selected: name === this.values.metric },
					title)));
		return select;
	}

	private labelChoice(): HTMLElement|null {
		const { labels, labelTitle } = this.from;
		if (labels.length < 2) return null;
		const select: HTMLSelectElement = el("select", {
			"aria-label": labelTitle,
			id: "label",
			change: () => this.app.change({ label: select.value, zoom: "" })
		},
			el("option", { value: "" }, `Every ${labelTitle.toLowerCase()}`),
			...labels.map(
				label => el("option",
					{ value: label, selected: label === this.values.label },
					label)));
		return select;
	}

	private toolbar(): HTMLElement {
		const { app } = this, { older } = this;
		return el("div",
			{ class: "tools", role: "group", "aria-label": "Tools of the flame graph" },
			this.search, this.matched, this.metricChoice(), this.labelChoice(),
			this.programChoice(), this.threads,
			this.toggle("Callers first", "From the running function up to its callers",
				"order", "up", { zoom: "" }),
			this.toggle("Root at the bottom", "Flames upwards instead of icicles",
				"shape", "flame"),
			older &&
				this.toggle("Width of the older",
					`Widths of ${older.name}: shows what has gone`, "width",
					"older"),
			older &&
				this.toggle("Colour by module", "Instead of by change", "colour",
					"module"),
			el("button", {
				type: "button",
				id: "reset",
				click: () => app.change({ zoom: "", search: "" })
			},
				"Reset"));
	}

	/** A value of the state that is there or not, and what else changes with it. */
	private toggle(text: string, title: string, name: string, value: string,
		also: Record<string, string> = {}): HTMLElement {
		return el("button", {
			type: "button",
			class: "toggle",
			title,
			"data-name": name,
			"data-value": value,
			"aria-pressed": "false",
			click: () => this.app.change(
				{ [name]: this.values[name] === value ? "" : value, ...also })
		},
			text);
	}

	/** Tools show what the address says, also after a step back. */
	private showTools(): void {
		for (const button of this.tools.querySelectorAll<HTMLElement>("button.toggle"))
			button.setAttribute("aria-pressed",
				String(this.values[button.dataset.name ?? ""] ===
					button.dataset.value));
		for (const select of this.tools.querySelectorAll("select")) {
			const at = Array.from(select.options)
					   .findIndex(one => one.value === this.values[select.id]);
			select.selectedIndex = Math.max(0, at);
		}
	}

	/** All threads of a program, however many processes it ran in. */
	private programChoice(): HTMLElement|null {
		const sums = new Map<string, number>();
		for (const { program, amount } of this.from.threads(this.app))
			sums.set(program, (sums.get(program) ?? 0) + amount);
		if (sums.size < 2) return null;
		const select: HTMLSelectElement = el("select", {
			"aria-label": "Program",
			id: "program",
			change: () =>
				this.app.change({ program: select.value, thread: "", zoom: "" })
		},
			el("option", { value: "" }, `All ${count(sums.size)} programs`),
			...Array.from(sums)
				.sort((a, b) => b[1] - a[1])
				.slice(0, THREADS_SHOWN)
				.map(([name, amount]) => el("option", {
					value: name,
					selected: name === this.values.program
				},
					     `${name} (${this.from.amount(this.app, amount)})`)));
		return select;
	}

	/** Threads of the program that is chosen. */
	private threadChoice(): HTMLElement|null {
		const { program } = this.values;
		const threads = this.from.threads(this.app).filter(
			one => !program || one.program === program);
		if (threads.length < 2) return null;
		const select: HTMLSelectElement = el("select", {
			"aria-label": "Thread",
			id: "thread",
			change: () => this.app.change({ thread: select.value, zoom: "" })
		},
			el("option", { value: "" }, `All ${count(threads.length)} threads`),
			...threads.slice(0, THREADS_SHOWN)
				.map(({ id, name, amount }) => el("option", {
					value: id,
					selected: String(id) === this.values.thread
				},
					     `${name} (${this.from.amount(this.app, amount)})`)));
		return select;
	}

	private options(): FlameOptions {
		const { app } = this, { functions } = app.data;
		return {
			frames: this.frames,
			zoom: this.zoomNode(),
			upwards: this.values.shape === "flame",
			byBase: this.values.width === "older" && Boolean(this.older),
			matches: this.matches(),
			name: fn => fn < 0 ? this.rootName() : functions.names[fn],
			colours: this.colours()
		};
	}

	private rootName(): string {
		const thread = this.app.data.profile.threads[Number(this.values.thread || -1)];
		if (thread) return `thread ${thread.comm} ${thread.tid}`;
		if (this.values.program)
			return `program ${this.values.program}: ${
				this.from.amount(this.app, this.frames.total(0))}`;
		return this.from.rootName(this.app, this.frames.total(0));
	}

	/** The zoomed frame is a list of functions from the root on, which no reload changes. */
	private zoomNode(): number {
		let node = 0;
		for (const fn of (this.values.zoom ?? "").split(".").filter(Boolean).map(Number)) {
			const child =
				this.frames.children(node).find(one => this.frames.fn(one) === fn);
			if (child === undefined) break;
			node = child;
		}
		return node;
	}

	private pathOf(node: number): string {
		const path: number[] = [];
		for (; node; node = this.frames.parent(node)) path.unshift(this.frames.fn(node));
		return path.join(".");
	}

	private matches(): Uint8Array|null {
		const pattern = patternOf(this.values.search ?? "");
		if (!pattern) return null;
		const { names, modules } = this.app.data.functions;
		return Uint8Array.from(
			names, (name, i) => Number(pattern.test(name) || pattern.test(modules[i])));
	}

	private colours(): FlameColours {
		const dark = themeColour("--dark") === "1";
		const byChange = Boolean(this.older) && this.values.colour !== "module";
		return {
			text: themeColour("--frame-text"),
			faded: themeColour("--frame-faded"),
			fadedText: themeColour("--frame-faded-text"),
			edge: themeColour("--page"),
			focus: themeColour("--focus"),
			font: "12px ui-monospace, SFMono-Regular, 'DejaVu Sans Mono', Menlo, Consolas, monospace",
			fill: node => byChange ? this.changeColour(node, dark) :
						 this.moduleColour(node, dark)
		};
	}

	private moduleColour(node: number, dark: boolean): string {
		const fn = this.frames.fn(node), { names, modules } = this.app.data.functions;
		if (fn < 0) return dark ? "hsl(220 8% 32%)" : "hsl(220 14% 86%)";
		if (modules[fn] === LOST_MODULE) return dark ? "hsl(0 55% 36%)" : "hsl(0 80% 84%)";
		const hue = this.hues.get(modules[fn]) ?? 0, change = shade(names[fn]);
		return dark ? `hsl(${hue} 34% ${33 + change}%)` : `hsl(${hue} 68% ${80 + change}%)`;
	}

	/** Red grew and blue shrank, by the share of everything seen. */
	private changeColour(node: number, dark: boolean): string {
		const change = this.delta(node);
		const strength = Math.min(1, Math.sqrt(Math.abs(change) * 10));
		const hue = change > 0 ? 8 : 214;
		if (dark) return `hsl(${hue} ${10 + 50 * strength}% ${28 + 12 * strength}%)`;
		return `hsl(${hue} ${20 + 65 * strength}% ${92 - 22 * strength}%)`;
	}

	private delta(node: number): number {
		const all = this.frames.total(0), before = this.frames.base(0);
		return (all ? this.frames.total(node) / all : 0) -
			(before ? this.frames.base(node) / before : 0);
	}

	private listen(): void {
		const point = (event: MouseEvent): number =>
			this.flame.at(event.offsetX, event.offsetY);
		this.canvas.addEventListener("mousemove", event => {
			const node = point(event);
			this.canvas.style.cursor = node < 0 ? "default" : "pointer";
			if (node !== this.flame.focus) this.focus(node);
		});
		this.canvas.addEventListener("click", event => {
			const node = point(event);
			if (node >= 0) this.zoomTo(node);
		});
		this.canvas.addEventListener("keydown", event => this.key(event));
	}

	private key(event: KeyboardEvent): void {
		if (event.key.startsWith("Arrow"))
			this.focus(this.flame.neighbour(event.key));
		else if (event.key === "Enter" && this.flame.focus >= 0)
			this.zoomTo(this.flame.focus);
		else if (event.key === "Escape" || event.key === "Backspace")
			this.zoomTo(this.frames.parent(this.zoomNode()));
		else if (event.key === "/")
			this.search.focus();
		else
			return;
		event.preventDefault();
	}

	private focus(node: number): void {
		this.flame.focus = node;
		this.describe(node >= 0 ? node : this.zoomNode());
	}

	private zoomTo(node: number): void {
		this.app.change({ zoom: this.pathOf(node) });
		this.focus(node);
	}

	private describe(node: number): void {
		const { frames, app, older } = this, { functions } = app.data;
		const amount = (number: number): string => this.from.amount(app, number);
		const fn = frames.fn(node), all = frames.total(0) || 1, total = frames.total(node);
		const link = fn < 0 || functions.modules[fn] === LOST_MODULE ?
			null :
			app.functionHref(functions.names[fn], functions.modules[fn]);
		replace(this.detail,
			el("bdi", { class: "flame-name clip" },
				fn < 0 ? this.rootName() : functions.names[fn]),
			fn >= 0 && el("span", { class: "module" }, functions.modules[fn]),
			el("span", { class: "metric" }, el("b", {}, percent(total / all)),
				` ${amount(total)} in total`),
			this.upward ? null :
				      el("span", { class: "metric" },
					      el("b", {}, percent(frames.self(node) / all)),
					      ` ${amount(frames.self(node))} itself`),
			older &&
				el("span", {
					class: this.delta(node) > 0 ? "metric grew" :
								      "metric shrank"
				},
					`${signedPercent(this.delta(node))} since ${older.name}`),
			link &&
				el("a", { class: "open", href: link },
					"Callers, code and values →"));
	}

	update(): void {
		if (this.values.program !== this.program) {
			this.program = this.values.program;
			replace(this.threads, this.threadChoice());
		}
		this.showTools();
		const source = this.from.frames(this.app), upward = this.values.order === "up";
		if (source !== this.source || upward !== this.upward) {
			this.source = source;
			this.upward = upward;
			this.frames = upward ? new Upward(source) : source;
			this.hues = moduleHues(this.app, source);
		}
		if (this.search.value !== (this.values.search ?? "") &&
			document.activeElement !== this.search)
			this.search.value = this.values.search ?? "";
		if (!this.values.search) this.search.value = "";
		const options = this.options();
		this.flame.update(options);
		this.canvas.dataset.frames = String(this.flame.drawn);
		this.canvas.dataset.total = String(this.frames.total(0));
		this.showMatched(options.matches, source);
		this.showLegend();
		this.whole.hidden = this.from.byTime || !this.app.range();
		this.describe(this.flame.focus >= 0 ? this.flame.focus : options.zoom);
	}

	private showMatched(matches: Uint8Array|null, source: Downward): void {
		const sum = matches ? matchTotal(source, matches) : 0;
		this.matched.textContent = matches ?
			`${this.matchText(sum)} match: ${percent(sum / (source.total(0) || 1))}` :
			"";
		this.matched.dataset.samples = matches ? String(sum) : "";
	}

	private matchText(sum: number): string {
		const unit = this.from.unit(this.app);
		return unit === "ns" ? this.from.amount(this.app, sum) : `${count(sum)} ${unit}`;
	}

	private showLegend(): void {
		const dark = themeColour("--dark") === "1";
		if (this.older && this.values.colour !== "module") {
			replace(this.legend, el("li", { class: "grew" }, "red: grew"),
				el("li", { class: "shrank" }, "blue: shrank"));
			return;
		}
		replace(this.legend,
			...Array.from(this.hues)
				.filter(([module]) => module)
				.slice(0, HUES.length)
				.map(([module, hue]) => {
					const swatch = el(
						"span", { class: "swatch", "aria-hidden": "true" });
					swatch.style.background = dark ? `hsl(${hue} 34% 40%)` :
									 `hsl(${hue} 68% 76%)`;
					return el("li", {}, swatch, el("bdi", {}, module));
				}));
	}
}

export function flameOf(source: FlameSource): View {
	return {
		id: source.id,
		title: source.title,
		group: source.group,
		byChoice: true,
		source,
		render: (app, root) => new FlameView(app, root, source)
	};
}

export const flameView = flameOf(samplesSource);
