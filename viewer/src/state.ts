// SPDX-License-Identifier: BSD-2-Clause
// What is shown, in the part of the address behind '#': a link shows the same thing, and "back"
// goes back.

export interface State {
	view: string;
	/** Everything else that views remember: texts by name. */
	values: Record<string, string>;
}

export function parseHash(hash: string): State {
	const [view, query = ""] = hash.replace(/^#/, "").split(/\?(.*)/s);
	return { view, values: Object.fromEntries(new URLSearchParams(query)) };
}

/**
 * The same after the data was made anew: functions, which are numbers, may have others. Lists of
 * them are separated by points.
 */
export function renumber(
	state: State, names: readonly string[], number: (fn: number) => number | undefined): State {
	const values = {...state.values };
	for (const name of names) {
		if (!values[name]) continue;
		const numbers = values[name].split(".").map(one => number(Number(one)));
		const known = numbers.findIndex(one => one === undefined);
		values[name] = numbers.slice(0, known < 0 ? numbers.length : known).join(".");
	}
	return { view: state.view, values };
}

/**
 * A function that new data does not have, or not yet, stays in the address by its name, and is
 * shown as soon as it is there.
 */
export function keepFunction(before: State, after: State, nameOf: (fn: number) => string,
	find: (name: string) => number | undefined): State {
	const { fn = "" } = before.values;
	const name = fn ? nameOf(Number(fn)) : before.values.awaited ?? "";
	const found = name ? find(name) : undefined;
	const values = found !== undefined ? { fn: String(found), awaited: "" } :
					     { fn: "", awaited: name };
	return { view: after.view, values: {...after.values, ...values } };
}

export function formatHash(state: State): string {
	const query = new URLSearchParams();
	for (const [name, value] of Object.entries(state.values)) {
		if (value) query.set(name, value);
	}
	const text = query.toString();
	return `#${state.view}${text ? `?${text}` : ""}`;
}
