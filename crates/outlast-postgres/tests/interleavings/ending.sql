-- The final state and history of a schedule, as one text. Equal texts need one check.
select concat_ws(E'\n',
    (select json_agg(i order by i.id) from outlast.instances i),
    (select json_agg(s order by s.id) from outlast.signals s),
    (select json_agg(k order by k.id) from outlast.cascades k),
    (select json_agg(w order by w.id) from outlast.workers w),
    (select json_agg(v order by v.instance_id, v.run, v.seq) from outlast.events v),
    (select json_agg(json_build_array(h.session, h.instance_id, h.was_status, h.was_revision, h.status, h.revision)
                     order by h.place)
       from outlast.history h))
