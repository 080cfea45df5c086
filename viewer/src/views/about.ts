// SPDX-License-Identifier: BSD-2-Clause
// How the profile was made: every fact that it keeps about its recordings and machines.

import type {View} from "../app";
import {lostCount, Recording} from "../data";
import {el} from "../dom";
import {count, duration} from "../format";

function facts(title: string, rows: [string, string][]): HTMLElement {
	return el("section", { class: "card" }, el("h2", {}, title),
		el("div", { class: "table-scroll" },
			el("table", {},
				el("tbody", {},
					...rows.filter(([, text]) => text)
						.map(([name, text]) => (el("tr", {},
							     el("th", { scope: "row" },
								     name.replace(/_/g, " ")),
							     el("td", { class: "wrap" },
								     text))))))));
}

function recordingFacts(recording: Recording): HTMLElement {
	const { totals, unit } = recording;
	return facts(`Recording of ${recording.kind}`, [
		[
			unit,
			`seen ${count(totals.seen)} = kept ${count(totals.kept)} + lost ${
				count(lostCount(totals))}`
		],
		[
			"began",
			new Date(recording.started / 1e6)
				.toISOString()
				.replace("T", " ")
				.slice(0, 19)
		],
		["took", duration(recording.duration)],
		["merged of", recording.parts > 1 ? `${recording.parts} recordings` : ""],
		...recording.facts
	]);
}

export const aboutView: View = {
	id: "about",
	title: "About this profile",
	group: "Trust",
	render: (app, root) => {
		const { profile, version } = app.data;
		root.append(el("h1", {}, "About this profile"),
			el("p", { class: "summary" },
				`${profile.name}, shown by Assay ${version}. ` +
					(app.server ? "It comes from assay serve on this machine." :
						      "The page loads nothing: all data is in this one file.")),
			!profile.finished ?
				el("p", { class: "warning" },
					"The recording goes on, or did not end as it should: this is " +
						"what was written until then.") :
				"",
			...profile.recordings.map(recordingFacts),
			...profile.machines.map(one => facts(`Machine ${one.host}`, [
				["kernel", one.kernel], ["architecture", one.architecture]
			])));
	}
};
