// SPDX-License-Identifier: BSD-2-Clause
// The course of a run: what each thread repeated when. Stretches of a thread are cycles that were
// run some times in a row; as a cycle is the same each time, what it holds is known once for all of
// its trips, and the picture can be enlarged until single instructions are as wide as a finger.
//
// Work depends on the width of the picture: whatever is narrower than a few points is drawn as a
// whole, and nothing is computed for what lies outside.

import type {Functions} from "./data";

export interface RawCourse {
	threads: { omitted: number; thread: number[]; instructions: number[]; stretches: number[] };
	stretches: {
		level: number[]; cycle: number[]; length: number[]; trips: number[]; hot: number[];
		hot_instructions: number[]
	};
	strata: { weight: number[]; parts: number[] };
	parts: { path: number[]; trips: number[]; instructions: number[]; various: number[] };
	paths: { number: number[]; weight: number[]; steps: number[] };
	steps: { instructions: number[]; name: number[]; module: number[]; place: number[] };
}

export interface Step {
	fn: number;
	/** "file.c:3-7"; "": not known */
	place: string;
	instructions: number;
}

export interface Path {
	number: number;
	weight: number;
	steps: Step[];
}

/** A path that was run some times; or various ones, of which `path` is the hottest. */
export interface Part {
	path: number;
	trips: number;
	instructions: number;
	various: boolean;
}

export interface Stratum {
	weight: number;
	/** None: it has too many to be on the page. */
	parts: Part[];
}

export interface Stretch {
	begin: number;
	end: number;
	/** Of strata or paths; -1: various ones. */
	cycle: number;
	trips: number;
	hot: number;
	hotInstructions: number;
}

export interface CourseThread {
	thread: number;
	instructions: number;
	strata: Stretch[];
	paths: Stretch[];
}

export interface Course {
	threads: CourseThread[];
	omitted: number;
	strata: Stratum[];
	paths: Path[];
}

/** Splits a list into pieces of the lengths that are given. */
function pieces<T>(lengths: number[], items: T[]): T[][] {
	let at = 0;
	return lengths.map(length => items.slice(at, at += length));
}

function stretchesOf(raw: RawCourse, level: number, from: number, to: number): Stretch[] {
	const { stretches } = raw, list: Stretch[] = [];
	let begin = 0;
	for (let i = from; i < to; i++) {
		if (stretches.level[i] !== level) continue;
		const end = begin + stretches.length[i];
		list.push({
			begin,
			end,
			cycle: stretches.cycle[i] - 1,
			trips: stretches.trips[i],
			hot: stretches.hot[i],
			hotInstructions: stretches.hot_instructions[i]
		});
		begin = end;
	}
	return list;
}

export function courseOf(raw: RawCourse, strings: string[], functions: Functions): Course {
	const steps = raw.steps.name.map((name, i): Step => ({
		fn: functions.add(strings[name], strings[raw.steps.module[i]]),
		place: strings[raw.steps.place[i]],
		instructions: raw.steps.instructions[i]
	}));
	const parts = raw.parts.path.map((path, i): Part => ({
		path,
		trips: raw.parts.trips[i],
		instructions: raw.parts.instructions[i],
		various: Boolean(raw.parts.various[i])
	}));
	const partsOf = pieces(raw.strata.parts, parts), stepsOf = pieces(raw.paths.steps, steps);
	let at = 0;
	return {
		omitted: raw.threads.omitted,
		threads: raw.threads.thread.map((thread, i) => {
			const from = at, to = at += raw.threads.stretches[i];
			return {
				thread,
				instructions: raw.threads.instructions[i],
				strata: stretchesOf(raw, 1, from, to),
				paths: stretchesOf(raw, 0, from, to)
			};
		}),
		strata: raw.strata.weight.map((weight, i) => ({ weight, parts: partsOf[i] })),
		paths: raw.paths.number.map(
			(number, i) => ({ number, weight: raw.paths.weight[i], steps: stepsOf[i] }))
	};
}

export type Lane = "strata"|"paths"|"functions";

/** What is drawn: from `begin` to `end`, in instructions of the thread. */
export interface Box {
	lane: Lane;
	begin: number;
	end: number;
	/** Number of a stratum, path or function; -1: various. */
	what: number;
	/** The path that most of it is. */
	path: number;
	/** How many in a row the box stands for; 1: a single trip; 0: not known. */
	trips: number;
	place: string;
}

/** What is at least so many instructions long is drawn by itself. */
interface Window {
	from: number;
	to: number;
	least: number;
}

function first(stretches: Stretch[], at: number): number {
	let low = 0, high = stretches.length;
	while (low < high) {
		const middle = (low + high) >> 1;
		if (stretches[middle].end <= at)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/** The trips of a cycle that are in sight: the number of the first one, and of the one behind. */
function tripsIn(begin: number, weight: number, trips: number, window: Window): [number, number] {
	return [
		Math.max(0, Math.floor((window.from - begin) / weight)),
		Math.min(trips, Math.ceil((window.to - begin) / weight))
	];
}

export class Layout {
	readonly boxes: Box[] = [];
	private readonly window: Window;
	private readonly last = new Map<Lane, Box>();

	constructor(private readonly course: Course, private readonly thread: CourseThread,
		from: number, to: number, width: number) {
		this.window = { from, to, least: 3 * (to - from) / Math.max(1, width) };
		this.strata();
	}

	private visible(begin: number, end: number): boolean {
		return end > this.window.from && begin < this.window.to;
	}

	/** Various ones that are mostly the same path are one stretch to the eye. */
	private add(box: Box): void {
		if (!this.visible(box.begin, box.end)) return;
		const last = this.last.get(box.lane);
		if (last && last.what < 0 && box.what < 0 && last.path === box.path &&
			last.end === box.begin) {
			last.end = box.end;
			last.trips = last.trips && box.trips ? last.trips + box.trips : 0;
			return;
		}
		this.last.set(box.lane, box);
		this.boxes.push(box);
	}

	private strata(): void {
		const { strata } = this.thread;
		for (let i = first(strata, this.window.from); i < strata.length; i++) {
			const one = strata[i];
			if (one.begin >= this.window.to) break;
			this.stratum(one);
		}
	}

	private stratum(one: Stretch): void {
		const cycle = one.cycle < 0 ? null : this.course.strata[one.cycle];
		const box = { lane: "strata", what: one.cycle, path: one.hot, place: "" } as const;
		if (!cycle || cycle.weight < this.window.least) {
			this.add({...box, begin: one.begin, end: one.end, trips: one.trips });
			if (cycle)
				this.path(one.begin, one.end, -1, one.hot, 0);
			else
				this.paths(one.begin, one.end);
			return;
		}
		const [from, to] = tripsIn(one.begin, cycle.weight, one.trips, this.window);
		for (let trip = from; trip < to; trip++) {
			const begin = one.begin + trip * cycle.weight, end = begin + cycle.weight;
			this.add({...box, begin, end, trips: 1 });
			if (cycle.parts.length)
				this.parts(cycle, begin);
			else
				this.paths(begin, end);
		}
	}

	private parts(cycle: Stratum, begin: number): void {
		for (const part of cycle.parts) {
			const end = begin + part.instructions;
			if (this.visible(begin, end))
				this.path(begin, end, part.various ? -1 : part.path, part.path,
					part.trips);
			begin = end;
		}
	}

	/** Where no stratum says what there was: the thread's own stretches of paths. */
	private paths(begin: number, end: number): void {
		const { paths } = this.thread;
		const from = Math.max(begin, this.window.from), to = Math.min(end, this.window.to);
		for (let i = first(paths, from); i < paths.length && paths[i].begin < to; i++) {
			const one = paths[i];
			const whole = one.begin >= begin && one.end <= end;
			this.path(Math.max(one.begin, begin), Math.min(one.end, end), one.cycle,
				one.hot, whole ? one.trips : 0);
		}
	}

	private path(begin: number, end: number, what: number, hot: number, trips: number): void {
		const path = this.course.paths[hot];
		const box = { lane: "paths", what, path: hot, place: "" } as const;
		if (what < 0 || path.weight < this.window.least) {
			this.add({...box, begin, end, trips });
			this.functions(begin, end, hot, what < 0);
			return;
		}
		const [from, to] = tripsIn(begin, path.weight, trips, this.window);
		for (let trip = from; trip < to; trip++) {
			const start = begin + trip * path.weight;
			this.add({...box, begin: start, end: start + path.weight, trips: 1 });
			this.steps(path, start, hot);
		}
	}

	private steps(path: Path, begin: number, hot: number): void {
		for (const step of path.steps) {
			const end = begin + step.instructions;
			this.add({
				lane: "functions",
				begin,
				end,
				what: step.fn,
				path: hot,
				trips: 1,
				place: step.place
			});
			begin = end;
		}
	}

	/** Of what is too narrow: where the path begins. */
	private functions(begin: number, end: number, hot: number, various: boolean): void {
		const step = this.course.paths[hot].steps[0];
		this.add({
			lane: "functions",
			begin,
			end,
			what: various || !step ? -1 : step.fn,
			path: hot,
			trips: 0,
			place: step?.place ?? ""
		});
	}
}
