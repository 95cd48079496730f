//! A proxy between a store and its server that counts round trips and can cut connections.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A client that has been quiet for this long waits for an answer.
const QUIET: Duration = Duration::from_millis(40);

#[derive(Default)]
struct Wire {
    round_trips: AtomicUsize,
    answers_asked_for: AtomicUsize,
    loses_answers: AtomicBool,
    /// How many requests from now the first one without an answer comes. 0: all are answered.
    first_unanswered: AtomicUsize,
    streams: Mutex<Vec<TcpStream>>,
}

impl Wire {
    /// Begins to lose answers with the first request that gets none.
    fn count_down(&self) {
        let left = &self.first_unanswered;
        let before = left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1));
        if before == Ok(1) {
            self.loses_answers.store(true, Ordering::SeqCst);
        }
    }
}

pub(crate) struct Proxy {
    wire: Arc<Wire>,
    port: u16,
}

impl Proxy {
    /// A proxy in front of a server on this machine.
    pub(crate) fn to(server_port: u16) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let port = listener
            .local_addr()
            .expect("the listener has an address")
            .port();
        let wire = Arc::new(Wire::default());
        let shared = wire.clone();
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let Ok(server) = TcpStream::connect(("127.0.0.1", server_port)) else {
                    continue;
                };
                carry(&shared, client, server);
            }
        });
        Proxy { wire, port }
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// How often the client sent something and waited, since the last call.
    pub(crate) fn take_round_trips(&self) -> usize {
        self.wire.round_trips.swap(0, Ordering::SeqCst)
    }

    /// How many messages needed an answer of their own from the server, since the last call.
    pub(crate) fn take_answers_asked_for(&self) -> usize {
        self.wire.answers_asked_for.swap(0, Ordering::SeqCst)
    }

    /// Resets both counts.
    pub(crate) fn count_anew(&self) {
        self.take_round_trips();
        self.take_answers_asked_for();
    }

    /// Loses every answer of the server from now on. Requests still arrive.
    pub(crate) fn lose_answers(&self) {
        self.wire.loses_answers.store(true, Ordering::SeqCst);
    }

    /// Loses every answer after this many more round trips.
    pub(crate) fn lose_answers_after(&self, round_trips: usize) {
        let first = round_trips + 1;
        self.wire.first_unanswered.store(first, Ordering::SeqCst);
    }

    /// Cuts every open connection. New connections work.
    pub(crate) fn cut(&self) {
        for stream in self.wire.streams.lock().unwrap().drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
        self.wire.loses_answers.store(false, Ordering::SeqCst);
    }
}

fn carry(wire: &Arc<Wire>, client: TcpStream, server: TcpStream) {
    let (client_again, server_again) = (client.try_clone().unwrap(), server.try_clone().unwrap());
    let both = [client.try_clone().unwrap(), server.try_clone().unwrap()];
    wire.streams.lock().unwrap().extend(both);
    let there = wire.clone();
    std::thread::spawn(move || carry_requests(&there, client, server));
    let back = wire.clone();
    std::thread::spawn(move || carry_answers(&back, server_again, client_again));
}

/// Gathers what the client sends until it waits, and forwards that as one round trip.
fn carry_requests(wire: &Wire, mut client: TcpStream, mut server: TcpStream) {
    let mut gathered = Vec::new();
    let mut buffer = [0; 65_536];
    loop {
        let patience = (!gathered.is_empty()).then_some(QUIET);
        client
            .set_read_timeout(patience)
            .expect("a wait can be set");
        match client.read(&mut buffer) {
            Ok(0) => break,
            Ok(n) => gathered.extend_from_slice(&buffer[..n]),
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                wire.round_trips.fetch_add(1, Ordering::SeqCst);
                let asked_for = answers_asked_for(&gathered);
                wire.answers_asked_for
                    .fetch_add(asked_for, Ordering::SeqCst);
                wire.count_down();
                if server.write_all(&gathered).is_err() {
                    break;
                }
                gathered.clear();
            }
            Err(_) => break,
        }
    }
    let _ = server.shutdown(Shutdown::Both);
}

/// How many of these messages the server answers at once: plain queries and syncs.
fn answers_asked_for(mut messages: &[u8]) -> usize {
    let mut asked_for = 0;
    // The message that opens a connection has no kind, so its first byte is zero.
    while let [kind @ 1..=255, a, b, c, d, ..] = messages {
        asked_for += usize::from(matches!(kind, b'Q' | b'S'));
        let length = u32::from_be_bytes([*a, *b, *c, *d]) as usize;
        messages = messages.get(1 + length..).unwrap_or_default();
    }
    asked_for
}

fn carry_answers(wire: &Wire, mut server: TcpStream, mut client: TcpStream) {
    let mut buffer = [0; 65_536];
    while let Ok(n @ 1..) = server.read(&mut buffer) {
        let lost = wire.loses_answers.load(Ordering::SeqCst);
        if !lost && client.write_all(&buffer[..n]).is_err() {
            break;
        }
    }
    let _ = client.shutdown(Shutdown::Both);
}
