# SPDX-License-Identifier: BSD-2-Clause
# A database cluster is made, started, asked and stopped, by a user who is not root.
bin=$(ls -d /usr/lib/postgresql/*/bin | tail -1)
chmod 777 .
as() { setpriv --reuid=nobody --regid=nogroup --clear-groups env HOME="$PWD" "$@"; }
as "$bin/initdb" -D "$PWD/db" -A trust -U me --no-sync -E UTF8 --locale=C > initdb.log 2>&1; echo "initdb $?"
as "$bin/pg_ctl" -D "$PWD/db" -w -l "$PWD/db/log" -o "-k $PWD -c listen_addresses= -c fsync=off" start > /dev/null; echo "start $?"
sql() { as psql -h "$PWD" -U me -d postgres -At -c "$1"; }
sql 'create table t(a int primary key, b text)'
sql "insert into t select i, md5(i::text) from generate_series(1, 5000) i"
sql 'select count(*), min(b), max(b) from t'
sql 'set max_parallel_workers_per_gather = 2; set parallel_setup_cost = 0; set parallel_tuple_cost = 0; set min_parallel_table_scan_size = 0; select sum(a), count(distinct left(b, 2)) from t'
sql 'set jit = on; set jit_above_cost = 0; select sum(a * 2 + 1) from t where a % 3 = 0'
sql 'select nonsense' 2>&1
for i in 1 2 3 4; do sql "update t set b = 'x' where a % 4 = $((i - 1))" & done; wait
sql "select count(*) from t where b = 'x'"
sql 'vacuum full t'
as "$bin/pg_ctl" -D "$PWD/db" -w -m fast stop > /dev/null; echo "stop $?"
rm -rf db initdb.log .s.* ./*
