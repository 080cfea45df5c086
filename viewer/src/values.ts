// SPDX-License-Identifier: BSD-2-Clause
// The most common values at a place: each as a bar of its share, with the value and the number.

import type {CommonValue, Values} from "./data";
import {el} from "./dom";
import {count, percent} from "./format";

function share(value: CommonValue): string {
	const spread = (value.high - value.low) / 2;
	return spread < 0.005 ? percent(value.share, 1) :
				`${percent(value.share, 0).slice(0, -1)}±${percent(spread, 0)}`;
}

function chip(value: CommonValue): HTMLElement {
	const fill = el("span", { class: "value-fill", "aria-hidden": "true" });
	fill.style.width = `${Math.min(1, value.share) * 100}%`;
	return el("li", {
		class: "value",
		title: `${value.text}: ${count(value.count)} times, ` +
			`${percent(value.low)} to ${percent(value.high)} with 95 % confidence`
	},
		fill, el("bdi", { class: "value-text" }, value.text),
		el("span", { class: "value-share" }, share(value)));
}

export function valueBars(values: Values, shown = 4): HTMLElement {
	const rest = values.distinct - Math.min(shown, values.common.length);
	const list = el("ul", { class: "values", "aria-label": values.label || "values" },
		...values.common.slice(0, shown).map(chip),
		rest > 0 && el("li", { class: "value-rest" }, `+${rest}`));
	return el("div", { class: "values-cell" },
		Boolean(values.label) && el("span", { class: "value-label" }, values.label), list);
}
