//! A proxy between clients and a PostgreSQL server that injects faults around commits.
//!
//! It reads the unencrypted protocol in both directions and refuses encryption. It detects the
//! commit of a transaction that wrote something: a `COMMIT` in a simple query or an executed
//! statement, or the end of a round with a write outside a transaction. Around each such commit it
//! may cut, stall or reset the connection, at random by a seed.

mod framing;
mod sql;
mod talk;

use fastrand::Rng;
use framing::Framing;
use std::collections::VecDeque;
use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::sync::atomic::{AtomicU16, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use talk::{Answered, Asked, Commits, Step};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::runtime::Runtime;
use tokio::sync::watch;

/// A proxy in front of a server on this machine. It runs on its own thread, so a busy owner does
/// not delay it. Dropping it closes all its connections.
pub struct Proxy {
    wire: Arc<Wire>,
    port: u16,
    runtime: Option<Runtime>,
}

/// The faults of a connection, as probabilities between 0 and 1. The first four apply to each
/// commit, and at most one of them happens.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Faults {
    /// The connection is cut and the commit does not reach the server.
    pub before_commit: f64,
    /// The server commits, and the connection is cut before the client receives the response.
    pub before_answer: f64,
    /// The client receives the response, and the connection is cut right after.
    pub after_answer: f64,
    /// The response is late by `stall_for`.
    pub stall: f64,
    /// The delay of a stall.
    pub stall_for: Duration,
    /// A cut is a reset instead of an orderly close.
    pub reset: f64,
    /// A chunk in either direction is late by `slow_by`.
    pub slow: f64,
    /// The delay of a slow chunk.
    pub slow_by: Duration,
}

/// Counts of events so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Connections to the server.
    pub connections: u64,
    /// Connections that did not reach the server.
    pub unreachable: u64,
    /// Committed transactions that wrote.
    pub commits: u64,
    /// Cuts before a commit reached the server.
    pub before_commit: u64,
    /// Cuts after the commit, before the response was forwarded.
    pub before_answer: u64,
    /// Cuts right after the response was forwarded.
    pub after_answer: u64,
    /// Late responses to commits.
    pub stalls: u64,
    /// The number of cuts that were resets.
    pub resets: u64,
    /// Late chunks.
    pub slowed: u64,
    /// Connections that were cut by [`Proxy::cut_all`].
    pub cut: u64,
}

impl Counts {
    /// Returns the number of all cuts around a commit.
    pub fn cuts_at_commit(&self) -> u64 {
        self.before_commit + self.before_answer + self.after_answer
    }
}

/// The state that the owner and all connections share.
struct Wire {
    server_port: AtomicU16,
    faults: Mutex<Faults>,
    counts: Mutex<Counts>,
    /// The number of calls of [`Proxy::cut_all`].
    cuts: watch::Sender<u64>,
    seed: u64,
    accepted: AtomicU64,
}

impl Proxy {
    /// Starts a proxy to the server on this port, without faults. The seed decides the random
    /// choices.
    pub fn to(server_port: u16, seed: u64) -> Proxy {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port is free");
        let port = listener
            .local_addr()
            .expect("the listener has an address")
            .port();
        listener
            .set_nonblocking(true)
            .expect("the listener can be non-blocking");
        let wire = Arc::new(Wire {
            server_port: AtomicU16::new(server_port),
            faults: Mutex::default(),
            counts: Mutex::default(),
            cuts: watch::Sender::new(0),
            seed,
            accepted: AtomicU64::new(0),
        });
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("proxy")
            .enable_all()
            .build()
            .expect("a thread can be started");
        runtime.spawn(accept(wire.clone(), listener));
        Proxy {
            wire,
            port,
            runtime: Some(runtime),
        }
    }

    /// Returns the port for clients.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Sets the faults from now on; `Faults::default()` is none.
    pub fn set_faults(&self, faults: Faults) {
        *lock(&self.wire.faults) = faults;
    }

    /// Returns the counts so far.
    pub fn counts(&self) -> Counts {
        *lock(&self.wire.counts)
    }

    /// Forwards new connections to the server on this port; existing ones stay.
    pub fn lead_to(&self, server_port: u16) {
        self.wire.server_port.store(server_port, Ordering::SeqCst);
    }

    /// Cuts every connection; new ones are accepted.
    pub fn cut_all(&self) {
        self.wire.cuts.send_modify(|cuts| *cuts += 1);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Wire {
    fn faults(&self) -> Faults {
        *lock(&self.faults)
    }

    fn count(&self, what: impl FnOnce(&mut Counts) -> &mut u64) {
        *what(&mut lock(&self.counts)) += 1;
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn accept(wire: Arc<Wire>, listener: TcpListener) {
    let listener =
        tokio::net::TcpListener::from_std(listener).expect("the listener can be awaited");
    loop {
        let Ok((client, _)) = listener.accept().await else {
            // Usually no file descriptor is free, until connections end.
            tokio::time::sleep(Duration::from_millis(10)).await;
            continue;
        };
        let number = wire.accepted.fetch_add(1, Ordering::Relaxed);
        tokio::spawn(forward_connection(wire.clone(), client, number));
    }
}

/// Forwards one connection until one side or a fault ends it.
async fn forward_connection(wire: Arc<Wire>, mut client: TcpStream, number: u64) {
    let mut cuts = wire.cuts.subscribe();
    let server_port = wire.server_port.load(Ordering::SeqCst);
    let Ok(mut server) = TcpStream::connect((Ipv4Addr::LOCALHOST, server_port)).await else {
        wire.count(|counts| &mut counts.unreachable);
        return;
    };
    wire.count(|counts| &mut counts.connections);
    for stream in [&client, &server] {
        // A connection without `TCP_NODELAY` works too.
        let _ = stream.set_nodelay(true);
    }
    let talk = Talk::new(&wire, number);
    let (from_client, to_client) = client.split();
    let (from_server, to_server) = server.split();
    let to_client = Client::new(to_client);
    let ending = tokio::select! {
        ending = talk.forward_requests(from_client, to_server, &to_client) => ending,
        ending = talk.forward_answers(from_server, &to_client) => ending,
        _ = cuts.changed() => {
            wire.count(|counts| &mut counts.cut);
            Err(talk.cut(talk.choose_end(&wire.faults())))
        }
    };
    if ending.is_err_and(|end| end.resets) {
        // Closing without lingering sends a reset to the other side.
        let _ = (client.set_zero_linger(), server.set_zero_linger());
    }
}

/// One connection.
struct Talk<'w> {
    wire: &'w Wire,
    chance: Mutex<Rng>,
    /// Rounds without a complete response, oldest first. The client decides how many it sends
    /// ahead.
    rounds: Mutex<VecDeque<Round>>,
}

/// From a message of the client until the server is ready again.
#[derive(Clone, Copy, Default)]
struct Round {
    commits: Option<Commits>,
    fault: Option<Late>,
}

/// A fault around a commit.
enum Fault {
    /// The connection is cut before the commit reaches the server.
    BeforeCommit(End),
    /// The commit reaches the server.
    Later(Late),
}

/// A fault after the server has committed.
#[derive(Clone, Copy)]
enum Late {
    CutBeforeAnswer(End),
    CutAfterAnswer(End),
    Stall(Duration),
}

/// Why a connection ended: one side closed it, or it was cut.
#[derive(Clone, Copy)]
struct End {
    resets: bool,
}

impl From<io::Error> for End {
    fn from(_: io::Error) -> End {
        End { resets: false }
    }
}

/// The writer to the client. The server's responses use it, and the proxy's own.
type Client<'s> = tokio::sync::Mutex<WriteHalf<'s>>;

impl<'w> Talk<'w> {
    fn new(wire: &'w Wire, number: u64) -> Talk<'w> {
        // Each connection has its own random numbers, independent of the others.
        let seed = wire.seed ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        Talk {
            wire,
            chance: Mutex::new(Rng::with_seed(seed)),
            rounds: Mutex::default(),
        }
    }

    async fn forward_requests(
        &self,
        mut client: ReadHalf<'_>,
        mut server: WriteHalf<'_>,
        answering: &Client<'_>,
    ) -> Result<(), End> {
        let (mut framing, mut asked) = (Framing::of_client(), Asked::default());
        let (mut buffer, mut onward) = (vec![0; 64 << 10], Vec::new());
        let mut round = Round::default();
        loop {
            let count = client.read(&mut buffer).await?;
            if count == 0 {
                return Ok(());
            }
            framing.add(&buffer[..count]);
            let mut cut = None;
            while let Some(message) = framing.next()? {
                if message.kind == 0 {
                    match Opening::of(message.body) {
                        Opening::Encryption => {
                            answering.lock().await.write_all(b"N").await?;
                            continue;
                        }
                        // The server reports that it is ready after the login.
                        Opening::Session => lock(&self.rounds).push_back(Round::default()),
                        Opening::Cancel => {}
                    }
                    onward.extend_from_slice(message.bytes);
                    framing.opened();
                    continue;
                }
                cut = self.consider(asked.take(&message), &mut round);
                if cut.is_some() {
                    break;
                }
                onward.extend_from_slice(message.bytes);
            }
            self.slow_down().await;
            server.write_all(&onward).await?;
            onward.clear();
            if let Some(end) = cut {
                return Err(end);
            }
        }
    }

    /// Chooses a fault when a message commits. Returns `Some` when it must not reach the server.
    fn consider(&self, step: Step, round: &mut Round) -> Option<End> {
        if let Some(commits) = step.commits {
            round.commits = Some(commits);
            match self.choose_fault() {
                None => {}
                Some(Fault::Later(fault)) => round.fault = Some(fault),
                Some(Fault::BeforeCommit(end)) => {
                    self.wire.count(|counts| &mut counts.before_commit);
                    return Some(self.cut(end));
                }
            }
        }
        if step.ends_round {
            lock(&self.rounds).push_back(std::mem::take(round));
        }
        None
    }

    async fn forward_answers(
        &self,
        mut server: ReadHalf<'_>,
        client: &Client<'_>,
    ) -> Result<(), End> {
        let (mut framing, mut answered) = (Framing::of_server(), Answered::default());
        let (mut buffer, mut onward) = (vec![0; 64 << 10], Vec::new());
        // The response to a commit with a fault, until it is complete.
        let mut held = Vec::new();
        loop {
            let count = server.read(&mut buffer).await?;
            if count == 0 {
                return Ok(());
            }
            framing.add(&buffer[..count]);
            while let Some(message) = framing.next()? {
                let round = lock(&self.rounds).front().copied().unwrap_or_default();
                match round.fault {
                    None => onward.extend_from_slice(message.bytes),
                    Some(_) => held.extend_from_slice(message.bytes),
                }
                let Some(status) = answered.take(&message) else {
                    continue;
                };
                lock(&self.rounds).pop_front();
                let answered = std::mem::take(&mut answered);
                let committed = round
                    .commits
                    .is_some_and(|how| answered.has_committed(how, status));
                if committed {
                    self.wire.count(|counts| &mut counts.commits);
                }
                if let Some(fault) = round.fault.filter(|_| committed) {
                    forward(client, &mut onward).await?;
                    self.apply_fault(fault, client, &mut held).await?;
                }
                onward.append(&mut held);
            }
            self.slow_down().await;
            forward(client, &mut onward).await?;
        }
    }

    /// Applies the fault to the response of a commit.
    async fn apply_fault(
        &self,
        fault: Late,
        client: &Client<'_>,
        answer: &mut Vec<u8>,
    ) -> Result<(), End> {
        match fault {
            Late::CutBeforeAnswer(end) => {
                self.wire.count(|counts| &mut counts.before_answer);
                Err(self.cut(end))
            }
            Late::CutAfterAnswer(end) => {
                forward(client, answer).await?;
                self.wire.count(|counts| &mut counts.after_answer);
                Err(self.cut(end))
            }
            Late::Stall(by) => {
                self.wire.count(|counts| &mut counts.stalls);
                tokio::time::sleep(by).await;
                Ok(())
            }
        }
    }

    /// Makes all random choices here: the configured faults may have changed when the fault
    /// happens.
    fn choose_fault(&self) -> Option<Fault> {
        let faults = self.wire.faults();
        let end = self.choose_end(&faults);
        let mut left = lock(&self.chance).f64();
        let choices = [
            (faults.before_commit, Fault::BeforeCommit(end)),
            (
                faults.before_answer,
                Fault::Later(Late::CutBeforeAnswer(end)),
            ),
            (faults.after_answer, Fault::Later(Late::CutAfterAnswer(end))),
            (faults.stall, Fault::Later(Late::Stall(faults.stall_for))),
        ];
        for (probability, fault) in choices {
            if left < probability {
                return Some(fault);
            }
            left -= probability;
        }
        None
    }

    fn choose_end(&self, faults: &Faults) -> End {
        End {
            resets: lock(&self.chance).f64() < faults.reset,
        }
    }

    fn cut(&self, end: End) -> End {
        if end.resets {
            self.wire.count(|counts| &mut counts.resets);
        }
        end
    }

    async fn slow_down(&self) {
        let faults = self.wire.faults();
        if lock(&self.chance).f64() < faults.slow {
            self.wire.count(|counts| &mut counts.slowed);
            tokio::time::sleep(faults.slow_by).await;
        }
    }
}

async fn forward(client: &Client<'_>, bytes: &mut Vec<u8>) -> io::Result<()> {
    client.lock().await.write_all(bytes).await?;
    bytes.clear();
    Ok(())
}

/// The first message of a connection.
enum Opening {
    /// Requests encryption.
    Encryption,
    /// Requests the cancellation of another connection's statement.
    Cancel,
    Session,
}

impl Opening {
    fn of(body: &[u8]) -> Opening {
        match body.first_chunk().map(|code| u32::from_be_bytes(*code)) {
            Some(80_877_103 | 80_877_104) => Opening::Encryption,
            Some(80_877_102) => Opening::Cancel,
            _ => Opening::Session,
        }
    }
}
