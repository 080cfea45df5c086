// SPDX-License-Identifier: BSD-2-Clause
// What all views share: the data, what is shown, and the weights that follow from it.

import {choiceKey, Chosen, chosenThreads} from "./choice";
import type {Data} from "./data";
import type {FlameSource} from "./flame_source";
import {Downward, unite, weigh} from "./frames";
import {Range, rangeOf} from "./range";
import type {Server} from "./server";
import {formatHash, parseHash, State} from "./state";

export interface App {
	readonly data: Data;
	readonly state: State;
	/** Where the page came from; null: from a file. */
	readonly server: Server|null;
	/** What flame graphs are of, the one that the profile is about first. */
	readonly sources: readonly FlameSource[];
	/**
	 * What is wanted of the values; an empty text forgets one. Each is a step that "back" takes
	 * back, but for what comes letter by letter or as a pointer moves.
	 */
	change(values: Record<string, string>): void;
	href(view: string, values?: Record<string, string>): string;
	functionHref(name: string, module: string): string|null;
	/** The stretch of time that is chosen; null: all. */
	range(): Range|null;
	/** The threads that are chosen; null: all. */
	chosen(): Chosen;
	/**
	 * Of the thread or program and the time that are chosen; of all, with losses, if none is.
	 */
	frames(): Downward;
}

/** A kind of picture of a profile. A new one is a file in views/ and a line in views/views.ts. */
export interface View {
	id: string;
	title: string;
	group: string;
	/** The view of a report whose table it shows, where that has another name. */
	table?: string;
	/** There is nothing to see but why. */
	empty?: boolean;
	/** It draws other threads and another time itself; others are made anew. */
	byChoice?: boolean;
	/** Of a flame graph: what it is of. */
	source?: FlameSource;
	render(app: App, root: HTMLElement): void|ViewHandle;
}

export interface ViewHandle {
	/** The values of the state have changed; without it the view is made anew. */
	update?(): void;
	close?(): void;
}

/** What is changed many times in a row, or says only how something is shown. */
const NO_STEPS = new Set(["search", "filter", "sort", "from", "to", "at"]);

export class PageApp implements App {
	private cached: { key: string; frames: Downward }|null = null;
	private united: ReturnType<typeof unite>|null = null;

	constructor(readonly data: Data, private readonly first: string,
		readonly server: Server|null, readonly sources: readonly FlameSource[]) {}

	get state(): State {
		const state = parseHash(location.hash);
		return { view: state.view || this.first, values: state.values };
	}

	change(values: Record<string, string>): void {
		const { view, values: old } = this.state;
		const link = formatHash({ view, values: {...old, ...values } });
		const changed = Object.keys(values).filter(
			name => (old[name] ?? "") !== (values[name] ?? ""));
		if (changed.every(name => NO_STEPS.has(name)))
			history.replaceState(null, "", link);
		else
			history.pushState(null, "", link);
		window.dispatchEvent(new Event("statechange"));
	}

	href(view: string, values: Record<string, string> = {}): string {
		const { thread = "", program = "", from = "", to = "" } = this.state.values;
		return formatHash({ view, values: { thread, program, from, to, ...values } });
	}

	functionHref(name: string, module: string): string|null {
		const id = this.data.functions.find(name, module);
		return id === undefined ? null : this.href("function", { fn: String(id) });
	}

	range(): Range|null { return rangeOf(this.data.profile.tree, this.state.values); }

	chosen(): Chosen { return chosenThreads(this.data.profile.threads, this.state.values); }

	frames(): Downward {
		const { values } = this.state, range = this.range();
		const key = `${choiceKey(values)} ${range?.from} ${range?.to}`;
		if (!this.cached || this.cached.key !== key)
			this.cached = { key, frames: this.makeFrames(values, range) };
		return this.cached.frames;
	}

	/** Threads of two profiles have nothing to do with each other, programs have. */
	private makeFrames(values: Record<string, string>, range: Range|null): Downward {
		const { profile, older, functions } = this.data;
		const self = weigh(profile.tree, chosenThreads(profile.threads, values), range);
		if (!older) return new Downward(profile.tree.parent, profile.tree.fn, self, null);
		this.united ??= unite(profile.tree, older.tree, functions);
		const { parent, fn, ofOlder } = this.united;
		const selves = new Float64Array(parent.length),
		      bases = new Float64Array(parent.length);
		selves.set(self);
		const program = values.program ?? "";
		weigh(older.tree, chosenThreads(older.threads, { program }))
			.forEach((count, node) => {
				bases[ofOlder[node]] += count;
			});
		return new Downward(parent, fn, selves, bases);
	}
}
