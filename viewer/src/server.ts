// SPDX-License-Identifier: BSD-2-Clause
// The server that the page came from, where there is one: `assay serve`. It is asked every second
// whether there is something new; everything is below the page's own address.

import type {NewRow} from "./data";

export interface ServerState {
	/** Changes when there is something new. */
	generation: number;
	/** The profile is being recorded. */
	live: boolean;
	/** Recordings may be started from the page. */
	may_start: boolean;
	running: boolean;
	/** What was started last, and how it ended. */
	way: string;
	exit_code: number;
}

/** What can be recorded; the server knows the command lines. */
export type Way = "samples"|"values"|"operands"|"paths"|"counts"|"marks";

const INTERVAL_MS = 1000;

async function ask(path: string, options?: RequestInit): Promise<Response> {
	const response = await fetch(path, options);
	if (!response.ok) throw new Error((await response.text()).trim());
	return response;
}

export class Server {
	state: ServerState|null = null;
	private shown = -1;

	async data(): Promise<string> {
		// In this order: what comes is at least as new as what is noted.
		this.state = await (await ask("state")).json() as ServerState;
		const text = await (await ask("data")).text();
		this.shown = this.state.generation;
		return text;
	}

	/**
	 * What `assay report --json` prints; the request is a view with options, as of an address.
	 */
	async report(request: string): Promise<{ rows: NewRow[]; omitted: number }> {
		return await (await ask(`report/${request}`)).json() as {
			rows: NewRow[];
			omitted: number
		};
	}

	/** A mark is wanted by "marks", and by nothing else. */
	async start(way: Way, mark = ""): Promise<void> {
		const body = mark ? `${way} ${mark}` : way;
		const response = await ask("start", { method: "POST", body });
		this.state = await response.json() as ServerState;
	}

	/**
	 * update: there is something new; changed: the state, perhaps. Ends when the server does.
	 */
	watch(update: () => Promise<void>, changed: (gone: boolean) => void): void {
		const round = async(): Promise<void> => {
			try {
				this.state = await (await ask("state")).json() as ServerState;
				changed(false);
				// What is new may take a while to come.
				if (this.state.generation !== this.shown) {
					await update();
					changed(false);
				}
			} catch {
				changed(true);
				return;
			}
			window.setTimeout(() => void round(), INTERVAL_MS);
		};
		window.setTimeout(() => void round(), INTERVAL_MS);
	}
}
