-- SPDX-License-Identifier: BSD-2-Clause
--
-- The views of a profile; docs/profile-format.md explains them one by one. They may change freely:
-- unlike tables, which tables.def declares, nobody compares their text. There is no index besides
-- the primary keys: each would have to be kept up to date while recording.

-- In a finished profile recent is empty, and this is sample. Otherwise a thread and stack may have
-- several rows.
create view sample_all as
select recording, stack, thread, count, kernel from sample
union all select recording, stack, thread, count, kernel from recent;

-- In every view the cross joins fix the order of the loops: from the samples outwards, by primary
-- key.

create view recordings as
select recording.id, recording.kind, recording.unit,
	max(recording.seen, recording.kept + lost.count) as seen,
	recording.kept, lost.count as lost, recording.started, recording.duration, recording.parts
from recording
	cross join (select recording.id, coalesce(sum(loss.count), 0) as count
		from recording left join loss
			on loss.recording = recording.id group by recording.id) as lost
		on lost.id = recording.id
order by recording.id;

create view totals as
select seen, kept, lost from recordings where kind = 'samples';

create view facts as
select recording.kind, fact.key, fact.value from recording cross join fact
	on fact.recording = recording.id
union all
select recording.kind, metric.metric, cast(metric.total as text)
from recording cross join metric on metric.recording = recording.id;

create view samples as
select process.pid, thread.tid, thread.comm,
	coalesce(symbol.name, '[unknown]') as symbol, module.name as module,
	file.path as file, nullif(frame.line, 0) as line,
	printf('0x%x', location.address) as address,
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
	select stack.location, sum(sample.count) from sample_all as sample cross join stack
		on stack.id = sample.stack
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
	select stack.location, sum(sample.count) from sample_all as sample cross join stack
		on stack.id = sample.stack
	group by stack.location)
select file.path as file, nullif(frame.line, 0) as line,
	coalesce(symbol.name, '[unknown]') as symbol, module.name as module, sum(hit.self) as self,
	1.0 * sum(hit.self) / (select seen from totals) as share
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
	select stack.location, sum(sample.count) from sample_all as sample cross join stack
		on stack.id = sample.stack
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
	select thread.process, sum(sample.count) from sample_all as sample cross join thread
		on thread.id = sample.thread
	group by thread.process)
select process.pid, process.ppid, process.comm, process.exe, process.cgroup,
	process.uid, process.gid, process.euid, process.egid, coalesce(hit.self, 0) as self,
	1.0 * coalesce(hit.self, 0) / (select seen from totals) as share
from process
	left join hit on hit.process = process.id
order by 10 desc, process.id;

create view losses as
select recordings.kind, loss.reason, loss.text, loss.count,
	1.0 * loss.count / recordings.seen as share
from recordings cross join loss on loss.recording = recordings.id
where loss.count > 0 order by recordings.id, loss.count desc, loss.reason;

create view timeline as
select tick.second, process.pid, thread.tid, thread.comm, tick.count
from tick
	cross join thread on thread.id = tick.thread
	cross join process on process.id = thread.process
order by tick.second, tick.thread;

-- A call goes from the innermost function at the calling location to the outermost one at the called
-- location; within one location each inlined function is called by the one around it.
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
			cross join frame as inmost on inmost.location = call.caller
				and inmost.depth = 0
			cross join frame as outmost on outmost.location = call.callee
				and outmost.depth = (select max(depth) from frame where location = call.callee)
		union all
		select outmost.symbol, inmost.symbol, place.total
		from place
			cross join frame as inmost on inmost.location = place.location
			cross join frame as outmost on outmost.location = place.location
				and outmost.depth = inmost.depth + 1)
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

create view value_sites as
select coalesce(symbol.name, '[unknown]') as symbol, module.name as module,
	printf('0x%x', location.address) as address,
	value_item.text as item, iif(value.caller is null, null, printf('0x%x', caller.address))
		as caller, value.owner,
	value.total, value.runs, value.minimum, value.maximum, value.mean
from value
	cross join value_item on value_item.id = value.item
	cross join location on location.id = value.location
	cross join module on module.id = location.module
	left join location as caller on caller.id = value.caller
	left join frame on frame.location = location.id and frame.depth = 0
	left join symbol on symbol.id = frame.symbol
order by value.total desc, value.id;

create view executed_functions as
with done (block, count) as (select block, sum(count) from execution group by block)
select coalesce(symbol.name, '[unknown]') as symbol, module.name as module,
	sum(done.count * block_part.instructions) as instructions, sum(iif(block_part.part = 0,
		done.count, 0)) as blocks
from done
	cross join block_part on block_part.block = done.block
	cross join location on location.id = block_part.location
	cross join module on module.id = location.module
	left join frame on frame.location = location.id and frame.depth = 0
	left join symbol on symbol.id = frame.symbol
group by 1, 2
order by instructions desc, 1, 2;

create view executed_threads as
select process.pid, thread.tid, thread.comm, thread_segments.segments, thread_segments.lost,
	(select coalesce(sum(execution.count * block.instructions), 0)
		from execution cross join block on block.id = execution.block
		where execution.thread = thread.id) as instructions,
	(select coalesce(sum(execution.count), 0) from execution where execution.thread = thread.id)
		as blocks
from thread_segments
	cross join thread on thread.id = thread_segments.thread
	cross join process on process.id = thread.process
order by 6 desc, thread.id;

create view covered_files as
with line (file, line, count) as (select file, line, max(count) from source_line group by 1, 2)
select file.path as file, count(*) as lines, sum(line.count > 0) as executed,
	1.0 * sum(line.count > 0) / count(*) as share
from line cross join file on file.id = line.file
group by file.id
order by 1;
