// SPDX-License-Identifier: BSD-2-Clause
// Elements made by calls. Text is only ever set as text, so that no name of a profile is read as
// HTML.

export type Child = Node|string|null|undefined|false;

type Attributes = Record<string, string|number|boolean|null|undefined|EventListener>;

/**
 * A function is a listener of the event that the attribute names; false, null and undefined leave
 * an attribute out.
 */
export function el<K extends keyof HTMLElementTagNameMap>(
	tag: K, attributes: Attributes = {}, ...children: Child[]): HTMLElementTagNameMap[K] {
	const element = document.createElement(tag);
	for (const [name, value] of Object.entries(attributes)) {
		if (typeof value === "function")
			element.addEventListener(name, value);
		else if (value === true)
			element.setAttribute(name, "");
		else if (value !== false && value !== null && value !== undefined)
			element.setAttribute(name, String(value));
	}
	append(element, children);
	return element;
}

export function append(parent: Node, children: Child[]): void {
	for (const child of children) {
		if (child)
			parent.appendChild(
				typeof child === "string" ? document.createTextNode(child) : child);
	}
}

export function replace(parent: Element, ...children: Child[]): void {
	parent.textContent = "";
	append(parent, children);
}

/** A bar behind a number: how much of all it is. */
export function bar(share: number, className = ""): HTMLElement {
	const fill = el("span", { class: `bar-fill ${className}` });
	fill.style.width = `${Math.min(1, Math.max(0, share)) * 100}%`;
	return el("span", { class: "bar", "aria-hidden": "true" }, fill);
}

/** The text of a button, which is from then on its name, too. */
export function say(button: HTMLButtonElement, text: string): void {
	button.removeAttribute("aria-label");
	button.textContent = text;
}

/** A button that puts text on the clipboard and says so. */
export function copyButton(text: string, title: string): HTMLButtonElement {
	const button = el("button", {
		class: "small",
		type: "button",
		"aria-label": `Copy: ${title}`,
		click: () => {
			const done = (): void => {
				say(button, "Copied");
			};
			if (navigator.clipboard)
				navigator.clipboard.writeText(text).then(
					done, () => select(text, done));
			else
				select(text, done);
		}
	},
		"Copy");
	return button;
}

/** The way for pages opened from a file, where the clipboard may be out of reach. */
function select(text: string, done: () => void): void {
	const area = el("textarea", { readonly: true, class: "visually-hidden" }, text);
	document.body.append(area);
	area.select();
	if (document.execCommand("copy")) done();
	area.remove();
}
