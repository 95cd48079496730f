-- The trace an instance belongs to, and the visit of a step. Neither is indexed: a run-ahead commit
-- writes no index.

-- A W3C traceparent, kept verbatim and handed to every claim.
alter table instances add column trace text;

-- The revision of the commit that brought the instance to its step; 0 where it was inserted. What runs
-- the step again leaves it alone, so that with the id it names one visit of the step.
alter table instances add column entered_revision integer not null default 0;
