# SPDX-License-Identifier: BSD-2-Clause
# redis answers clients, saves in a child process and shuts down.
redis-server --port 0 --unixsocket "$PWD/socket" --save '' --appendonly no --daemonize no --dir "$PWD" --io-threads 2 > log 2>&1 &
for _ in $(seq 200); do [ -S socket ] && break; sleep 0.05; done
cli() { redis-cli -s "$PWD/socket" "$@"; }
cli ping
for i in $(seq 300); do echo "set key$i value$i"; echo "incrby sum $i"; echo "lpush list $i"; done | cli | sort | uniq -c | sort -rn | head -3
cli get sum
cli llen list
cli eval 'local s = 0; for i = 1, 1000 do s = s + i end; return s' 0
cli bgsave
for _ in $(seq 100); do cli info persistence | grep -q 'rdb_bgsave_in_progress:0' && break; sleep 0.05; done
cli info persistence | grep -E 'rdb_last_bgsave_status' | tr -d '\r'
redis-benchmark -s "$PWD/socket" -n 3000 -c 10 -q -t set,get,lrange_100 2>/dev/null | tr '\r' '\n' | grep -c 'requests per second'
cli shutdown nosave
wait %1
echo "ended with $?"
rm -f log dump.rdb socket
