// SPDX-License-Identifier: BSD-2-Clause
// Numbers and texts as people read them. The language is fixed, so that a page reads the same
// everywhere.

export function count(number: number): string { return Math.round(number).toLocaleString("en-US"); }

/** Not a whole number: with six digits. */
export function rounded(number: number): string {
	return number.toLocaleString("en-US", { maximumSignificantDigits: 6 });
}

export function percent(share: number, digits = 2): string {
	return `${(share * 100).toFixed(digits)}%`;
}

export function signedPercent(share: number): string {
	return `${share > 0 ? "+" : share < 0 ? "−" : ""}${percent(Math.abs(share))}`;
}

export function duration(nanoseconds: number): string {
	const seconds = nanoseconds / 1e9;
	if (seconds < 1) return `${(seconds * 1000).toFixed(0)} ms`;
	if (seconds < 120) return `${seconds.toFixed(1)} s`;
	return `${Math.floor(seconds / 60)} min ${Math.round(seconds % 60)} s`;
}

/** With a unit that fits, down to nanoseconds. */
export function time(nanoseconds: number): string {
	for (const [unit, name] of [[1e9, "s"], [1e6, "ms"], [1e3, "µs"]] as const) {
		if (nanoseconds >= unit)
			return `${Number((nanoseconds / unit).toPrecision(4))} ${name}`;
	}
	return `${Math.round(nanoseconds)} ns`;
}

/** 1,234,567 becomes 1.23 M, for axes. */
export function short(number: number): string {
	for (const [unit, name] of [[1e12, " T"], [1e9, " G"], [1e6, " M"], [1e3, " k"]] as const) {
		if (number >= unit) return `${Number((number / unit).toPrecision(3))}${name}`;
	}
	return String(Math.round(number));
}

const INVISIBLE =
	/[\u0000-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;

/** Control characters and those that change the direction of what follows become visible. */
export function visible(text: string): string {
	return text.replace(INVISIBLE, c => `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

/** A word of a shell's command line. */
export function shellWord(text: string): string {
	return /^[\w.,:/=@%+-]+$/.test(text) ? text : `'${text.replace(/'/g, "'\\''")}'`;
}
