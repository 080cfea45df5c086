// SPDX-License-Identifier: BSD-2-Clause
// A flame graph on a canvas. Only frames of at least half a pixel are laid out, so that the work
// depends on the size of the picture and not on that of the profile.

import type {Frames} from "./frames";

export interface FlameColours {
	/** Fill of a frame. */
	fill(node: number): string;
	text: string;
	faded: string;
	fadedText: string;
	edge: string;
	focus: string;
	font: string;
}

export interface FlameOptions {
	frames: Frames;
	/** The frame that fills the width. */
	zoom: number;
	/** Root below, flames upwards. */
	upwards: boolean;
	/** By the weights of the older profile. */
	byBase: boolean;
	/** By function; null: nothing is searched for. */
	matches: Uint8Array|null;
	name(fn: number): string;
	colours: FlameColours;
}

interface Box {
	node: number;
	depth: number;
	x: number;
	width: number
}

const ROW = 21, LEAST = 0.5, TEXT_LEAST = 30, PADDING = 5;

export class Flame {
	private boxes: Box[] = [];
	private depth = 0;
	private width = 0;
	private focused = -1;
	private readonly context: CanvasRenderingContext2D;

	constructor(readonly canvas: HTMLCanvasElement, private options: FlameOptions) {
		const context = canvas.getContext("2d");
		if (!context) throw new Error("this browser cannot draw on a canvas");
		this.context = context;
	}

	update(options: FlameOptions): void {
		if (options.frames !== this.options.frames) this.focused = -1;
		this.options = options;
		this.layout();
		this.draw();
	}

	get focus(): number { return this.focused; }

	set focus(node: number) {
		this.focused = node;
		this.draw();
	}

	/** Frames that are drawn, for whom the picture is no use. */
	get drawn(): number { return this.boxes.length; }

	private weight(node: number): number {
		return this.options.byBase ? this.options.frames.base(node) :
					     this.options.frames.total(node);
	}

	/** The callers of the zoomed frame lie across the whole width, then what is below it. */
	private layout(): void {
		const { frames, zoom } = this.options;
		const above: number[] = [];
		this.width = this.canvas.parentElement?.clientWidth ?? 0;
		for (let node = zoom; node; node = frames.parent(node))
			above.unshift(frames.parent(node));
		this.boxes = above.map((node, depth) => ({ node, depth, x: 0, width: this.width }));
		this.place({ node: zoom, depth: above.length, x: 0, width: this.width });
		this.depth =
			this.boxes.reduce((deepest, box) => Math.max(deepest, box.depth), 0) + 1;
	}

	private place(first: Box): void {
		const pending = [first];
		for (let box = pending.pop(); box; box = pending.pop()) {
			const scale = box.width / (this.weight(box.node) || 1);
			let x = box.x;
			this.boxes.push(box);
			for (const child of this.options.frames.children(box.node)) {
				const width = this.weight(child) * scale;
				if (width >= LEAST)
					pending.push(
						{ node: child, depth: box.depth + 1, x, width });
				x += width;
			}
		}
	}

	private top(box: Box): number {
		return (this.options.upwards ? this.depth - 1 - box.depth : box.depth) * ROW;
	}

	draw(): void {
		const ratio = window.devicePixelRatio || 1;
		const height = this.depth * ROW + 2;
		this.canvas.width = Math.round(this.width * ratio);
		this.canvas.height = Math.round(height * ratio);
		this.canvas.style.height = `${height}px`;
		this.context.setTransform(ratio, 0, 0, ratio, 0, 0);
		this.context.font = this.options.colours.font;
		this.context.textBaseline = "middle";
		const letter = this.context.measureText("0123456789").width / 10;
		for (const box of this.boxes) this.drawBox(box, letter);
		const focused = this.boxes.find(box => box.node === this.focused);
		if (focused) this.outline(focused);
	}

	private drawBox(box: Box, letter: number): void {
		const { frames, matches, colours, zoom } = this.options;
		const fn = frames.fn(box.node);
		const faded = (matches && (fn < 0 || !matches[fn])) ||
			(box.depth === 0 && box.node !== zoom);
		const y = this.top(box),
		      width = Math.max(LEAST, box.width - (box.width > 3 ? 1 : 0));
		this.context.fillStyle = faded ? colours.faded : colours.fill(box.node);
		this.context.fillRect(box.x, y, width, ROW - 1);
		if (box.width < TEXT_LEAST) return;
		const room = Math.floor((box.width - 2 * PADDING) / letter);
		const name = this.options.name(fn);
		this.context.fillStyle = faded ? colours.fadedText : colours.text;
		this.context.fillText(
			name.length > room ? `${name.slice(0, Math.max(0, room - 1))}…` : name,
			box.x + PADDING, y + ROW / 2);
	}

	private outline(box: Box): void {
		this.context.strokeStyle = this.options.colours.focus;
		this.context.lineWidth = 2;
		this.context.strokeRect(
			box.x + 1, this.top(box) + 1, Math.max(2, box.width - 3), ROW - 3);
	}

	/** The frame at a point of the canvas; -1: none. */
	at(x: number, y: number): number {
		const row = Math.floor(y / ROW);
		const depth = this.options.upwards ? this.depth - 1 - row : row;
		const box = this.boxes.find(
			one => one.depth === depth && x >= one.x && x < one.x + one.width);
		return box ? box.node : -1;
	}

	/** The frame that an arrow key leads to, from the focused one. */
	neighbour(key: string): number {
		const { frames, zoom, upwards } = this.options;
		const shown = (node: number): boolean => this.boxes.some(box => box.node === node);
		if (this.focused < 0) return zoom;
		const inward = upwards ? "ArrowUp" : "ArrowDown",
		      outward = upwards ? "ArrowDown" : "ArrowUp";
		if (key === inward)
			return frames.children(this.focused).find(shown) ?? this.focused;
		if (key === outward) return this.focused ? frames.parent(this.focused) : 0;
		const siblings = this.focused ?
			frames.children(frames.parent(this.focused)).filter(shown) :
			[0];
		const next = siblings.indexOf(this.focused) + (key === "ArrowRight" ? 1 : -1);
		return siblings[Math.min(siblings.length - 1, Math.max(0, next))] ?? this.focused;
	}
}
