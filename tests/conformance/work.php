<?php
// A loop that the tracing JIT compiles, into memory that it looks for near PHP's own code.
function f($n) {
	$s = 0;
	for ($i = 0; $i < $n; $i++)
		$s = ($s * 31 + $i) % 1000003;
	return $s;
}
$t = 0;
for ($k = 0; $k < 300; $k++)
	$t += f(2000);
echo $t, "\n";
var_dump(opcache_get_status()["jit"]["on"]);
