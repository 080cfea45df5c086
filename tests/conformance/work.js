// SPDX-License-Identifier: BSD-2-Clause
// Compiled loops, garbage, workers, promises, child processes.
const { Worker, isMainThread, parentPort, workerData } = require("worker_threads");
const { execFileSync } = require("child_process");
function work(seed) {
	let x = seed, map = new Map();
	for (let i = 0; i < 300000; i++) {
		x = (Math.imul(x, 1103515245) + 12345) >>> 0;
		map.set(x % 1009, (map.get(x % 1009) || 0) + 1);
	}
	return x + [...map.values()].reduce((a, b) => a + b * b, 0);
}
if (!isMainThread) {
	parentPort.postMessage(work(workerData));
} else {
	console.log(work(1));
	Promise.all([2, 3, 4].map((n) => new Promise((ok) => new Worker(__filename, { workerData: n }).on("message", ok)))).then((all) => {
		console.log(all);
		console.log(JSON.stringify(Array.from({ length: 2000 }, (_, i) => ({ i, s: "x".repeat(i % 9) }))).length);
		console.log(execFileSync("echo", ["child"]).toString().trim());
		try { null.x; } catch (e) { console.log(e.message); }
		const f = (n) => f(n + 1);
		try { f(0); } catch (e) { console.log(e instanceof RangeError); }
		console.log(require("crypto").createHash("sha256").update("x".repeat(100000)).digest("hex"));
		setTimeout(() => process.exit(4), 20);
	});
}
