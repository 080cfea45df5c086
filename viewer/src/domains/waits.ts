// SPDX-License-Identifier: BSD-2-Clause
import {addDomain} from "../domains";
import {weightedSources} from "../flame_source";
import {flameOf} from "../views/flame_view";

addDomain({
	group: "Waits",
	order: 40,
	tables: { waits: "", cpus: "Processors" },
	pictures: data => weightedSources(data, "waits", "offcpu", "Off-CPU flame graph", "Waits",
		"Where threads left the processor, as wide as the time until they were woken.",
		"Cause").map(flameOf)
});
