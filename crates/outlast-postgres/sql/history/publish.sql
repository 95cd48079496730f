-- Writes views with their outcomes. A value that is stored already stays as it is, with its
-- revision.
--
-- $1 ids  $2 revisions  $3 whether the outcome yields to a cancel
-- and the views, as array literals: $4 names  $5 data
-- guard   the fence, and that no unanswered cancel exists to which the outcome yields
-- locks   own rows, held since commit/lock.sql; the views
-- index   instances_pkey, views_pkey
-- bound   VIEWS_MAX for each row of the batch
--
-- Sent before the outcomes are written, while the fence still matches.
insert into outlast.views as v (instance_id, name, revision, at, data)
select i.id, p.name, o.revision + 1, outlast.now(), p.data::json
  from unnest($1::bigint[], $2::bigint[], $3::boolean[], $4::text[], $5::text[])
    as o (id, revision, yields, names, data)
  join outlast.instances i on i.id = any (array[o.id])
                             and i.revision = o.revision and i.status = 'executing'
                             and (not o.yields or i.cancel_requested_at is null or i.cancel_answered)
 cross join lateral unnest(o.names::text[], o.data::text[]) as p (name, data)
    on conflict (instance_id, name) do update
   set revision = excluded.revision, at = excluded.at, data = excluded.data
 where v.data::text <> excluded.data::text
