-- The store's present moment.
select outlast.now() as now
