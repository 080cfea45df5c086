// SPDX-License-Identifier: BSD-2-Clause
import {addDomain} from "../domains";
import {flameView} from "../views/flame_view";
import {reportView} from "../views/report_view";
import {timelineView} from "../views/timeline_view";

addDomain({
	group: "Time",
	order: 10,
	tables: {
		functions: "",
		lines: "",
		modules: "",
		processes: "",
		threads: "",
		callgraph: "Call graph",
		tree: ""
	},
	pictures: ({ profile,
		difference }) => [...(profile.tree.samples.node.length ? [flameView] : []),
		...(difference ? [{
			...reportView(difference),
			id: "difference",
			title: "Difference",
			group: "Time"
		}] :
				 []),
		...(profile.ticks.second.length ? [timelineView] : [])]
});
