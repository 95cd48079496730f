-- Families: a cancel as a request, joins that are decided early, windows, and what becomes of children.
--
--   instances   what was asked of it, what becomes of it when its parent ends, its place in a window; how it joins
--   operations  because of which parent something was done
--   cascades    children that are still to be told what became of their parent
--
-- The columns cost no rewriting: each is null or a constant in the rows that there are. Only families that live are
-- written to. The indexes do read the
-- table, four times, while nobody writes to it; that is about a second for each million instances. No checks are added to the
-- table, for the reason that 0004 took most of them away.

alter table outlast.instances
    -- A cancel request. Answered once the machine has decided what to do about it.
    add column cancel_requested_at timestamptz,
    add column cancel_reason       text,
    add column cancel_answered     boolean not null default false,

    -- As a child: its place in the list it was asked for in, counted from 0.
    add column parent_position     integer,
    -- What becomes of it when its parent ends first: 'request_cancel' or 'terminate'; null when it goes on.
    add column on_parent_close     text    collate "C",
    -- In a window: whether it still waits for a place there. Such a row is runnable and blocked, so that no claim
    -- meets it, and it stands in no line of a partition key.
    add column held                boolean,

    -- As a parent, of its last fan-out: how many must be done, or null; whether one bad end is enough; how many run
    -- at a time, or null; and what becomes of the rest: 'request_cancel' or 'terminate', or null.
    add column join_needs          integer,
    add column join_fails_fast     boolean not null default false,
    add column join_window         integer,
    add column join_rest           text    collate "C",
    add column children_started    integer not null default 0,
    add column children_failed     integer not null default 0,
    add column first_failure       bigint,
    -- Why it was woken: 'all', 'failure', 'quorum', 'impossible', 'deadline'.
    add column joined              text    collate "C";

drop index outlast.instances_line;
drop index outlast.instances_children;

-- claim/claim.sql (an older one of the key), line/let_through.sql (the next in line of the key). One that waits for a
-- place in a window stands in no line.
create index instances_line on outlast.instances
    (partition_key, blocked, queue, fsm, fsm_version, priority, eligible_at, id)
    where status = 'runnable' and partition_key is not null and held is not true;

-- claim/children.sql, commit/park.sql: the children of a round; cascade/lock.sql: the next children to be told.
create index instances_children on outlast.instances (parent_id, parent_round, id)
    where parent_id is not null;

-- window/admit.sql, window/fill.sql: the next to get a place in a window; repair/find.sql: who has one.
-- Not the parent's id but a sum of it, so that a question for the one index is none for the other.
create index instances_window on outlast.instances ((parent_id + 0), parent_round, held, id)
    where held is not null and finished_at is null;

-- cascade/close.sql: whether an ended parent has anybody to be told of it. The sum is as above.
create index instances_policed on outlast.instances ((parent_id + 0), id)
    where on_parent_close is not null and finished_at is null;

-- Whether a join is decided, and why; null while it is not. The rule of outlast-core's `Until::decided`, for the
-- statements that count.
create function outlast.joined(needs integer, fails_fast boolean, started integer, pending integer, failed integer)
returns text
language sql immutable parallel safe
as $$
    select case when needs is not null then
                    case when started - pending - failed >= needs then 'quorum'
                         when started - failed < needs then 'impossible' end
                when fails_fast and failed > 0 then 'failure'
                when pending = 0 then 'all' end
$$;

revoke all on function outlast.joined(integer, boolean, integer, integer, integer) from public;

-- Who waits for children now waits for all of them, and has counted how many live: what it started and what has ended
-- badly is counted here, by its index. Older fan-outs are over, and nobody decides by their counts any more.
update outlast.instances p
   set children_started = c.started,
       children_failed = c.failed,
       first_failure = c.first_failure
  from (select w.id, k.started, k.failed, k.first_failure
          from outlast.instances w
         cross join lateral (
               select count(*)::integer as started,
                      count(*) filter (where n.status in ('failed', 'cancelled'))::integer as failed,
                      (array_agg(n.id order by n.finished_at, n.id)
                           filter (where n.status in ('failed', 'cancelled')))[1] as first_failure
                 from outlast.instances n
                where n.parent_id = w.id and n.parent_round = w.round) k
         where w.status = 'awaiting_children') c
 where p.id = c.id;

-- Children whose parent lives get their order as their position. Of families that have ended nobody asks any more.
update outlast.instances c
   set parent_position = n.position
  from (select i.id, row_number() over (partition by i.parent_id, i.parent_round order by i.id) - 1 as position
          from outlast.instances i
          join outlast.instances p on p.id = i.parent_id and p.finished_at is null) n
 where c.id = n.id;

alter table outlast.operations
    add column cause_id bigint,
    drop constraint operations_verb_check;

-- What a cancel did until now is called terminate.
update outlast.operations set verb = 'terminate' where verb = 'cancel';

alter table outlast.operations
    add constraint verb_is_known
        check (verb in ('cancel', 'terminate', 'retry', 'pause', 'resume', 'delete')) not valid;

-- inspect/operations/close_actions.sql: what was done because of a parent.
create index operations_cause on outlast.operations (cause_id, id)
    where cause_id is not null;

-- Children of these rounds are to be told, the latest round and the highest id first: those that stand before
-- (at_round, before_id) still are.
create table outlast.cascades (
    id         bigint      generated by default as identity primary key,
    parent_id  bigint      not null,
    from_round integer     not null,
    upto_round integer     not null,
    -- By their own policies, or all of them the same.
    action     text        collate "C" not null check (action in ('policy', 'cancel', 'terminate')),
    -- Whether their own children are told too.
    deep       boolean     not null,
    operator   text        not null,
    reason     text,
    at_round   integer     not null,
    before_id  bigint      not null default 9223372036854775807,
    created_at timestamptz not null
);

-- collect/collect.sql, operate/delete.sql: whether an instance has one.
create index cascades_parent on outlast.cascades (parent_id);
