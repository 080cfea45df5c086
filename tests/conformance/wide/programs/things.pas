{ SPDX-License-Identifier: BSD-2-Clause }
program things;
{$mode objfpc}
uses cthreads, sysutils, classes;
type
  tworker = class(tthread)
    sum: int64;
    procedure execute; override;
  end;
procedure tworker.execute;
var i: longint;
begin
  for i := 1 to 100000 do sum := (sum * 31 + i) mod 1000003;
end;
var
  workers: array[1..4] of tworker;
  i, zero: longint;
  p: ^longint;
  list: tstringlist;
begin
  for i := 1 to 4 do workers[i] := tworker.create(false);
  for i := 1 to 4 do begin workers[i].waitfor; write(workers[i].sum, ' '); workers[i].free; end;
  list := tstringlist.create;
  for i := 1 to 500 do list.add(inttostr(i * 7919 mod 1009));
  list.sort;
  writeln(list[0], ' ', list[499]);
  list.free;
  zero := 0;
  try writeln(1 div zero); except on e: exception do writeln(e.classname); end;
  p := nil;
  try writeln(p^); except on e: exception do writeln(e.classname); end;
  halt(6);
end.
