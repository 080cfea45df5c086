# SPDX-License-Identifier: BSD-2-Clause
# A server, named by the argument, answers many clients at once and is told to stop.
port=$((20000 + $$ % 20000))
mkdir -p www
cp "$DATA"/words "$DATA"/bytes www/
case $1 in
nginx)
	printf 'worker_processes 3;\ndaemon off;\npid %s/pid;\nevents { }\nhttp { access_log off; client_body_temp_path t; proxy_temp_path t; fastcgi_temp_path t; uwsgi_temp_path t; scgi_temp_path t; server { listen 127.0.0.1:%s; root %s/www; } }\n' "$PWD" $port "$PWD" > c
	nginx -p "$PWD" -c c -e error & ;;
apache)
	printf 'ServerRoot /usr/lib/apache2\nServerName x\nListen 127.0.0.1:%s\nPidFile %s/pid\nErrorLog %s/error\nDocumentRoot %s/www\nLoadModule mpm_event_module modules/mod_mpm_event.so\nLoadModule authz_core_module modules/mod_authz_core.so\nMutex file:%s\n' $port "$PWD" "$PWD" "$PWD" "$PWD" > c
	chmod 755 . www
	apache2 -DFOREGROUND -f "$PWD/c" & ;;
lighttpd)
	printf 'server.document-root = "%s/www"\nserver.port = %s\nserver.bind = "127.0.0.1"\n' "$PWD" $port > c
	lighttpd -D -f c & ;;
python) python3 -m http.server -b 127.0.0.1 -d www $port > /dev/null 2>&1 & ;;
node) node -e 'require("http").createServer((q, r) => r.end(require("fs").readFileSync("www" + q.url))).listen('$port', "127.0.0.1")' & ;;
go)
	printf 'package main\nimport "net/http"\nfunc main() { http.ListenAndServe("127.0.0.1:%s", http.FileServer(http.Dir("www"))) }\n' $port > m.go
	GOCACHE=/tmp/assay-wide-go GO111MODULE=off go build -o m m.go
	./m & ;;
haproxy)
	python3 -m http.server -b 127.0.0.1 -d www $((port + 1)) > /dev/null 2>&1 &
	printf 'global\n nbthread 3\ndefaults\n mode http\n timeout connect 9s\n timeout client 9s\n timeout server 9s\nfrontend f\n bind 127.0.0.1:%s\n default_backend b\nbackend b\n server s 127.0.0.1:%s\n' $port $((port + 1)) > c
	haproxy -f c & ;;
memcached) memcached -u nobody -l 127.0.0.1 -p $port -t 4 & ;;
redis) redis-server --port $port --save '' --io-threads 4 --io-threads-do-reads yes > log & ;;
openssl)
	openssl req -x509 -newkey rsa:2048 -nodes -keyout k -out c -days 1 -subj /CN=localhost 2> /dev/null
	(cd www && exec openssl s_server -accept 127.0.0.1:$port -key ../k -cert ../c -WWW -quiet) & ;;
rsyncd)
	printf 'use chroot = no\n[www]\npath = %s/www\n' "$PWD" > c
	rsync --daemon --no-detach --config=c --port=$port --address=127.0.0.1 & ;;
*)
	echo "no such server: $1"
	exit 5 ;;
esac
server=$!
for _ in $(seq 200); do
	(exec 3<> /dev/tcp/127.0.0.1/$port) 2> /dev/null && break
	sleep 0.05
done
get() {
	case $1 in
	memcached) printf 'set k%s 0 0 5\r\nhello\r\nget k%s\r\nincr n 1\r\nquit\r\n' "$2" "$2" | timeout 9 bash -c "exec 3<> /dev/tcp/127.0.0.1/$port; cat >&3; cat <&3" | sed 's/k[0-9]*/k/' | md5sum ;;
	redis) printf 'set k%s v\nget k%s\nlrange none 0 5\n' "$2" "$2" | redis-cli -p $port | md5sum ;;
	openssl) printf 'GET /words HTTP/1.0\r\n\r\n' | timeout 9 openssl s_client -quiet -connect 127.0.0.1:$port 2> /dev/null | tail -1 ;;
	rsyncd) rsync -q rsync://127.0.0.1:$port/www/words "got$2" && md5sum < "got$2" ;;
	*) curl -s http://127.0.0.1:$port/bytes | md5sum ;;
	esac
}
clients=()
for i in 1 2 3 4; do
	(for k in 1 2 3 4 5 6; do get "$1" $i$k; done) &
	clients+=($!)
done > many
wait "${clients[@]}"
sort many | uniq -c
[ "$1" = redis ] && redis-benchmark -p $port -n 2000 -c 20 -t set,get,lpush -q 2> /dev/null | tr '\r' '\n' | grep -c 'requests per second'
kill $server
wait $server
echo "ended with $?"
rm -rf www c k m m.go error pid log t many got* dump.rdb
kill $(jobs -p) 2> /dev/null
exit 0
