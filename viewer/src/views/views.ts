// SPDX-License-Identifier: BSD-2-Clause
// The views that a page has, by what its profile holds: the pictures of each domain, and every
// table that no picture stands for.

import type {View} from "../app";
import type {Data} from "../data";
import {groups, sortedDomains} from "../domains";
import {reportView} from "./report_view";

/** What is shown at first: a picture of the whole, where there is one. */
export function firstOf(views: View[]): View { return views.find(one => one.source) ?? views[0]; }

export function viewsOf(data: Data): View[] {
	const pictures = sortedDomains().flatMap(domain => domain.pictures?.(data) ?? []);
	const shown = new Set(pictures.map(one => one.table ?? one.id));
	const tables = data.profile.tables.filter(table => !shown.has(table.id)).map(reportView);
	return groups()
		.flatMap(group => [...pictures.filter(one => one.group === group),
				 ...tables.filter(one => one.group === group)])
		.concat(pictures.filter(one => !one.group));
}
