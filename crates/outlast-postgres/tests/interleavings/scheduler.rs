//! Every schedule of a scenario: which session goes next, at each statement.
//!
//! A session stands before a statement, has finished, or runs. One that runs is waited for until it
//! arrives, or until the server says that it waits for a session that does not move. So a choice is
//! offered only when nothing moves, and the same choices lead to the same places each time.

use super::act::{Act, Told};
use super::check::Verdicts;
use super::gate::Arrival;
use super::stage::{Stage, Start};
use super::world::World;
use std::collections::BTreeSet;
use std::fmt;
use std::time::{Duration, Instant};
use tokio::time::timeout;

/// How long something that runs is left alone before the server is asked about it again.
const PATIENCE: Duration = Duration::from_millis(1);
/// When nothing moves for so long, the scheduler itself is at fault.
const STUCK: Duration = Duration::from_secs(30);
/// How many schedules leave so many dead rows that removing them is worth it.
const TIDY_EVERY: usize = 200;

/// Sessions that act beside each other, each one verb after the other.
pub(crate) struct Scenario {
    pub(crate) start: Start,
    pub(crate) sessions: Vec<Vec<Act>>,
    /// Statements that find nothing to do here: they go with the one before them.
    pub(crate) idle: Vec<&'static str>,
    /// Whether two of them lock in opposite orders, so that the server must choose one.
    pub(crate) may_deadlock: bool,
    /// Whether two may come to wait for a third, so that the server chooses who is next.
    pub(crate) server_may_choose: bool,
}

/// One way through a scenario.
pub(crate) struct Schedule {
    pub(crate) steps: Vec<(usize, &'static str)>,
    pub(crate) told: Vec<Vec<Told>>,
    pub(crate) deadlocked: bool,
}

/// What came of all schedules of a scenario.
#[derive(Debug, Default)]
pub(crate) struct Report {
    pub(crate) schedules: usize,
    pub(crate) endings: usize,
    pub(crate) deadlocked: usize,
    /// How many schedules were violated.
    pub(crate) violated: usize,
    /// The first of each kind, with its schedule.
    pub(crate) examples: Vec<String>,
    pub(crate) took: Duration,
}

/// A choice that was offered, and which of the sessions goes this time.
struct Choice {
    offered: Vec<usize>,
    taken: usize,
}

impl Scenario {
    pub(crate) fn new(start: Start, sessions: &[&[Act]]) -> Scenario {
        Scenario {
            start,
            sessions: sessions.iter().map(|acts| acts.to_vec()).collect(),
            idle: Vec::new(),
            may_deadlock: false,
            server_may_choose: false,
        }
    }

    /// Without the places of statements that have nothing to do from this start.
    pub(crate) fn briefly(self) -> Scenario {
        let idle = self.start.idle();
        self.without(idle)
    }

    /// Without the places of these statements, which have nothing to do, and of locks on workers where
    /// only one session has to do with them.
    pub(crate) fn without(mut self, idle: &[&'static str]) -> Scenario {
        self.idle = idle.to_vec();
        let enders = self.count(|act| matches!(act, Act::Reap(_) | Act::Deregister));
        let takers = self.count(|act| matches!(act, Act::Claim | Act::DeliverFor(_)));
        if enders == 0 || enders + takers == 1 {
            self.idle.extend(["lease/hold", "reap/workers"]);
        }
        self
    }

    /// Only the places where transactions of this start meet: locks, looks at what is not locked, and
    /// commits. What is read and written under a lock that is held cannot be told from its commit.
    pub(crate) fn at_meetings(self) -> Scenario {
        const UNDER_LOCKS: [&str; 9] = [
            "commit/park",
            "commit/continue_as_new",
            "commit/spawn_alike",
            "cascade/close",
            "operate/cancel",
            "operate/terminate",
            "reap/fail",
            "deliver/deliver",
            "deliver/taken",
        ];
        let mut scenario = self.briefly();
        scenario.idle.extend(UNDER_LOCKS);
        scenario
    }

    /// Only the places of locks and commits: for sessions that may begin anew, which are many otherwise.
    pub(crate) fn at_locks(self) -> Scenario {
        let mut scenario = self.at_meetings();
        scenario.idle.extend(["insert/holders", "inbox/clear"]);
        scenario
    }

    /// Where two wait for the same, one of them goes on, and which one is not explored.
    pub(crate) fn where_the_server_chooses(mut self) -> Scenario {
        self.server_may_choose = true;
        self
    }

    /// How many acts are like this.
    pub(crate) fn count(&self, condition: impl Fn(&Act) -> bool) -> usize {
        let acts = self.sessions.iter().flatten();
        acts.filter(|act| condition(act)).count()
    }

    /// Runs all schedules, depth first, each from the start.
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

    /// Runs one schedule: the choices as far as they are given, the first offered from there on.
    async fn run(&self, world: &mut World, stage: &Stage, choices: &mut Vec<Choice>) -> Schedule {
        let mut players = Players::begin(self, world, stage);
        players.settle(world).await;
        for depth in 0.. {
            let offered = players.ready();
            if offered.is_empty() {
                break;
            }
            // Whom the server chooses depends on its timers: what follows is run, and not explored.
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
                    "{self}: the same choices led elsewhere after {:?}",
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

/// Goes on to the next schedule; `false` when there is none.
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
    Finished(Vec<Told>),
}

/// What the server said since somebody last moved.
#[derive(Default)]
struct Watch {
    /// Those that wait, directly or through others, for one that stands. Asked in rounds: an answer
    /// counts for what it says about sessions that were known to stand before it.
    still: BTreeSet<usize>,
    /// How often in a row some of them were seen to wait for each other.
    rings: usize,
}

/// The sessions of one schedule.
struct Players {
    places: Vec<Place>,
    steps: Vec<(usize, &'static str)>,
    /// Those that the server last said were waiting for another.
    blocked: BTreeSet<usize>,
    /// Those that waited before somebody last moved.
    waited: BTreeSet<usize>,
    /// Whether one of several that waited went on: which one it is, the server chose.
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
                let (mut told, mut carried) = (Vec::new(), Vec::new());
                for act in acts {
                    told.extend(act.perform(&store, &stage, &mut carried).await);
                }
                gate.finish(told);
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

    /// Waits until nothing moves by itself any more.
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

    /// Who arrives next, unless nobody does for a while. Those that were blocked before are probably
    /// blocked still, and not waited for.
    async fn arrival(
        &self,
        world: &mut World,
        moving: &[usize],
    ) -> Option<(usize, Arrival<Vec<Told>>)> {
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

    /// Asks the server who waits for whom.
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
        // Seen twice with nobody having moved between: the server will end one of them.
        self.deadlocked |= watch.rings >= 2;
    }

    fn note(&mut self, session: usize, arrival: Arrival<Vec<Told>>) {
        self.blocked.remove(&session);
        self.places[session] = match arrival {
            Arrival::Before(statement) => Place::Ready(statement),
            Arrival::Again(statement) => {
                // Claims also begin anew when another was first to execute under their key (I8).
                self.deadlocked |= statement != "lease/hold" && statement != "claim/claim";
                Place::Ready(statement)
            }
            Arrival::Finished(told) => Place::Finished(told),
        };
    }

    fn end(self) -> Schedule {
        let told = self.places.into_iter().map(|place| match place {
            Place::Finished(told) => told,
            Place::Ready(_) | Place::Running => panic!("a session has not finished: {place:?}"),
        });
        Schedule {
            told: told.collect(),
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
                "{scenario}\n  {}\n  {schedule}\n  told: {:?}",
                violations.join("\n  "),
                schedule.told
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
