# SPDX-License-Identifier: BSD-2-Clause
# Processes that execute several programs one right after the other, and run for long afterwards: a host that is busy hears of these
# programs late, and must not take an older one for the one that runs (longer than it keeps what has ended).
for _ in $(seq 40); do
	(exec dash -c "exec dash -c 'exec dash -c \"sleep 12; echo \\\$((6 * 7)) | cat > /dev/null; exec sort /dev/null\"'") &
	/bin/true
done
for _ in $(seq 60); do
	/bin/true
	sleep 0.2
done
wait
echo done
