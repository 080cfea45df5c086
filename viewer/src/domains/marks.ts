// SPDX-License-Identifier: BSD-2-Clause
import {addDomain} from "../domains";

addDomain({
	group: "Marks",
	order: 50,
	tables: {
		marks: "",
		marktime: "Marks over time",
		accesses: "",
		events: "",
		tail: "Slow visits"
	}
});
