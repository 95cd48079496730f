//! Checks that need the complete audit.

use super::workflows::is_flow;
use super::{Checker, Figures, Life, Violation};
use crate::ledger::{Ran, WorkerEvent};
use outlast::Status;
use std::collections::{BTreeMap, HashMap, HashSet};

/// Records of the database besides the audit.
#[derive(Default)]
pub(crate) struct Records {
    /// The number of retries by operators, by instance.
    pub(crate) retries: HashMap<i64, u64>,
}

impl Checker {
    /// Runs the final checks, and returns the figures and all violations.
    pub(crate) fn finish(mut self, records: &Records) -> (Figures, Vec<Violation>) {
        self.check_inserts();
        let mut lives = std::mem::take(&mut self.lives);
        for life in lives.values_mut() {
            self.report_wrong_outcome(life);
            self.check_end(life);
            self.check_retries(life, records);
            self.check_effects(life);
            self.check_timeouts(life);
            if is_flow(&life.last) {
                self.check_flow(life);
            }
        }
        self.check_rounds();
        self.check_survivors(&lives);
        self.check_timed_out(&lives);
        self.check_strays(&lives);
        self.check_signals(&lives);
        self.check_updates(&lives);
        self.check_wakes();
        self.check_order(&lives);
        self.check_mended();
        self.count();
        (self.figures, self.violations)
    }

    /// I1.
    fn check_inserts(&mut self) {
        let mut tokens: HashMap<u64, i64> = HashMap::new();
        let mut wrong = Vec::new();
        for (id, life) in &self.lives {
            let root = life.last.parent.is_none();
            let (Some(token), true) = (life.token, root) else {
                continue;
            };
            if let Some(other) = tokens.insert(token, *id) {
                wrong.push((*id, format!("is the same insert as {other}")));
            }
            if !self.books.asked.contains(&token) {
                wrong.push((*id, "was never asked for".to_owned()));
            }
        }
        for (id, inserted) in &self.books.inserted {
            let life = self.lives.get(id);
            let is_there = life.is_some_and(|life| life.token == Some(inserted.token));
            if self.may_lose {
                self.figures.lost_inserts += u64::from(!is_there);
                continue;
            }
            match life {
                None => wrong.push((*id, "was acknowledged and is not there".to_owned())),
                Some(_) if !is_there => {
                    wrong.push((
                        *id,
                        "is not the instance that was acknowledged with its id".to_owned(),
                    ));
                }
                Some(_) => {}
            }
        }
        for (id, what) in wrong {
            self.violate("I1", id, what);
        }
    }

    /// I2, and the expected result.
    fn check_end(&mut self, life: &Life) {
        let (id, status) = (life.last.id, life.last.status);
        if !status.is_terminal() {
            let step = &life.last.step;
            self.violate(
                "I2",
                id,
                format!("has not come to rest: {status} at {step:?}"),
            );
            return;
        }
        let inserted = self.books.inserted.get(&id);
        let inserted = inserted.filter(|inserted| life.token == Some(inserted.token));
        let fails_with = inserted.map_or(Vec::new(), |inserted| inserted.fails_with.clone());
        let expected = inserted.and_then(|inserted| inserted.result.clone());
        if let Some(expected) = expected
            && life.last.result.as_ref() != Some(&expected)
        {
            let found = life.last.result.as_deref().unwrap_or("nothing");
            let what = format!("ended as {status} with {found} instead of {expected}");
            self.violate("I5", id, what);
        }
        let error = life.last.error.as_deref().unwrap_or_default();
        // Some leaves fail, and some members of families.
        let may_fail = match life.last.machine.as_str() {
            "tree" => error == "a bad leaf",
            "errand" => error == "a bad errand",
            // Another check decides whether it should have been ended.
            "family" => ["a bad child", "a bad parent", "nobody told it to end"].contains(&error),
            _ => false,
        };
        let failed = status == Status::Failed;
        let says_why = failed && fails_with.iter().any(|reason| error.contains(reason));
        // Another check decides whether it was time.
        let may_fail = may_fail || life.last.has_timed_out();
        if fails_with.is_empty() && failed && !may_fail {
            self.violate("I5", id, format!("failed: {error}"));
        }
        if !fails_with.is_empty() && !says_why {
            let what = format!("ended as {status} with {error:?}, not with one of {fails_with:?}");
            self.violate("I5", id, what);
        }
        if life.last.machine == "pack" {
            self.check_pack(life);
        }
    }

    /// I7: no signal was collected twice.
    fn check_pack(&mut self, life: &Life) {
        let numbers = life
            .last
            .result
            .as_deref()
            .map(serde_json::from_str::<Vec<u64>>);
        if let Some(Ok(numbers)) = numbers {
            let different: HashSet<_> = numbers.iter().collect();
            if different.len() < numbers.len() {
                self.violate("I7", life.last.id, format!("gathered twice: {numbers:?}"));
            }
        }
    }

    /// I4.
    fn check_retries(&mut self, life: &Life, records: &Records) {
        self.figures.operators_retries += life.retries;
        let recorded = records.retries.get(&life.last.id).copied().unwrap_or(0);
        // The log of operations is deleted with the instance.
        if life.retries > recorded && !life.deleted {
            let retries = life.retries;
            let what = format!("left an end {retries} times, {recorded} of them recorded");
            self.violate("I4", life.last.id, what);
        }
    }

    /// I5, and I6 as the step saw it.
    fn check_effects(&mut self, life: &Life) {
        let mut wrong = Vec::new();
        for ran in self.books.effects_of(life.last.id) {
            let visit = committed_visit(life, ran);
            let over = visit.and_then(|visit| left_at(life, visit));
            let is_late = over.is_some_and(|over| ran.at > over + self.coarse_us);
            self.figures.late_starts += u64::from(is_late);
            // After a lost write, ids and visits are used again for other instances.
            if self.may_lose {
                self.figures.lost_visits += u64::from(visit.is_none());
                continue;
            }
            match visit {
                None => wrong.push(("I5", format!("ran {} that was never committed", name(ran)))),
                Some(visit) if visit.at > ran.at + self.coarse_us => {
                    let early = visit.at - ran.at;
                    let what = format!("ran {} {early} µs before it was committed", name(ran));
                    wrong.push(("I5", what));
                }
                Some(visit) => {
                    let saw = self.compare_join(life.last.id, visit.round, ran);
                    wrong.extend(saw.map(|what| ("I6", format!("{} {what}", name(ran)))));
                    let ran_by = self.compare_grant(life, ran);
                    wrong.extend(ran_by.map(|what| ("I13", format!("{} {what}", name(ran)))));
                }
            }
        }
        for (rule, what) in wrong {
            self.violate(rule, life.last.id, what);
        }
    }

    /// I10: a step without signals was woken by its deadline, and not before it.
    fn check_timeouts(&mut self, life: &Life) {
        if self.may_lose {
            return;
        }
        for wake in &life.timed_out {
            let effects = self.books.effects_of(life.last.id);
            let of_the_step = |ran: &&Ran| ran.visit == wake.visit && !ran.cancelling;
            let mut effects = effects.iter().filter(of_the_step);
            if !effects.any(|ran| ran.signals.is_empty()) {
                continue;
            }
            self.figures.timeouts += 1;
            if wake.at + self.coarse_us < wake.deadline {
                let early = wake.deadline - wake.at;
                self.violate("I10", life.last.id, format!("timed out {early} µs early"));
            }
            let late = u64::try_from(wake.at - wake.deadline).unwrap_or(0) / 1_000;
            self.figures.latest_timeout_ms = self.figures.latest_timeout_ms.max(late);
        }
    }

    /// I6: a reconciler finds nothing to repair, whatever faults occur.
    fn check_mended(&mut self) {
        for (worker, count) in std::mem::take(&mut self.books.mended) {
            self.violations.push(Violation {
                rule: "I6",
                instance: None,
                what: format!("worker {worker} mended {count} joins or holds"),
            });
        }
    }

    /// I5: effects of instances that do not exist.
    fn check_strays(&mut self, lives: &HashMap<i64, Life>) {
        if self.may_lose {
            return;
        }
        let strays = self.books.effects.keys().chain(self.books.did.keys());
        let strays: Vec<i64> = strays.copied().collect();
        for id in strays {
            if !lives.contains_key(&id) {
                self.violate("I5", id, "ran and is nowhere");
            }
        }
    }

    /// I7.
    fn check_signals(&mut self, lives: &HashMap<i64, Life>) {
        let mut received: HashMap<i64, HashSet<i64>> = HashMap::new();
        for ran in self.books.effects.values().flatten() {
            for signal in &ran.signals {
                received.entry(*signal).or_default().insert(ran.visit);
            }
        }
        let mut wrong = Vec::new();
        for (id, signal) in &self.signals {
            let visits = received.get(id).map_or(0, HashSet::len)
                + self.consumed.get(id).map_or(0, HashSet::len);
            if visits > 1 && !self.may_lose {
                wrong.push((
                    signal.target,
                    format!("consumed signal {id} in {visits} visits"),
                ));
            }
            let Some(target) = lives.get(&signal.target) else {
                wrong.push((
                    signal.target,
                    format!("is not there, and was sent signal {id}"),
                ));
                continue;
            };
            match signal.gone {
                // I2 reports a target that has not finished.
                None if target.last.status.is_terminal() && !target.deleted => {
                    wrong.push((signal.target, format!("ended and left signal {id} behind")));
                }
                // A rejected update is consumed and not received.
                Some(_) if signal.reply().is_some() => {}
                Some(gone) if visits == 0 && gone < target.last_alive => {
                    wrong.push((
                        signal.target,
                        format!("lost signal {id}: gone, and not received"),
                    ));
                }
                None | Some(_) => {}
            }
        }
        for (signal, acknowledged) in &self.books.delivered {
            // At most one is there: `deliver` reports a second one with this dedup key.
            let missing = acknowledged - u64::from(self.dedups.contains(signal));
            if missing > 0 && self.may_lose {
                self.figures.lost_signals += missing;
            } else if missing > 0 {
                let (target, dedup) = signal;
                let what = format!("was acknowledged signal {dedup}, which is not there");
                wrong.push((*target, what));
            }
        }
        for (id, what) in wrong {
            self.violate("I7", id, what);
        }
    }

    /// I8: of two instances with the same partition key, the one acknowledged before the other was
    /// requested starts first.
    fn check_order(&mut self, lives: &HashMap<i64, Life>) {
        let mut lines: BTreeMap<&str, Vec<(i64, i64, i64, i64)>> = BTreeMap::new();
        for (id, inserted) in &self.books.inserted {
            let life = lives
                .get(id)
                .filter(|life| life.token == Some(inserted.token));
            let Some(life) = life else { continue };
            if let (Some(key), Some(claim)) = (&life.last.partition_key, life.first_claim) {
                let line = lines.entry(key).or_default();
                line.push((inserted.asked_at, inserted.at, claim, *id));
            }
        }
        let mut wrong = Vec::new();
        for line in lines.values_mut() {
            line.sort_unstable();
            for pair in line.windows(2) {
                let [(_, acknowledged, claim, id), (asked, _, next_claim, next)] = pair else {
                    continue;
                };
                if acknowledged < asked && claim > next_claim {
                    wrong.push((*next, format!("started before {id}, which was first")));
                }
            }
        }
        for (id, what) in wrong {
            self.violate("I8", id, what);
        }
    }

    fn count(&mut self) {
        let books = &self.books;
        let zombies = books.freezes().filter(|(worker, froze, thawed)| {
            let reaps = self.reaps.get(*worker);
            reaps.is_some_and(|reaps| reaps.iter().any(|at| (froze..=thawed).contains(&at)))
        });
        self.figures.zombies = zombies.count() as u64;
        self.figures.effects = books.effects_total;
        self.figures.flow_effects = books.did.values().map(|did| did.len() as u64).sum();
        self.figures.duplicate_executions =
            books.effects_total.saturating_sub(self.figures.outcomes);
        self.figures.kills = books.count(WorkerEvent::Killed);
        self.figures.deaths = books.count(WorkerEvent::Died);
        self.figures.freezes = books.count(WorkerEvent::Froze);
        self.figures.lost_outcomes = books.lost_outcomes.values().sum();
    }
}

fn committed_visit<'a>(life: &'a Life, ran: &Ran) -> Option<&'a super::Visit> {
    let mut visits = life.visits.iter();
    visits.find(|visit| visit.visit == ran.visit && visit.step == ran.step)
}

/// Returns when the instance left this visit for the next one, or for its end.
fn left_at(life: &Life, visit: &super::Visit) -> Option<i64> {
    let mut later = life.visits.iter();
    let next = later.find(|other| other.visit > visit.visit);
    next.map(|next| next.at).or(life.ended_at)
}

fn name(ran: &Ran) -> String {
    format!("{:?} (visit {})", ran.step, ran.visit)
}
