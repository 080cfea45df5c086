#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Programs under the engine answer as they do by themselves: the same output, the same exit status.

Each command runs twice, natively and under "assay trace --tool none", in the same folder with the same input.
"""

import os
import shutil
import signal
import subprocess
import unittest

import lib

TRACE = [lib.ASSAY, "trace", "-q", "--tool", "none", "--"]
SECONDS = 60

COMMANDS = r"""
true
false
echo one two
printf '%05d %x %s\n' 42 255 text
ls -ld / /usr /etc
ls -la /usr/bin | head -50
cat /etc/passwd /etc/group
tac /etc/passwd
head -c 100000 /usr/bin/perl | md5sum
sha1sum /usr/bin/perl /bin/bash
sha256sum /usr/bin/perl
sha512sum /bin/bash
b2sum /bin/bash
cksum /bin/bash
od -x /bin/true | tail -20
base64 /bin/true | tail -5
sort -r /etc/services
sort -n -k2 /etc/services | uniq -c | tail
wc /etc/services /etc/passwd
cut -d: -f1,7 /etc/passwd
tr a-z A-Z < /etc/passwd
seq 1 3 100000 | tail -3
seq 100000 | shuf --random-source=/bin/bash | head -5
factor 600851475143 1000000007
expr 17 \* 23
date -u -d @1700000000
stat -c '%n %s %a' /bin/bash
find /etc -maxdepth 1 -name '*.conf' | sort
du -s /usr/include 2>/dev/null | cut -f2
env -i A=1 env
nproc
uname -sm
id -u
split -b 1000 /etc/services /dev/stdout 2>/dev/null | head -c 100
paste /etc/passwd /etc/passwd | head -3
join -t: /etc/passwd /etc/passwd | head -3
comm -12 /etc/passwd /etc/passwd | head -3
fold -w 20 /etc/services | head
nl /etc/passwd | tail -3
numfmt --to=iec 123456789
dd if=/bin/bash bs=1000 count=100 2>/dev/null | md5sum
timeout 5 sleep 0.1; echo $?
sh -c 'exit 7'
sh -c 'kill -TERM $$'
bash -c 'kill -SEGV $$'
bash -c 'for i in $(seq 200); do x=$((x * 3 + i)); done; echo $x'
bash -c 'f() { local n=$1; ((n < 2)) && echo $n && return; echo $(( $(f $((n-1))) + $(f $((n-2))) )); }; f 9'
bash -c 'trap "echo caught" USR1; kill -USR1 $$; echo after'
bash -c 'trap "echo bye" EXIT; exit 5'
bash -c 'sleep 0.05 & wait $!; echo done'
bash -c 'seq 1000 | while read a; do ((s += a)); echo $s; done | tail -1'
bash -c 'coproc cat; echo hi >&${COPROC[1]}; read -u ${COPROC[0]} x; echo $x'
dash -c 'echo $((1 + 2)); ls -d /tmp; id -u'
awk 'BEGIN { for (i = 0; i < 100000; i++) s += sin(i); printf "%.6f\n", s }'
awk -F: '{ n[$7]++ } END { for (i in n) print i, n[i] | "sort" }' /etc/passwd
sed -n 's/\(.*\):x:.*/\1/p' /etc/passwd
grep -c tcp /etc/services
grep -E '^[a-f].*/(tcp|udp)' /etc/services | tail -5
perl -e 'my %h; $h{$_ % 97} += $_ for 1 .. 200000; print join(",", map { $h{$_} } sort { $a <=> $b } keys %h), "\n"'
perl -e '$SIG{ALRM} = sub { die "alarm\n" }; alarm 1; eval { 1 while 1 }; print $@'
perl -e 'my $p = fork; if (!$p) { exit 3 } waitpid $p, 0; print $? >> 8, "\n"'
python3 -c 'print(sum(i * i for i in range(200000)))'
python3 -c 'import json, re, hashlib, zlib; print(hashlib.md5(zlib.compress(json.dumps(list(range(9999))).encode())).hexdigest())'
python3 -c 'import threading; r = []; t = [threading.Thread(target=lambda i=i: r.append(sum(range(i * 1000)))) for i in range(8)]; [x.start() for x in t]; [x.join() for x in t]; print(sorted(r))'
python3 -c 'import subprocess; print(subprocess.run(["echo", "x"], capture_output=True).stdout)'
python3 -c 'import os; p = os.fork(); os._exit(4) if not p else print(os.waitpid(p, 0)[1])'
python3 -c 'import signal, time; signal.signal(signal.SIGALRM, lambda *a: print("alarm")); signal.setitimer(signal.ITIMER_REAL, 0.05); time.sleep(0.3); print("after")'
python3 -c 'import multiprocessing as m; print(m.Pool(2).map(abs, [-1, -2, 3]))'
python3 -c 'import ctypes; print(ctypes.CDLL(None).abs(-5))'
python3 -c 'import decimal; decimal.getcontext().prec = 200; print(decimal.Decimal(2).sqrt())'
python3 -c 'def f(n): return n < 2 or f(n - 1) + f(n - 2)' -c ''
python3 -c '1/0'
gzip -9 -c /bin/bash | md5sum
gzip -1 -c /usr/bin/perl | gzip -d | md5sum
bzip2 -c /bin/bash | bunzip2 | md5sum
xz -1 -c /bin/bash | md5sum
xz -T2 -1 -c /usr/bin/perl | xz -d | md5sum
tar cf - -C /etc passwd group --mtime=@0 | md5sum
diff /etc/passwd /etc/group | head -5
cmp /bin/bash /bin/ls
bc -l <<< 'scale=50; 4*a(1)' 2>/dev/null || echo none
sqlite3 :memory: 'create table t(a,b); insert into t select value, value*7919%1007 from generate_series(1,20000); select b,count(*) from t group by b order by 2 desc,1 limit 3'
sqlite3 :memory: "with recursive n(i) as (select 1 union all select i+1 from n where i<50000) select sum(i), avg(i*i) from n"
echo 'int main(void) { return 42; }' | gcc -x c - -o "$SCRATCH/answer" && "$SCRATCH/answer"
gcc -O2 -S -x c /dev/null -o - | head -3
git --version
readelf -h /bin/true
objdump -d /bin/true | md5sum
nm -D /bin/ls | head -5
strings /bin/true | head
ldd /bin/true | wc -l
openssl dgst -sha256 /bin/bash 2>/dev/null || echo none
"""


def run(command, prefix=()):
    """(exit status, output, errors); a command that hangs is ended with everything it started."""
    child = subprocess.Popen([*prefix, "bash", "-c", command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, start_new_session=True, cwd="/",
                             env={**os.environ, "LC_ALL": "C", "SCRATCH": lib.scratch("engine"),
                                  "PYTHONHASHSEED": "0"})
    try:
        out, err = child.communicate(timeout=SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)
        out, err = child.communicate()
        return "hung", out, err
    return child.returncode, out, err


class Commands(unittest.TestCase):
    def test_commands(self):
        os.makedirs(lib.scratch("engine"), exist_ok=True)
        for command in COMMANDS.strip().splitlines():
            word = command.split()[0]
            with self.subTest(command=command):
                if not shutil.which(word):
                    self.skipTest(f"{word} is not installed")
                self.assertEqual(run(command, TRACE), status_of_bash(run(command)))


def status_of_bash(result):
    """A signal ends the traced command, and "assay trace" says so as a shell does."""
    code, out, err = result
    return (128 - code if isinstance(code, int) and code < 0 else code), out, err


if __name__ == "__main__":
    lib.main()
