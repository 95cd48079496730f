//! Processes of this machine, read from `/proc`, and how to end them.

use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::time::{Duration, Instant};

/// One process. Its number may be reused, so the start time is part of its identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process {
    id: u32,
    started: u64,
}

/// The fields of `/proc/ID/stat`.
struct Stat {
    state: char,
    parent: u32,
    started: u64,
}

impl Process {
    /// Returns the process with this number; `None` when there is none or only a zombie.
    pub fn find(id: u32) -> Option<Process> {
        let stat = Stat::read(id).filter(Stat::lives)?;
        Some(Process {
            id,
            started: stat.started,
        })
    }

    /// Returns its number.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// Returns whether it still runs. A zombie does not.
    pub fn is_alive(&self) -> bool {
        self.stat().is_some_and(|stat| stat.lives())
    }

    /// Returns its children and their descendants.
    pub fn descendants(&self) -> Vec<Process> {
        let mut found = children_of(self.id);
        let mut next = 0;
        while let Some(child) = found.get(next) {
            found.extend(children_of(child.id));
            next += 1;
        }
        found
    }

    /// Returns its children.
    pub fn children(&self) -> Vec<Process> {
        children_of(self.id)
    }

    /// Returns its command line, or the title that it has set.
    pub fn title(&self) -> String {
        let line = fs::read(format!("/proc/{}/cmdline", self.id)).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        line.trim().to_owned()
    }

    /// Sends a signal, unless the process has ended.
    pub fn signal(&self, signal: Signal) {
        if self.is_alive()
            && let Some(id) = Pid::from_raw(self.id.cast_signed())
        {
            // It may end between the check and the signal.
            let _ = kill_process(id, signal);
        }
    }

    /// Kills it and its descendants with SIGKILL. It is stopped first, so that it neither starts
    /// another process nor sees one end. Blocks until they have ended.
    pub fn kill_with_descendants(&self) {
        self.signal(Signal::STOP);
        wait_until("the process is stopped", || {
            self.stat().is_none_or(|it| it.stands_still())
        });
        let mut all = vec![*self];
        all.extend(self.descendants());
        for process in &all {
            process.signal(Signal::KILL);
        }
        for process in &all {
            process.wait_for_end();
        }
    }

    /// Blocks until it has ended.
    pub fn wait_for_end(&self) {
        wait_until("the process ends", || !self.is_alive());
    }

    /// Blocks until it has ended, at most for `limit`. Returns whether it has.
    pub fn ends_within(&self, limit: Duration) -> bool {
        let begun = Instant::now();
        while self.is_alive() {
            if begun.elapsed() > limit {
                return false;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        true
    }

    fn stat(&self) -> Option<Stat> {
        Stat::read(self.id).filter(|stat| stat.started == self.started)
    }
}

impl Stat {
    fn read(id: u32) -> Option<Stat> {
        let text = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
        // The second field is the name in parentheses, which may contain anything, even
        // parentheses.
        let (_, rest) = text.rsplit_once(") ")?;
        let fields: Vec<&str> = rest.split_whitespace().collect();
        Some(Stat {
            state: fields.first()?.chars().next()?,
            parent: fields.get(1)?.parse().ok()?,
            started: fields.get(19)?.parse().ok()?,
        })
    }

    fn lives(&self) -> bool {
        !matches!(self.state, 'Z' | 'X' | 'x')
    }

    fn stands_still(&self) -> bool {
        !self.lives() || matches!(self.state, 'T' | 't')
    }
}

fn children_of(parent: u32) -> Vec<Process> {
    let numbers = fs::read_dir("/proc").into_iter().flatten().flatten();
    numbers
        .filter_map(|entry| {
            let id = entry.file_name().to_str()?.parse().ok()?;
            let stat = Stat::read(id).filter(|stat| stat.parent == parent && stat.lives())?;
            let started = stat.started;
            Some(Process { id, started })
        })
        .collect()
}

/// Polls until the answer is true, for at most half a minute. Blocks.
pub fn wait_until(what: &str, mut ask: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !ask() {
        assert!(begun.elapsed() < Duration::from_secs(30), "never: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}
