-- Consumes exactly the signals that steps received and progressed on.
--
-- $1 ids  $2 revisions  $3 received signal ids as array literals
-- $4 whether the outcome yields to a cancel
-- guard   the fence, and that no unanswered cancel exists to which the outcome yields
-- locks   the signals
-- index   instances_pkey, signals_pkey
-- bound   the batch
--
-- A signal with a dedup key stays as an empty tombstone, so that it cannot be sent again
-- (docs/protocol.md, defect 9).
with
received as materialized (
    select s.id, s.dedup_key
      from unnest($1::bigint[], $2::bigint[], $3::text[], $4::boolean[]) as c (id, revision, received, yields)
      join outlast.instances i on i.id = any (array[c.id])
                                 and i.revision = c.revision and i.status = 'executing'
                                 and (not c.yields or i.cancel_requested_at is null or i.cancel_answered)
     cross join lateral unnest(c.received::bigint[]) as r (signal_id)
     cross join lateral (
           select s.id, s.target_id, s.dedup_key, s.consumed_at
             from outlast.signals s
            where s.id = r.signal_id
           offset 0) s
     where s.target_id = c.id and s.consumed_at is null
),
buried as (
    update outlast.signals s
       set payload = null, consumed_at = outlast.now()
      from received r
     where s.id = any (array[r.id]) and r.dedup_key is not null
)
delete from outlast.signals s
 using received r
 where s.id = any (array[r.id]) and r.dedup_key is null
