// SPDX-License-Identifier: BSD-2-Clause
// Busy in a function that the engine compiles.
function burnTime(rounds) {
	let total = 0;
	for (let i = 0; i < rounds; i++)
		total = (total * 31 + i) % 65521;
	return total;
}

function callBurnTime(end) {
	let total = 0;
	while (process.cpuUsage().user < end)
		total += burnTime(20000);
	return total;
}

callBurnTime(1.2e6);
