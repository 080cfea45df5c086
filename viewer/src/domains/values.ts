// SPDX-License-Identifier: BSD-2-Clause
import {addDomain} from "../domains";

addDomain({
	group: "Values",
	order: 20,
	tables: {
		invariants: "",
		args: "Arguments",
		"args --by-caller": "Arguments by call site",
		blocks: "",
		values: "",
		runs: ""
	}
});
