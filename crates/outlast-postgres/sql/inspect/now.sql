-- Returns the store's current time.
select outlast.now() as now
