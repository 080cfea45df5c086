# SPDX-License-Identifier: BSD-2-Clause
# curl against Python's HTTP server on the loopback.
mkdir www; cp "$DATA"/words "$DATA"/bytes www/
/usr/bin/python3 -u -c '
import functools, http.server, sys
handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory="www")
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
open("port.new", "w").write(str(server.server_port))
import os; os.rename("port.new", "port")
server.serve_forever()' 2> /dev/null &
for _ in $(seq 200); do [ -s port ] && break; sleep 0.05; done
url=http://127.0.0.1:$(cat port)
curl -s "$url/words" | md5sum
curl -s --no-progress-meter -Z --parallel-max 4 "$url/bytes" -o a "$url/words" -o b "$url/bytes" -o c; md5sum a b c
curl -s -o /dev/null -w '%{http_code} %{size_download}\n' "$url/none"
curl -s -I "$url/words" | grep -i length | tr -d '\r'
curl -s http://127.0.0.1:1/; echo $?
curl -s file://"$DATA"/words | md5sum
exec 2> /dev/null
kill %1; wait
rm -rf www port
