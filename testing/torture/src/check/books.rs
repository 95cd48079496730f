//! The ledger, indexed for the checks.

use crate::ledger::{Did, Entry, Inserted, Ran, Told, WorkerEvent};
use std::collections::{BTreeMap, HashMap, HashSet};

/// The entries of the ledger, by instance and by worker.
#[derive(Default)]
pub(crate) struct Books {
    /// Effects by instance.
    pub(super) effects: HashMap<i64, Vec<Ran>>,
    pub(super) effects_total: u64,
    /// Effects of workflow steps, by instance.
    pub(super) did: HashMap<i64, Vec<Did>>,
    /// Acknowledged inserts by instance.
    pub(super) inserted: HashMap<i64, Inserted>,
    /// Every insert that was ever requested.
    pub(super) asked: HashSet<u64>,
    /// How often a signal was acknowledged as new, by its target and its dedup key.
    pub(super) delivered: HashMap<(i64, String), u64>,
    /// How often an update was sent, by its target and its id.
    pub(super) sent: HashMap<(i64, String), u64>,
    /// What the senders of updates were told.
    pub(super) told: Vec<Told>,
    /// Trees whose end was acknowledged, and when.
    pub(super) trees_ended: HashMap<i64, i64>,
    /// The events of each worker, with their times.
    pub(super) workers: HashMap<String, Vec<(WorkerEvent, i64)>>,
    /// Dropped outcomes, by worker.
    pub(super) lost_outcomes: HashMap<String, u64>,
    pub(super) mended: HashMap<String, u64>,
    /// Other faults, by kind.
    pub(crate) faults: BTreeMap<String, u64>,
}

impl Books {
    pub(crate) fn of(entries: Vec<Entry>) -> Books {
        let mut books = Books::default();
        for entry in entries {
            books.enter(entry);
        }
        books
    }

    fn enter(&mut self, entry: Entry) {
        match entry {
            Entry::Ran(ran) => {
                self.effects_total += 1;
                self.effects.entry(ran.id).or_default().push(ran);
            }
            Entry::Did(did) => self.did.entry(did.id).or_default().push(did),
            Entry::Asked { token, .. } => {
                self.asked.insert(token);
            }
            Entry::Inserted(inserted) => {
                self.inserted.insert(inserted.id, inserted);
            }
            Entry::Delivered {
                instance, dedup, ..
            } => *self.delivered.entry((instance, dedup)).or_default() += 1,
            Entry::Sent {
                instance, update, ..
            } => *self.sent.entry((instance, update)).or_default() += 1,
            Entry::Told(told) => self.told.push(told),
            Entry::Worker { name, event, at } => {
                self.workers.entry(name).or_default().push((event, at));
            }
            Entry::LostOutcomes { worker, count } => {
                self.lost_outcomes.insert(worker, count);
            }
            Entry::Mended { worker, count } => {
                self.mended.insert(worker, count);
            }
            Entry::Fault { kind, .. } => *self.faults.entry(kind).or_default() += 1,
            Entry::Operated { verb, instance, at } if verb.ends_with("_tree") => {
                self.trees_ended.entry(instance).or_insert(at);
            }
            // The audit has these.
            Entry::Duplicate { .. } | Entry::Operated { .. } => {}
        }
    }

    pub(super) fn effects_of(&self, id: i64) -> &[Ran] {
        self.effects.get(&id).map_or(&[], Vec::as_slice)
    }

    pub(super) fn did_of(&self, id: i64) -> &[Did] {
        self.did.get(&id).map_or(&[], Vec::as_slice)
    }

    /// Returns when the worker last died or was frozen before `before`, if it did.
    pub(super) fn struck(&self, worker: &str, before: i64) -> Option<i64> {
        let events = self.workers.get(worker)?;
        let strikes = events.iter().filter(|(event, at)| {
            let strike = match event {
                WorkerEvent::Killed | WorkerEvent::Froze | WorkerEvent::Died => true,
                WorkerEvent::Started | WorkerEvent::Thawed | WorkerEvent::Stopped => false,
            };
            strike && *at <= before
        });
        strikes.map(|(_, at)| *at).max()
    }

    /// Counts the events of one kind, over all workers.
    pub(super) fn count(&self, wanted: WorkerEvent) -> u64 {
        let events = self.workers.values().flatten();
        events.filter(|(event, _)| *event == wanted).count() as u64
    }

    /// Returns the periods in which workers were frozen.
    pub(super) fn freezes(&self) -> impl Iterator<Item = (&str, i64, i64)> {
        self.workers.iter().flat_map(|(name, events)| {
            events.windows(2).filter_map(move |pair| match pair {
                [(WorkerEvent::Froze, froze), (WorkerEvent::Thawed, thawed)] => {
                    Some((name.as_str(), *froze, *thawed))
                }
                _ => None,
            })
        })
    }
}
