// SPDX-License-Identifier: BSD-2-Clause
import {addDomain} from "../domains";
import {weightedSources} from "../flame_source";
import {flameOf} from "../views/flame_view";

addDomain({
	group: "Calls",
	order: 35,
	pictures: data => weightedSources(data, "calls", "calls", "Tree of calls", "Calls",
		"Every path of calls that threads took, as wide as what is chosen: calls, time on a processor or on the clock.")
				  .map(flameOf)
});
