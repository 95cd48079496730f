-- What a workflow waits for at a time may be several things, each with its own count: a group beside a lone child, the
-- members of a selection.
--
-- The columns cost no rewriting and none is indexed. Who waits already has none of them: it waits for one thing, all children
-- of its rounds, and has counted what is left of it in children_pending.

alter table outlast.instances
    -- Of each round in joining, or null: the part that waits for it, counted from 1, and the positions of its children there.
    add column joining_part  integer[],
    add column joining_first integer[],
    add column joining_last  integer[],
    -- How many ends of each part are still to come. The least of them is children_pending.
    add column joining_left  integer[];

-- The children that a workflow waits for, a span of positions in each round of each part.
create function outlast.spans(
    joining integer[], parts integer[], firsts integer[], lasts integer[],
    out part integer, out round integer, out first integer, out last integer
)
returns setof record
language sql immutable parallel safe
as $$
    select coalesce(s.part, 1), s.round, coalesce(s.first, 0), coalesce(s.last, 2147483647)
      from unnest(joining, parts, firsts, lasts) as s (round, part, first, last)
     where s.round is not null
$$;

revoke all on function outlast.spans(integer[], integer[], integer[], integer[]) from public;
