# SPDX-License-Identifier: BSD-2-Clause
# unittest.sh MODULE...: tests of Python's own, the verdict on each in alphabetic order.
/usr/bin/python3 -m unittest -v "$@" > log 2>&1
status=$?
grep -E ' \.\.\. ' log | sed -E 's/0x[0-9a-f]+/ADDRESS/g' | sort
grep -E '^(FAIL|ERROR):' log | sort
# What is said about failures, for a person who looks into it.
[ $status -eq 0 ] || { sed -n '/^=====/,$p' log | head -200 >&2; }
rm -rf log ./*
exit $status
