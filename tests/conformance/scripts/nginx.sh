# SPDX-License-Identifier: BSD-2-Clause
# nginx with two workers serves files to curl, one after the other and many at once, and is told to stop.
mkdir -p logs www temp
cp "$DATA"/words "$DATA"/bytes www/
cat > nginx.conf <<END
worker_processes 2;
daemon off;
pid $PWD/pid;
error_log $PWD/logs/error.log;
events { worker_connections 64; }
http {
	access_log off;
	client_body_temp_path temp; proxy_temp_path temp; fastcgi_temp_path temp; uwsgi_temp_path temp; scgi_temp_path temp;
	gzip on; gzip_types *; gzip_min_length 1;
	server { listen unix:$PWD/socket; root $PWD/www; location /down { return 418; } }
}
END
nginx -p "$PWD" -c nginx.conf -e logs/error.log &
for _ in $(seq 200); do [ -S socket ] && [ -s pid ] && break; sleep 0.05; done
get() { curl -s --unix-socket socket "$@"; }
for i in $(seq 20); do get http://x/words | md5sum; done | sort | uniq -c
get --compressed http://x/bytes | md5sum
get -o /dev/null -w '%{http_code}\n' http://x/none http://x/down
for i in 1 2 3 4; do (for k in 1 2 3 4 5 6 7 8 9 10; do get http://x/bytes | md5sum; done) & pids+=($!); done > many
wait "${pids[@]}"
sort many | uniq -c
kill -QUIT "$(cat pid)"
wait %1
echo "ended with $?"
grep -c -E 'alert|emerg' logs/error.log
rm -rf logs temp nginx.conf many pid socket
