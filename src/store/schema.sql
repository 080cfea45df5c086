-- SPDX-License-Identifier: BSD-2-Clause
--
-- The tables and views of a profile, as they are since version 1; schema_values.sql has what came later.
-- docs/profile-format.md explains them one by one.
--
-- A reader compares the text of each "create table" with the text here before it trusts the file, so any change to
-- one, even of a space, is a new STORE_SCHEMA_VERSION. Views may change freely. There is no index besides the
-- primary keys: each would have to be kept up to date while recording.

create table meta (
	key text primary key not null,
	value text not null
) strict, without rowid;

create table process (
	id integer primary key,
	parent integer references process,
	pid integer not null,
	ppid integer not null,
	uid integer,
	gid integer,
	euid integer,
	egid integer,
	comm text not null,
	exe text,
	cgroup text,
	started integer not null,
	ended integer not null
) strict;

create table thread (
	id integer primary key,
	process integer not null references process,
	tid integer not null,
	comm text not null,
	started integer not null,
	ended integer not null
) strict;

create table module (
	id integer primary key,
	kind text not null,
	name text not null,
	path text not null,
	build_id text,
	process integer references process,
	deleted integer not null
) strict;

create table mapping (
	process integer not null references process,
	module integer not null references module,
	start integer not null,
	stop integer not null,
	offset integer not null,
	mapped integer not null,
	unmapped integer not null
) strict;

create table location (
	id integer primary key,
	module integer not null references module,
	address integer not null
) strict;

create table stack (
	id integer primary key,
	parent integer not null,
	location integer not null references location
) strict;

create table sample (
	thread integer not null references thread,
	stack integer not null references stack,
	count integer not null,
	kernel integer not null,
	primary key (stack, thread)
) strict, without rowid;

create table recent (
	thread integer not null references thread,
	stack integer not null references stack,
	count integer not null,
	kernel integer not null
) strict;

create table stack_total (
	stack integer primary key references stack,
	total integer not null
) strict;

create table tick (
	second integer not null,
	thread integer not null references thread,
	count integer not null,
	primary key (second, thread)
) strict, without rowid;

create table loss (
	reason text primary key not null,
	text text not null,
	count integer not null
) strict, without rowid;

create table stack_end (
	reason text primary key not null,
	text text not null,
	count integer not null
) strict, without rowid;

create table symbol (
	id integer primary key,
	module integer not null references module,
	name text not null,
	linkage text,
	address integer not null,
	size integer not null,
	inlined integer not null,
	code blob
) strict;

create table file (
	id integer primary key,
	path text not null
) strict;

create table frame (
	location integer not null references location,
	depth integer not null,
	symbol integer not null references symbol,
	file integer references file,
	line integer not null,
	primary key (location, depth)
) strict, without rowid;

-- In a finished profile recent is empty, and this is sample. Otherwise a thread and stack may have several rows.
create view sample_all as
select thread, stack, count, kernel from sample union all select thread, stack, count, kernel from recent;

-- In every view the cross joins fix the order of the loops: from the samples outwards, by primary key.

create view totals as
select max(coalesce((select cast(value as integer) from meta where key = 'seen'), 0), kept + lost) as seen, kept, lost
from (select
	(select coalesce(sum(count), 0) from sample) + (select coalesce(sum(count), 0) from recent) as kept,
	(select coalesce(sum(count), 0) from loss) as lost);

create view samples as
select process.pid, thread.tid, thread.comm,
	coalesce(symbol.name, '[unknown]') as symbol, module.name as module,
	file.path as file, nullif(frame.line, 0) as line, printf('0x%x', location.address) as address,
	sample.count, sample.kernel, sample.stack
from sample_all as sample
	cross join stack on stack.id = sample.stack
	cross join location on location.id = stack.location
	cross join module on module.id = location.module
	cross join thread on thread.id = sample.thread
	cross join process on process.id = thread.process
	left join frame on frame.location = location.id and frame.depth = 0
	left join symbol on symbol.id = frame.symbol
	left join file on file.id = frame.file;

create view functions as
with hit (location, self) as (
	select stack.location, sum(sample.count) from sample_all as sample cross join stack on stack.id = sample.stack
	group by stack.location)
select coalesce(symbol.name, '[unknown]') as symbol, module.name as module, sum(hit.self) as self,
	1.0 * sum(hit.self) / (select seen from totals) as share
from hit
	cross join location on location.id = hit.location
	cross join module on module.id = location.module
	left join frame on frame.location = location.id and frame.depth = 0
	left join symbol on symbol.id = frame.symbol
group by 1, 2
order by self desc, 1, 2;

create view lines as
with hit (location, self) as (
	select stack.location, sum(sample.count) from sample_all as sample cross join stack on stack.id = sample.stack
	group by stack.location)
select file.path as file, nullif(frame.line, 0) as line, coalesce(symbol.name, '[unknown]') as symbol,
	module.name as module, sum(hit.self) as self, 1.0 * sum(hit.self) / (select seen from totals) as share
from hit
	cross join location on location.id = hit.location
	cross join module on module.id = location.module
	left join frame on frame.location = location.id and frame.depth = 0
	left join symbol on symbol.id = frame.symbol
	left join file on file.id = frame.file
group by 1, 2, 3, 4
order by self desc, 1, 2, 3, 4;

create view modules as
with hit (location, self) as (
	select stack.location, sum(sample.count) from sample_all as sample cross join stack on stack.id = sample.stack
	group by stack.location)
select module.name as module, module.path, module.kind, module.build_id, sum(hit.self) as self,
	1.0 * sum(hit.self) / (select seen from totals) as share
from hit
	cross join location on location.id = hit.location
	cross join module on module.id = location.module
group by module.id
order by self desc, module.id;

create view threads as
with hit (thread, self) as (select thread, sum(count) from sample_all group by thread)
select process.pid, thread.tid, thread.comm, coalesce(hit.self, 0) as self,
	1.0 * coalesce(hit.self, 0) / (select seen from totals) as share
from thread
	cross join process on process.id = thread.process
	left join hit on hit.thread = thread.id
order by 4 desc, thread.id;

create view processes as
with hit (process, self) as (
	select thread.process, sum(sample.count) from sample_all as sample cross join thread on thread.id = sample.thread
	group by thread.process)
select process.pid, process.ppid, process.comm, process.exe, process.cgroup,
	process.uid, process.gid, process.euid, process.egid, coalesce(hit.self, 0) as self,
	1.0 * coalesce(hit.self, 0) / (select seen from totals) as share
from process
	left join hit on hit.process = process.id
order by 10 desc, process.id;

create view losses as
select reason, text, count, 1.0 * count / (select seen from totals) as share
from loss where count > 0 order by count desc, reason;

create view timeline as
select tick.second, process.pid, thread.tid, thread.comm, tick.count
from tick
	cross join thread on thread.id = tick.thread
	cross join process on process.id = thread.process
order by tick.second, tick.thread;

-- A call goes from the innermost function at the calling location to the outermost one at the called location; within
-- one location each inlined function is called by the one around it.
create view edges as
with
	call (caller, callee, total) as (
		select above.location, stack.location, sum(stack_total.total)
		from stack_total
			cross join stack on stack.id = stack_total.stack
			cross join stack as above on above.id = stack.parent
		group by 1, 2),
	place (location, total) as (
		select stack.location, sum(stack_total.total)
		from stack_total cross join stack on stack.id = stack_total.stack
		group by 1),
	edge (caller, callee, total) as (
		select inmost.symbol, outmost.symbol, call.total
		from call
			cross join frame as inmost on inmost.location = call.caller and inmost.depth = 0
			cross join frame as outmost on outmost.location = call.callee
				and outmost.depth = (select max(depth) from frame where location = call.callee)
		union all
		select outmost.symbol, inmost.symbol, place.total
		from place
			cross join frame as inmost on inmost.location = place.location
			cross join frame as outmost on outmost.location = place.location and outmost.depth = inmost.depth + 1)
select caller.name as caller, caller_module.name as caller_module,
	callee.name as callee, callee_module.name as callee_module,
	sum(edge.total) as count, 1.0 * sum(edge.total) / (select seen from totals) as share
from edge
	cross join symbol as caller on caller.id = edge.caller
	cross join module as caller_module on caller_module.id = caller.module
	cross join symbol as callee on callee.id = edge.callee
	cross join module as callee_module on callee_module.id = callee.module
group by 1, 2, 3, 4
order by 5 desc, 1, 2, 3, 4;
