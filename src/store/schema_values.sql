-- SPDX-License-Identifier: BSD-2-Clause
--
-- What version 2 of the format added to schema.sql: the values that a program computed. A profile of version 1 is read
-- as if these tables were empty, and gets them when it is completed. What schema.sql says about changes holds here too.

create table value_item (
	id integer primary key,
	text text not null,
	class text not null,
	words integer not null
) strict;

create table value (
	id integer primary key,
	location integer not null references location,
	caller integer references location,
	item integer not null references value_item,
	owner integer,
	width integer not null,
	total integer not null,
	runs integer not null,
	minimum integer,
	maximum integer,
	mean real,
	squares real,
	list blob not null
) strict;

create table run_end (
	reason text not null,
	mnemonic text not null,
	text text not null,
	count integer not null,
	primary key (reason, mnemonic)
) strict, without rowid;

create table run_loss (
	reason text primary key not null,
	text text not null,
	count integer not null
) strict, without rowid;

create table value_name (
	value integer primary key,
	location integer references location,
	text text
) strict;

create table parameter (
	symbol integer not null references symbol,
	argument integer not null,
	name text not null,
	type text not null,
	encoding text not null,
	size integer not null,
	primary key (symbol, argument)
) strict, without rowid;

create view value_sites as
select coalesce(symbol.name, '[unknown]') as symbol, module.name as module, printf('0x%x', location.address) as address,
	value_item.text as item, iif(value.caller is null, null, printf('0x%x', caller.address)) as caller, value.owner,
	value.total, value.runs, value.minimum, value.maximum, value.mean
from value
	cross join value_item on value_item.id = value.item
	cross join location on location.id = value.location
	cross join module on module.id = location.module
	left join location as caller on caller.id = value.caller
	left join frame on frame.location = location.id and frame.depth = 0
	left join symbol on symbol.id = frame.symbol
order by value.total desc, value.id;
