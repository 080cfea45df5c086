-- SPDX-License-Identifier: BSD-2-Clause
--
-- What version 4 of the format added to schema.sql and schema_values.sql: the code that a program executed under the engine. An
-- older profile is read as if these tables were empty, and gets them when it is completed; in version 3 they were others, and a
-- profile that has something in those is refused. What schema.sql says about changes holds here too.

create table block (
	id integer primary key,
	location integer not null references location,
	length integer not null,
	instructions integer not null
) strict;

create table block_part (
	block integer not null references block,
	part integer not null,
	location integer not null references location,
	instructions integer not null,
	primary key (block, part)
) strict, without rowid;

create table execution (
	block integer not null references block,
	thread integer not null references thread,
	count integer not null,
	primary key (block, thread)
) strict, without rowid;

create table thread_runs (
	thread integer primary key references thread,
	runs integer not null,
	lost integer not null
) strict;

create table source_line (
	file integer not null references file,
	line integer not null,
	module integer not null references module,
	count integer not null,
	primary key (file, line, module)
) strict, without rowid;

-- The order in which threads executed it. What a run, a path and a stratum are: docs/profile-format.md.

create table run_table (
	process integer not null references process,
	first integer not null,
	count integer not null,
	data blob not null,
	primary key (process, first)
) strict;

create table run_parent (
	process integer primary key references process,
	parent integer not null references process,
	inherited integer not null
) strict;

create table path_table (
	process integer not null references process,
	first integer not null,
	count integer not null,
	data blob not null,
	primary key (process, first)
) strict;

create table flow (
	thread integer not null references thread,
	row integer not null,
	instructions integer not null,
	runs integer not null,
	paths integer not null,
	repeats integer not null,
	strata integer not null,
	stratum_start integer not null,
	base integer not null,
	data blob not null,
	primary key (thread, row)
) strict;

create table cycle_table (
	process integer not null references process,
	level integer not null,
	first integer not null,
	count integer not null,
	data blob not null,
	primary key (process, level, first)
) strict;

create table layer (
	thread integer not null references thread,
	level integer not null,
	symbols integer not null,
	cycles integer not null,
	repeats integer not null,
	cut integer not null,
	broken integer not null,
	primary key (thread, level)
) strict, without rowid;

create table rare_cycle (
	process integer not null references process,
	level integer not null,
	cycles integer not null,
	trips integer not null,
	weight integer not null,
	primary key (process, level)
) strict, without rowid;

create view executed_functions as
with done (block, count) as (select block, sum(count) from execution group by block)
select coalesce(symbol.name, '[unknown]') as symbol, module.name as module,
	sum(done.count * block_part.instructions) as instructions, sum(iif(block_part.part = 0, done.count, 0)) as blocks
from done
	cross join block_part on block_part.block = done.block
	cross join location on location.id = block_part.location
	cross join module on module.id = location.module
	left join frame on frame.location = location.id and frame.depth = 0
	left join symbol on symbol.id = frame.symbol
group by 1, 2
order by instructions desc, 1, 2;

create view executed_threads as
select process.pid, thread.tid, thread.comm, thread_runs.runs, thread_runs.lost,
	(select coalesce(sum(execution.count * block.instructions), 0)
		from execution cross join block on block.id = execution.block
		where execution.thread = thread.id) as instructions,
	(select coalesce(sum(execution.count), 0) from execution where execution.thread = thread.id) as blocks
from thread_runs
	cross join thread on thread.id = thread_runs.thread
	cross join process on process.id = thread.process
order by 6 desc, thread.id;

create view covered_files as
with line (file, line, count) as (select file, line, max(count) from source_line group by 1, 2)
select file.path as file, count(*) as lines, sum(line.count > 0) as executed, 1.0 * sum(line.count > 0) / count(*) as share
from line cross join file on file.id = line.file
group by file.id
order by 1;
