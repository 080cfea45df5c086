// SPDX-License-Identifier: BSD-2-Clause
// Garbage, threads, exceptions, ranges.
import core.thread, std.algorithm, std.array, std.range, std.stdio, std.conv;

class Node { Node next; int value; }

void main()
{
    Node head;
    foreach (i; 0 .. 200_000) { auto n = new Node; n.value = i; n.next = i % 1000 ? head : null; head = n; }
    long[4] sums;
    Thread[] threads;
    foreach (t; 0 .. 4) threads ~= (int t) { return new Thread({ foreach (i; 0 .. 50_000) sums[t] += i % (t + 2); }); }(t);
    foreach (t; threads) t.start();
    foreach (t; threads) t.join();
    writeln(head.value, " ", sums, " ", iota(1, 50).filter!(x => x % 3 == 0).map!(x => x * x).sum);
    try { throw new Exception("thrown"); } catch (Exception e) writeln(e.msg);
    int[] empty;
    writeln(empty[to!int("3")]);
}
