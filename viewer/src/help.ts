// SPDX-License-Identifier: BSD-2-Clause
// What the columns of tables mean, for whoever sees one for the first time. A title means one thing
// everywhere; where it does not, the name of the view stands before it.

const BY_NAME: Record<string, string> = {
	"self": "Samples taken in this code itself, not in what it called.",
	"total": "Samples taken in it or in anything that it called; a recursion counts once.",
	"part": "Its share of the function's own number.",
	"total_share": "The total as a share of everything seen, what was lost included.",
	"site": "The address of the call instruction.",
	"kernel": "How many of the samples were in the kernel.",
	"values":
		"The most common values, each with its share; ± is the error that is possible with 95 % certainty. +12: so many more are known.",
	"distinct": "How many different values are known.",
	"range": "The smallest and the largest value, their mean and standard deviation.",
	"rank": "Orders the rows: how often the place runs, times how sure it is that its value stays the same.",
	"entries": "How often the function was entered in the interpreted runs.",
	"from": "The place that called.",
	"step_share": "The share of all instructions that were interpreted.",
	"repeats": "How many repeated cycles went on to the next level.",
	"times": "How often the path was run several times in a row: runs, not trips.",
	"each": "What one execution costs: instructions, or what was asked for as heat.",
	"instructions_per_visit": "Instructions of one visit, on average.",
	"heat": "What all executions cost together.",
	"often": "How often it was run.",
	"trips": "How often it was run.",
	"symbol_trips": "How often this part is run in a row in one trip.",
	"symbol_number": "The number of the path that the cycle holds.",
	"step_blocks": "Basic blocks of the path in this function.",
	"hot_share": "The share of the path that most of the stretch went to.",
	"when": "Where in the run it lies, from the first instruction to the last.",
	"seen_by": "Which detectors see that the behaviour changes here.",
	"shown_label": "Phases that do the same have the same letter.",
	"cycles": "How many cycles were run.",
	"symbols": "How many came in from the level below.",
	"rare": "Cycles that were run only once, and are only counted.",
	"broken": "Cycles that ended early because memory was full.",
	"cut": "Cycles that had the greatest length that was allowed.",
	"queued_ms": "Milliseconds from being woken until a processor was free.",
	"total_ms": "Milliseconds waited, all together.",
	"longest_ms": "The longest single wait, in milliseconds.",
	"cause": "What the thread waited for.",
	"waker": "The thread that ended the wait, or an interrupt.",
	"woken_from": "Where the waker was.",
	"on_cpu_ms": "Milliseconds on a processor.",
	"lifetime_ms": "Milliseconds from its beginning, or that of the recording, to the end.",
	"voluntary": "Context switches because the thread waited.",
	"involuntary": "Context switches because another thread had its turn.",
	"base": "Used by the function itself, in ns.",
	"cum": "Used by the function and by what it called, in ns.",
	"elapsed": "Time by the clock on the wall, in ns.",
	"recursion": "How often the function is on the path.",
	"calls": "How often it was called.",
	"visits": "How often the mark was reached.",
	"slower": "Visits above the threshold of the mark.",
	"untimed": "Visits whose time is not known.",
	"share": "Share of everything seen, what was lost included."
};

const BY_VIEW: Record<string, string> = {
	"invariants:total": "How many values of this place were received.",
	"values:total": "How many values of this place were received.",
	"annotate:total": "How many values of this instruction were received.",
	"blocks:total": "How many values of this instruction were received.",
	"invariants:share": "The share of the interpreted runs that brought a value of this place.",
	"values:share": "The share of the interpreted runs that brought a value of this place.",
	"runs:share": "The share of the runs that were begun.",
	"blocks:rank":
		"Orders the rows: samples inside, times how sure it is that the values stay the same.",
	"course:part": "Its share of the thread's instructions.",
	"phases:part": "Its share of the thread's instructions.",
	"executed:part": "Its share of the heat of all blocks.",
	"paths:part": "Its share of everything seen, what was lost included.",
	"strata:part": "Its share of everything seen, what was lost included.",
	"course:from": "The first instruction of the stretch, counted in its thread.",
	"phases:from": "The first instruction of the phase, counted in its thread.",
	"transfers:from": "The module that control left.",
	"transfers:entries":
		"Transfers that arrived where a function begins: nearly all of them are calls.",
	"waits:share": "Share of all time that was waited.",
	"tail:share": "Share of the time by which slow visits are longer than usual ones.",
	"tail:visits": "How many of the slow visits have it.",
	"threads:self": "Samples of the thread.",
	"processes:self": "Samples of the process."
};

/** "": the title says it all. */
export function helpOf(view: string, column: string): string {
	const name = view.replace(/ .*/, "");
	return BY_VIEW[`${name}:${column}`] ?? BY_NAME[column] ?? "";
}
