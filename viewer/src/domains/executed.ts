// SPDX-License-Identifier: BSD-2-Clause
import type {View} from "../app";
import type {Table} from "../data";
import {addDomain} from "../domains";
import {weightedSources} from "../flame_source";
import {courseView} from "../views/course_view";
import {flameOf} from "../views/flame_view";
import {phasesView} from "../views/phases_view";
import {reportView} from "../views/report_view";

/** What a report calls the timeline is of executed code; that of the page is of samples. */
function detectorsView(table: Table): View {
	return {...reportView(table), id: "detectors", table: "timeline", title: "Detectors" };
}

addDomain({
	group: "Execution",
	order: 30,
	tables: {
		course: "",
		executed: "Blocks executed",
		coverage: "",
		paths: "",
		strata: "",
		layers: "",
		phases: "",
		timeline: "Detectors",
		transfers: "",
		mix: ""
	},
	pictures: data =>
		[...weightedSources(data, "executed", "instructions", "Instruction flame graph",
			 "Execution",
			 "Every instruction that was executed, by the calls that led to it: exact counts, not samples.")
				.map(flameOf),
			...(data.profile.course ? [courseView(data.profile.course)] : []),
			...data.profile.tables.filter(one => one.view === "phases").map(phasesView),
			...data.profile.tables.filter(one => one.view === "timeline")
				.map(detectorsView)]
});
