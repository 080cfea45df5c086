// SPDX-License-Identifier: BSD-2-Clause
// What a page shows, put together from the files in domains/ and views/, each of which says by
// itself what it has: bundle.py takes in every file of both folders.

import type {View} from "./app";
import type {Data} from "./data";

/** What was recorded about one thing: samples, values, waits. */
export interface Domain {
	/** The heading in the list of views. */
	group: string;
	/** Domains with a smaller one come first. */
	order: number;
	/** Views of `assay report` that belong here, with titles other than their names. */
	tables?: Record<string, string>;
	/** Pictures of its own; one with the name of a table takes its place. */
	pictures?(data: Data): View[];
}

/** Tables that no domain has asked for come under this heading. */
export const OTHERS = "More";
const OTHERS_ORDER = 80;

const domains: Domain[] = [];

export function addDomain(domain: Domain): void { domains.push(domain); }

export function sortedDomains(): Domain[] {
	return [...domains].sort((a, b) => a.order - b.order || (a.group < b.group ? -1 : 1));
}

/** The headings, in order. */
export function groups(): string[] {
	const named = sortedDomains().map(one => ({ name: one.group, order: one.order }));
	const all = [...named, { name: OTHERS, order: OTHERS_ORDER }];
	return Array.from(new Set(all.sort((a, b) => a.order - b.order).map(one => one.name)));
}

export function groupOf(table: string): string {
	return domains.find(one => one.tables && table in one.tables)?.group ?? OTHERS;
}

export function titleOf(table: string): string {
	const title = domains.find(one => one.tables && table in one.tables)?.tables?.[table];
	return title || table.charAt(0).toUpperCase() + table.slice(1);
}
