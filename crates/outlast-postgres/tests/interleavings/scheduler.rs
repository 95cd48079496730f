//! Runs every schedule of a scenario. A schedule chooses at each statement which session goes
//! next.
//!
//! A session stands before a statement, runs, or has finished. The scheduler waits for a running
//! session until it arrives, or until the server says that it waits for a session that stands. So
//! a choice is offered only when nothing moves. The same choices lead to the same places each
//! time.

use super::act::{Act, Effect};
use super::check::Verdicts;
use super::gate::Arrival;
use super::stage::{Stage, Start};
use super::world::World;
use std::collections::BTreeSet;
use std::fmt;
use std::time::{Duration, Instant};
use tokio::time::timeout;

/// How long the scheduler waits for a running session before it asks the server again.
const PATIENCE: Duration = Duration::from_millis(1);
/// After this time without an arrival the scheduler gives up: it has a fault itself.
const STUCK: Duration = Duration::from_secs(30);
/// After how many schedules the dead rows are worth removing.
const TIDY_EVERY: usize = 200;

/// Sessions that act concurrently. Each calls its verbs one after the other.
pub(crate) struct Scenario {
    pub(crate) start: Start,
    pub(crate) sessions: Vec<Vec<Act>>,
    /// Statements that find nothing to do here. They run together with the statement before them.
    pub(crate) idle: Vec<&'static str>,
    /// Whether two sessions lock in opposite orders, so that the server must abort one.
    pub(crate) may_deadlock: bool,
    /// Whether two sessions may wait for a third, so that the server chooses which is next.
    pub(crate) server_may_choose: bool,
}

/// One way through a scenario.
pub(crate) struct Schedule {
    pub(crate) steps: Vec<(usize, &'static str)>,
    pub(crate) effects: Vec<Vec<Effect>>,
    pub(crate) deadlocked: bool,
}

/// The results of all schedules of a scenario.
#[derive(Debug, Default)]
pub(crate) struct Report {
    pub(crate) schedules: usize,
    /// How many different final states there were.
    pub(crate) endings: usize,
    pub(crate) deadlocked: usize,
    /// How many schedules violated a rule.
    pub(crate) violated: usize,
    /// The first violations of each kind, with their schedules.
    pub(crate) examples: Vec<String>,
    pub(crate) took: Duration,
}

/// The sessions among which a choice was offered, and the place of the chosen one.
struct Choice {
    offered: Vec<usize>,
    taken: usize,
}

/// The last read of each fire and each time-out. What it answers is a hint, so its place would
/// only multiply the schedules.
const LOOKS_AHEAD: &str = "time_out/next";

impl Scenario {
    pub(crate) fn new(start: Start, sessions: &[&[Act]]) -> Scenario {
        Scenario {
            start,
            sessions: sessions.iter().map(|acts| acts.to_vec()).collect(),
            idle: vec![LOOKS_AHEAD],
            may_deadlock: false,
            server_may_choose: false,
        }
    }

    /// Skips the places of statements that have nothing to do from this start.
    pub(crate) fn briefly(self) -> Scenario {
        let idle = self.start.idle();
        self.without(idle)
    }

    /// Skips the places of these statements, which have nothing to do. Also skips locks on workers
    /// if only one session uses them.
    pub(crate) fn without(mut self, idle: &[&'static str]) -> Scenario {
        self.idle = idle.to_vec();
        self.idle.push(LOOKS_AHEAD);
        let enders = self.count(|act| matches!(act, Act::Reap(_) | Act::Deregister));
        let takers = self.count(|act| matches!(act, Act::Claim | Act::DeliverFor(_)));
        if enders == 0 || enders + takers == 1 {
            self.idle.extend(["lease/hold", "reap/workers"]);
        }
        self
    }

    /// Keeps only the places where transactions of this start meet: locks, unlocked reads,
    /// commits.
    ///
    /// No other session can distinguish a read or write under a lock from the commit.
    pub(crate) fn at_meetings(self) -> Scenario {
        const UNDER_LOCKS: [&str; 12] = [
            "inbox/reply",
            "inbox/end_updates",
            "commit/park",
            "commit/continue_as_new",
            "commit/spawn_alike",
            "cascade/close",
            "operate/cancel",
            "operate/terminate",
            "reap/fail",
            "time_out/fail",
            "deliver/deliver",
            "deliver/taken",
        ];
        let mut scenario = self.briefly();
        scenario.idle.extend(UNDER_LOCKS);
        scenario
    }

    /// Keeps only the places of locks and commits. Sessions that may begin again have too many
    /// schedules otherwise.
    pub(crate) fn at_locks(self) -> Scenario {
        let mut scenario = self.at_meetings();
        scenario.idle.extend(["insert/holders", "inbox/clear"]);
        scenario
    }

    /// Leaves the order to the server where two sessions wait for the same lock.
    pub(crate) fn where_the_server_chooses(mut self) -> Scenario {
        self.server_may_choose = true;
        self
    }

    /// How many acts fulfil the condition.
    pub(crate) fn count(&self, condition: impl Fn(&Act) -> bool) -> usize {
        let acts = self.sessions.iter().flatten();
        acts.filter(|act| condition(act)).count()
    }

    /// Runs all schedules depth first, each from the start.
    pub(crate) async fn explore(&self, world: &mut World, stage: &Stage) -> Report {
        let begun = Instant::now();
        for session in &world.sessions {
            session.gate.set_idle(&self.idle);
        }
        let (mut report, mut verdicts) = (Report::default(), Verdicts::default());
        let mut choices = Vec::new();
        loop {
            world.restore_start().await;
            let schedule = self.run(world, stage, &mut choices).await;
            report.schedules += 1;
            report.deadlocked += usize::from(schedule.deadlocked);
            let violations = verdicts.judge(self, world, stage, &schedule).await;
            report.add(self, &schedule, violations);
            if report.schedules.is_multiple_of(TIDY_EVERY) {
                world.tidy().await;
            }
            if !next(&mut choices) {
                break;
            }
        }
        report.endings = verdicts.len();
        report.took = begun.elapsed();
        report
    }

    /// Runs one schedule: first the given choices, then the first offer each time.
    async fn run(&self, world: &mut World, stage: &Stage, choices: &mut Vec<Choice>) -> Schedule {
        let mut players = Players::begin(self, world, stage);
        players.settle(world).await;
        for depth in 0.. {
            let offered = players.ready();
            if offered.is_empty() {
                break;
            }
            // The choice of the server depends on its timers. The rest runs without alternatives.
            if players.deadlocked || (self.server_may_choose && players.chosen) {
                players.grant(world, offered[0]);
                players.settle(world).await;
                continue;
            }
            if depth == choices.len() {
                choices.push(Choice { offered, taken: 0 });
            } else {
                assert_eq!(
                    choices[depth].offered, offered,
                    "{self}: the same choices led to another place after {:?}",
                    players.steps
                );
            }
            let choice = &choices[depth];
            players.grant(world, choice.offered[choice.taken]);
            players.settle(world).await;
        }
        players.end()
    }
}

/// Advances to the next schedule. Returns `false` if there is none.
fn next(choices: &mut Vec<Choice>) -> bool {
    while let Some(last) = choices.last_mut() {
        last.taken += 1;
        if last.taken < last.offered.len() {
            return true;
        }
        choices.pop();
    }
    false
}

/// Where a session is.
#[derive(Clone, Debug)]
enum Place {
    /// It stands before this statement.
    Ready(&'static str),
    /// It runs, or waits for a lock.
    Running,
    Finished(Vec<Effect>),
}

/// The server's answers since a session last moved.
#[derive(Default)]
struct Watch {
    /// Sessions that wait, directly or through others, for a session that stands.
    ///
    /// The server is asked in rounds. An answer counts only for sessions that were known to stand
    /// before it.
    still: BTreeSet<usize>,
    /// How many answers in a row showed sessions that wait for each other.
    rings: usize,
}

/// The sessions of one schedule.
struct Players {
    places: Vec<Place>,
    steps: Vec<(usize, &'static str)>,
    /// Sessions that waited for another one in the server's last answer.
    blocked: BTreeSet<usize>,
    /// Sessions that waited before a session last moved.
    waited: BTreeSet<usize>,
    /// Whether one of several waiting sessions went on, by the choice of the server.
    chosen: bool,
    deadlocked: bool,
}

impl Players {
    fn begin(scenario: &Scenario, world: &World, stage: &Stage) -> Players {
        for (acts, session) in scenario.sessions.iter().zip(&world.sessions) {
            let (acts, stage) = (acts.clone(), stage.clone());
            let (store, gate) = (session.store.clone(), session.gate.clone());
            gate.begin();
            tokio::spawn(async move {
                let (mut effects, mut carried) = (Vec::new(), Vec::new());
                for act in acts {
                    effects.extend(act.perform(&store, &stage, &mut carried).await);
                }
                gate.finish(effects);
            });
        }
        Players {
            places: vec![Place::Running; scenario.sessions.len()],
            steps: Vec::new(),
            blocked: BTreeSet::new(),
            waited: BTreeSet::new(),
            chosen: false,
            deadlocked: false,
        }
    }

    fn ready(&self) -> Vec<usize> {
        self.which(|_, place| matches!(place, Place::Ready(_)))
    }

    fn which(&self, condition: impl Fn(usize, &Place) -> bool) -> Vec<usize> {
        (0..self.places.len())
            .filter(|&session| condition(session, &self.places[session]))
            .collect()
    }

    fn grant(&mut self, world: &World, session: usize) {
        self.waited = self.blocked.clone();
        let place = std::mem::replace(&mut self.places[session], Place::Running);
        let Place::Ready(statement) = place else {
            panic!("session {session} is not before a statement but {place:?}");
        };
        self.steps.push((session, statement));
        world.sessions[session].gate.grant();
    }

    /// Waits until every session stands, waits for a lock, or has finished.
    async fn settle(&mut self, world: &mut World) {
        let since = Instant::now();
        let mut watch = Watch::default();
        loop {
            let moving = self.which(|session, place| {
                matches!(place, Place::Running) && !watch.still.contains(&session)
            });
            if moving.is_empty() {
                self.blocked = watch.still;
                self.chosen |= self.waited.len() > 1 && !self.waited.is_subset(&self.blocked);
                return;
            }
            assert!(
                since.elapsed() < STUCK,
                "{:?} after {:?}",
                self.places,
                self.steps
            );
            match self.arrival(world, &moving).await {
                Some((session, arrival)) => {
                    self.note(session, arrival);
                    watch = Watch::default();
                }
                None => self.ask(world, &moving, &mut watch).await,
            }
        }
    }

    /// The next session that arrives, if one does soon. Sessions that were blocked before are not
    /// waited for: they are probably still blocked.
    async fn arrival(
        &self,
        world: &mut World,
        moving: &[usize],
    ) -> Option<(usize, Arrival<Vec<Effect>>)> {
        if let Ok(arrived) = world.arrivals.try_recv() {
            return Some(arrived);
        }
        if moving.iter().all(|session| self.blocked.contains(session)) {
            return None;
        }
        timeout(PATIENCE, world.arrivals.recv())
            .await
            .ok()
            .flatten()
    }

    /// Asks the server which sessions wait for which.
    async fn ask(&mut self, world: &World, moving: &[usize], watch: &mut Watch) {
        let blockers = world.blockers(moving).await;
        let ready = self.ready();
        for (session, blockers) in moving.iter().zip(&blockers) {
            let stands = |other| ready.contains(other) || watch.still.contains(other);
            if blockers.iter().any(stands) {
                watch.still.insert(*session);
            } else {
                self.blocked.remove(session);
            }
        }
        watch.rings = match is_ring(moving, &blockers) {
            true => watch.rings + 1,
            false => 0,
        };
        // Two answers without a move between them: a deadlock, of which the server will abort one.
        self.deadlocked |= watch.rings >= 2;
    }

    fn note(&mut self, session: usize, arrival: Arrival<Vec<Effect>>) {
        self.blocked.remove(&session);
        self.places[session] = match arrival {
            Arrival::Before(statement) => Place::Ready(statement),
            Arrival::Again(statement) => {
                // Claims also begin again if another one took their partition key first (I8), and
                // a repair looks again under its lock.
                let begins_anew = ["lease/hold", "claim/claim", "repair/find"];
                self.deadlocked |= !begins_anew.contains(&statement);
                Place::Ready(statement)
            }
            Arrival::Finished(effects) => Place::Finished(effects),
        };
    }

    fn end(self) -> Schedule {
        let effects = self.places.into_iter().map(|place| match place {
            Place::Finished(effects) => effects,
            Place::Ready(_) | Place::Running => panic!("a session has not finished: {place:?}"),
        });
        Schedule {
            effects: effects.collect(),
            steps: self.steps,
            deadlocked: self.deadlocked,
        }
    }
}

/// Whether some of these sessions wait for each other in a ring.
fn is_ring(sessions: &[usize], blockers: &[Vec<usize>]) -> bool {
    let waits_for = |session: usize| {
        let place = sessions.iter().position(|&s| s == session);
        place.map_or(&[][..], |place| &blockers[place])
    };
    sessions.iter().any(|&first| {
        let mut reached = BTreeSet::new();
        let mut ahead = waits_for(first).to_vec();
        while let Some(session) = ahead.pop() {
            if reached.insert(session) {
                ahead.extend(waits_for(session));
            }
        }
        reached.contains(&first)
    })
}

impl Report {
    pub(crate) fn add_report(&mut self, other: Report) {
        self.schedules += other.schedules;
        self.endings += other.endings;
        self.deadlocked += other.deadlocked;
        self.violated += other.violated;
        self.examples.extend(other.examples);
        self.took += other.took;
    }

    fn add(&mut self, scenario: &Scenario, schedule: &Schedule, violations: Vec<String>) {
        const EXAMPLES_MAX: usize = 5;
        self.violated += usize::from(!violations.is_empty());
        let is_known = |violation: &String| self.examples.iter().any(|e| e.contains(violation));
        if self.examples.len() < EXAMPLES_MAX && !violations.iter().all(is_known) {
            self.examples.push(format!(
                "{scenario}\n  {}\n  {schedule}\n  effects: {:?}",
                violations.join("\n  "),
                schedule.effects
            ));
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} schedules, {} endings", self.schedules, self.endings)?;
        if self.deadlocked > 0 {
            write!(f, ", {} deadlocked", self.deadlocked)?;
        }
        if self.violated > 0 {
            write!(f, ", {} violated", self.violated)?;
        }
        write!(f, ", {:.1} s", self.took.as_secs_f64())
    }
}

impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: ", self.start)?;
        for (number, acts) in self.sessions.iter().enumerate() {
            let acts: Vec<String> = acts.iter().map(ToString::to_string).collect();
            let separator = if number > 0 { " | " } else { "" };
            write!(f, "{separator}{}", acts.join(", "))?;
        }
        Ok(())
    }
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (session, statement) in &self.steps {
            write!(f, "{session}:{statement} ")?;
        }
        Ok(())
    }
}
