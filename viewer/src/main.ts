// SPDX-License-Identifier: BSD-2-Clause
// The page: what it is about and what was lost at the top, the views beside, one of them in the
// middle.

import {PageApp, View, ViewHandle} from "./app";
import {choiceKey, choiceText} from "./choice";
import {Data, dataOf, factOf, lostCount, Recording, unpack} from "./data";
import {el, replace} from "./dom";
import {groups} from "./domains";
import {count, duration, percent} from "./format";
import {rangeText} from "./range";
import {Server} from "./server";
import {formatHash, keepFunction, parseHash, renumber} from "./state";
import {firstOf, viewsOf} from "./views/views";

const TITLE_MAX = 90;

/** Of a profile of one running process its name. */
function onlyProcess(data: Data): string {
	const busy = data.profile.threads.filter(thread => thread.samples > 0);
	return new Set(busy.map(thread => thread.pid)).size === 1 ? busy[0].process : "";
}

function titleOf(data: Data): string {
	const text = factOf(data.profile, "command") || onlyProcess(data) || data.profile.name;
	return text.length > TITLE_MAX ? `${text.slice(0, TITLE_MAX)}…` : text;
}

function facts(data: Data): string {
	const { recordings, machines } = data.profile, first = recordings[0];
	const rates = recordings.flatMap(one => one.facts).filter(([key,
		value]) => key === "frequency" && value !== "0");
	return [
		first ? duration(first.duration) : "",
		recordings.map(one => one.kind).sort().join(", "), factOf(data.profile, "event"),
		rates.length ? `${rates.map(([, value]) => value).join(", ")} Hz` : "",
		machines.length ? `on ${machines.map(one => one.host).join(", ")}` : "",
		first ? new Date(first.started / 1e6).toISOString().slice(0, 16).replace("T", " ") :
			""
	].filter(Boolean)
		.join(" · ");
}

/** What the first table, and so the head of the page, is about. */
function mainRecording(data: Data): Recording|undefined {
	const { recordings } = data.profile;
	return recordings.find(one => one.kind === "samples") ??
		recordings.find(one => one.kind === "executed") ?? recordings[0];
}

/** What else was lost, as of values or waits. */
function otherLosses(data: Data, main: Recording|undefined): string {
	return data.profile.recordings.filter(one => one !== main && lostCount(one.totals) > 0)
		.map(one => `${one.unit} lost ${count(lostCount(one.totals))} of ${
			     count(one.totals.seen)}`)
		.join(", ");
}

/** Losses stand on every view: a picture of what was kept says little without them. */
function totalsBox(data: Data): HTMLElement {
	const totals = data.profile.tables[0]?.totals ?? data.profile.totals;
	const { seen, kept, lost } = totals, gone = lostCount(totals);
	const main = mainRecording(data), others = otherLosses(data, main);
	const unit = main?.kind === "executed" ? "instructions" : main?.unit ?? "";
	const fill = el("span", { class: "totals-kept" });
	fill.style.width = `${100 * (seen ? kept / seen : 1)}%`;
	return el("a", {
		class: gone || others ? "totals lossy" : "totals",
		href: "#losses",
		id: "totals",
		"data-seen": seen,
		"data-kept": kept,
		"data-lost": gone,
		title: lost.map(loss => `${loss.reason}: ${count(loss.count)}, ${loss.text}`)
				.join("\n") ||
			"nothing was lost"
	},
		el("span", {}, `${unit} seen `, el("b", {}, count(seen)), " = kept ",
			el("b", {}, count(kept)), " + lost ",
			el("b", { class: gone ? "lost some" : "lost" }, count(gone)),
			gone ? ` (${percent(gone / seen)})` : "",
			others && el("b", { class: "lost some" }, ` · ${others}`)),
		el("span", { class: "totals-bar", "aria-hidden": "true" }, fill));
}

function themeButton(): HTMLElement {
	return el("button", {
		type: "button",
		class: "small",
		title: "Light or dark",
		"aria-label": "Switch between light and dark",
		click: () => {
			const root = document.documentElement;
			const dark =
				getComputedStyle(root).getPropertyValue("--dark").trim() === "1";
			root.dataset.theme = dark ? "light" : "dark";
			window.dispatchEvent(new Event("themechange"));
		}
	},
		"◐");
}

class Page {
	private readonly views: View[];
	private readonly first: View;
	private readonly app: PageApp;
	private readonly main = el("main", { id: "main", tabindex: -1 });
	private readonly links = new Map<string, HTMLAnchorElement>();
	private shown: { view: string; handle: ViewHandle | void; key: string }|null = null;

	private readonly chosen = el("div", { class: "chosen", role: "status" });
	private readonly live = el("span", { class: "live", role: "status" });
	/** For those who do not see that another view is shown. */
	private readonly told = el("p", { class: "visually-hidden", role: "status" });
	private readonly ended = new AbortController();

	constructor(readonly data: Data, root: HTMLElement, private readonly server: Server|null) {
		this.views = viewsOf(data);
		this.first = firstOf(this.views);
		this.app = new PageApp(
			data, this.first.id, server, this.views.flatMap(one => one.source ?? []));
		replace(root,
			el("a", {
				class: "skip",
				href: "#main",
				click: event => {
					event.preventDefault();
					this.main.focus();
				}
			},
				"To the content"),
			el("div", { class: "top" }, this.header(data), this.navigation()),
			this.told, this.main);
		const { signal } = this.ended;
		window.addEventListener("hashchange", () => this.show(), { signal });
		window.addEventListener("statechange", () => this.show(), { signal });
		document.addEventListener("keydown", event => this.key(event), { signal });
		this.show();
		this.tell(false);
	}

	/** Another page takes its place. */
	close(): void {
		this.ended.abort();
		this.shown?.handle?.close?.();
	}

	/** What the server does. */
	tell(gone: boolean): void {
		const state = this.server?.state;
		if (!state) return;
		this.live.dataset.live = String(state.live && !gone);
		this.live.textContent = gone ? "the server has ended" :
			state.running	     ? `recording ${state.way} …` :
			       state.live ? "recording …" :
			       state.exit_code ?
					    `the recording of ${state.way} failed: ${state.exit_code}` :
					    "";
	}

	private header(data: Data): HTMLElement {
		return el("header", {},
			el("a", { class: "brand", href: `#${this.first.id}` }, "Assay"),
			el("div", { class: "subject" },
				el("bdi", { class: "clip subject-title" }, titleOf(data)),
				el("span", { class: "facts" },
					data.older ? `compared with ${data.older.name} · ` : "",
					facts(data))),
			this.live, this.chosen, totalsBox(data), themeButton());
	}

	private navigation(): HTMLElement {
		// Views of code are of instructions or calls where there are no samples of time.
		const sampled = this.data.profile.tree.samples.node.length > 0;
		return el("nav", { "aria-label": "Views" }, ...groups().map(group => {
			const views = this.views.filter(view => view.group === group);
			if (!views.length) return null;
			const heading = group === "Time" && !sampled ? "Code" : group;
			return el("section", {}, el("h2", {}, heading), ...views.map(view => {
				const link = el("a", {
					href: `#${view.id}`,
					"data-view": view.id,
					class: view.empty ? "nothing" : "",
					title: view.empty ? "has no rows" : null
				},
					view.title);
				this.links.set(view.id, link);
				return link;
			}));
		}));
	}

	/** The keys [ and ] go through the views. */
	private key(event: KeyboardEvent): void {
		const typing = event.target instanceof HTMLInputElement ||
			event.target instanceof HTMLSelectElement;
		if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
		const listed = this.views.filter(view => view.group);
		const here = listed.findIndex(view => view.id === this.app.state.view);
		const search = this.main.querySelector<HTMLInputElement>("input[type=search]");
		if (event.key === "]" || event.key === "[")
			location.hash = this.app.href(
				listed[(here + (event.key === "]" ? 1 : listed.length - 1)) %
					listed.length]
					.id);
		else if (event.key === "/" && search) {
			search.focus();
			event.preventDefault();
		}
	}

	/** What is chosen holds for every view: it stands above them. */
	private showChosen(): void {
		const { values } = this.app.state, range = this.app.range();
		const threads = choiceText(this.data.profile.threads, values);
		const part = (text: string, id: string, change: Record<string, string>) =>
			el("span", {}, `Only ${text} `,
				el("button", {
					type: "button",
					class: "small",
					id,
					click: () => this.app.change(change)
				},
					"Show all"));
		replace(this.chosen,
			range && part(rangeText(range), "all-time", { from: "", to: "" }),
			threads &&
				part(threads, "all-threads",
					{ thread: "", program: "", zoom: "" }));
	}

	private tellView(view: View): void {
		const { functions } = this.data, fn = Number(this.app.state.values.fn);
		const title = view.id === "function" ? functions.names[fn] ?? "" : view.title;
		document.title = `${title.slice(0, TITLE_MAX)} · ${titleOf(this.data)} · Assay`;
		this.told.textContent = title;
	}

	private show(): void {
		const { state } = this.app;
		this.showChosen();
		const view = this.views.find(one => one.id === state.view) ?? this.first;
		const range = this.app.range();
		const key = `${view.id} ${state.values.fn ?? ""}` +
			(view.byChoice ? "" :
					 ` ${range?.from} ${range?.to} ${choiceKey(state.values)}`);
		for (const [id, link] of this.links) {
			if (id === view.id) {
				link.setAttribute("aria-current", "page");
				link.scrollIntoView({ block: "nearest", inline: "nearest" });
			} else
				link.removeAttribute("aria-current");
			link.href = this.app.href(id);
		}
		if (this.shown && this.shown.key === key && this.shown.handle?.update) {
			this.shown.handle.update();
			return;
		}
		this.shown?.handle?.close?.();
		replace(this.main);
		this.main.dataset.view = view.id;
		this.tellView(view);
		this.shown = { view: view.id, key, handle: view.render(this.app, this.main) };
		window.scrollTo(0, 0);
	}
}

/** The page of what the server has by now; what was looked at stays. */
async function renew(page: Page, server: Server, root: HTMLElement): Promise<Page> {
	if (document.activeElement instanceof HTMLInputElement) return page;  // somebody is typing
	const data = dataOf(await server.data());
	const { names, modules } = page.data.functions;
	const old = parseHash(location.hash);
	const renumbered =
		renumber(old, ["zoom"], fn => data.functions.find(names[fn], modules[fn]));
	const state = keepFunction(old, renumbered, fn => `${modules[fn]}\n${names[fn]}`,
		name => data.functions.findKey(name));
	const top = window.scrollY;
	page.close();
	history.replaceState(null, "", formatHash(state));
	const next = new Page(data, root, server);
	window.scrollTo(0, top);
	return next;
}

async function serve(root: HTMLElement): Promise<void> {
	const server = new Server();
	let page = new Page(dataOf(await server.data()), root, server);
	server.watch(async () => {
		page = await renew(page, server, root);
		document.documentElement.dataset.renewed =
			String(Number(document.documentElement.dataset.renewed ?? 0) + 1);
	}, gone => page.tell(gone));
}

async function start(): Promise<void> {
	const root = document.getElementById("app"), packed = document.getElementById("profile");
	if (!root || !packed) return;
	try {
		const text = packed.textContent?.trim() ?? "";
		packed.remove();
		if (text)
			new Page(dataOf(await unpack(text)), root, null);
		else
			await serve(root);
		document.documentElement.dataset.ready = String(Math.round(performance.now()));
	} catch (error) {
		replace(root,
			el("p", { class: "loading", role: "alert" },
				`This page cannot be shown: ${
					error instanceof Error ? error.message : String(error)}`));
	}
}

void start();
