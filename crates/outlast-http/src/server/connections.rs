//! Bounds the connections of a server and chooses which idle one to close.
//! `serve.rs` calls it.
//!
//! A connection is idle until a whole request head has arrived, and again after each response.
//! Only idle connections are closed to make room, the oldest first. When every connection is busy,
//! a few more are accepted for health checks alone.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio_util::sync::CancellationToken;

/// Connections beyond the bound, accepted for `/healthz` and `/readyz` only.
const HEALTH_ROOM: usize = 16;

#[derive(Clone, Debug)]
pub(crate) struct Connections(Arc<SharedConnections>);

#[derive(Debug)]
struct SharedConnections {
    max: usize,
    idle_per_peer: usize,
    open: Mutex<OpenConnections>,
}

#[derive(Debug, Default)]
struct OpenConnections {
    next: u64,
    /// Ordered by the time at which they were opened.
    all: BTreeMap<u64, ConnectionEntry>,
}

#[derive(Debug)]
struct ConnectionEntry {
    peer: IpAddr,
    is_idle: bool,
    /// Whether it was accepted beyond the bound.
    is_for_health: bool,
    closed: CancellationToken,
}

impl Connections {
    pub(crate) fn new(max: usize, idle_per_peer: usize) -> Connections {
        Connections(Arc::new(SharedConnections {
            max,
            idle_per_peer,
            open: Mutex::default(),
        }))
    }

    /// Registers a new connection. Returns `None` when there is no room and no idle connection to
    /// close.
    pub(crate) fn open(&self, peer: IpAddr) -> Option<ConnectionSlot> {
        let mut open = self.lock();
        let of_peer = |it: &ConnectionEntry| it.peer == peer;
        if open.idle(of_peer).count() >= self.0.idle_per_peer {
            open.close_oldest_idle(of_peer);
        }
        if open.count(false) >= self.0.max {
            open.close_oldest_idle(|it| !it.is_for_health);
        }
        let is_for_health = open.count(false) >= self.0.max;
        if is_for_health && open.count(true) >= HEALTH_ROOM {
            open.close_oldest_idle(|it| it.is_for_health);
        }
        if is_for_health && open.count(true) >= HEALTH_ROOM {
            return None;
        }
        let id = open.next;
        open.next += 1;
        let closed = CancellationToken::new();
        let entry = ConnectionEntry {
            peer,
            is_idle: true,
            is_for_health,
            closed: closed.clone(),
        };
        open.all.insert(id, entry);
        Some(ConnectionSlot {
            connections: self.clone(),
            id,
            is_for_health,
            closed,
        })
    }

    fn set_idle(&self, id: u64, is_idle: bool) {
        if let Some(entry) = self.lock().all.get_mut(&id) {
            entry.is_idle = is_idle;
        }
    }

    fn lock(&self) -> MutexGuard<'_, OpenConnections> {
        self.0.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OpenConnections {
    /// Counts the connections within the bound, or those beyond it.
    fn count(&self, is_for_health: bool) -> usize {
        let all = self.all.values();
        all.filter(|it| it.is_for_health == is_for_health).count()
    }

    fn idle(&self, fits: impl Fn(&ConnectionEntry) -> bool) -> impl Iterator<Item = u64> {
        let idle = self.all.iter();
        idle.filter(move |(_, it)| it.is_idle && fits(it))
            .map(|(id, _)| *id)
    }

    fn close_oldest_idle(&mut self, fits: impl Fn(&ConnectionEntry) -> bool) {
        let oldest = self.idle(fits).next();
        if let Some(entry) = oldest.and_then(|id| self.all.remove(&id)) {
            entry.closed.cancel();
        }
    }
}

/// A registered connection. Dropping it frees its slot.
#[derive(Debug)]
pub(crate) struct ConnectionSlot {
    connections: Connections,
    id: u64,
    /// Whether it was accepted beyond the bound. Such a connection serves health checks only.
    pub(crate) is_for_health: bool,
    closed: CancellationToken,
}

impl ConnectionSlot {
    /// Returns a token that is cancelled when this connection is closed to make room.
    pub(crate) fn closed(&self) -> CancellationToken {
        self.closed.clone()
    }

    /// Marks the connection as busy until the returned guard is dropped.
    pub(crate) fn request(&self) -> BusyConnection {
        self.connections.set_idle(self.id, false);
        BusyConnection {
            connections: self.connections.clone(),
            id: self.id,
        }
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.connections.lock().all.remove(&self.id);
    }
}

/// Marks a connection as busy while a request is answered.
#[derive(Debug)]
pub(crate) struct BusyConnection {
    connections: Connections,
    id: u64,
}

impl Drop for BusyConnection {
    fn drop(&mut self) {
        self.connections.set_idle(self.id, true);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "an unexpected error fails the test")]
    use super::*;

    const ONE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));
    const OTHER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 2));

    #[test]
    fn the_oldest_idle_connection_makes_room() {
        let connections = Connections::new(2, 9);
        let first = connections.open(ONE).unwrap();
        let second = connections.open(OTHER).unwrap();
        let busy = first.request();
        let third = connections.open(ONE).unwrap();
        assert!(second.closed().is_cancelled() && !first.closed().is_cancelled());
        assert!(!third.is_for_health);
        drop(busy);
        let _fourth = connections.open(ONE).unwrap();
        assert!(first.closed().is_cancelled() && !third.closed().is_cancelled());
    }

    #[test]
    fn the_number_of_idle_connections_of_one_peer_is_limited() {
        let connections = Connections::new(100, 2);
        let of_other = connections.open(OTHER).unwrap();
        let of_one: Vec<_> = (0..3).map(|_| connections.open(ONE).unwrap()).collect();
        assert!(of_one[0].closed().is_cancelled());
        assert!(!of_one[1].closed().is_cancelled() && !of_other.closed().is_cancelled());
    }

    #[test]
    fn connections_for_health_checks_open_when_all_others_are_busy() {
        let connections = Connections::new(1, 99);
        let first = connections.open(ONE).unwrap();
        let _busy = first.request();
        let extra: Vec<_> = (0..HEALTH_ROOM)
            .map(|_| connections.open(ONE).unwrap())
            .collect();
        let busy: Vec<_> = extra.iter().map(ConnectionSlot::request).collect();
        assert!(extra.iter().all(|it| it.is_for_health));
        assert!(connections.open(ONE).is_none());
        drop(busy);
        assert!(connections.open(ONE).is_some());
        assert!(!first.closed().is_cancelled());
    }
}
