// SPDX-License-Identifier: BSD-2-Clause
import {addDomain} from "../domains";
import {aboutView} from "../views/about";
import {functionView} from "../views/function_view";

addDomain({
	group: "Trust",
	order: 90,
	tables: { losses: "" },
	pictures: () => [functionView, aboutView]
});
