//! A pseudo-terminal that runs the program, with the test as its user.

use crate::support::LONG;
use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};
use std::fs::File;
use std::io::{Read, Write};
use std::process::{Child, Command};
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::Instant;

const SIZE: Winsize = Winsize {
    ws_row: 30,
    ws_col: 100,
    ws_xpixel: 0,
    ws_ypixel: 0,
};

/// How many pieces of up to [`PIECE`] bytes are read ahead of the test.
const PIECES: usize = 64;
const PIECE: usize = 4096;

/// A pseudo-terminal, whose program is killed when this value is dropped.
pub(crate) struct Terminal {
    /// The side with the screen and the keyboard.
    outside: File,
    child: Child,
    written: Receiver<Vec<u8>>,
    /// Text on the screen that the test has not waited for yet.
    unread: String,
}

impl Terminal {
    /// Starts a program on a new terminal. `setsid` makes it the controlling terminal of a new
    /// session, so `/dev/tty` is not the terminal on which the tests were started.
    pub(crate) fn start(command: &Command) -> Terminal {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let outside = openpt(flags).unwrap();
        grantpt(&outside).unwrap();
        unlockpt(&outside).unwrap();
        tcsetwinsize(&outside, SIZE).unwrap();
        let inside = File::from(ioctl_tiocgptpeer(&outside, flags).unwrap());
        let mut command = in_a_session(command);
        command
            .stdin(inside.try_clone().unwrap())
            .stdout(inside.try_clone().unwrap())
            .stderr(inside);
        let child = command.spawn().unwrap();
        // Only the program still holds the inside, so reading ends with the program.
        drop(command);
        let outside = File::from(outside);
        Terminal {
            written: read_ahead(outside.try_clone().unwrap()),
            outside,
            child,
            unread: String::new(),
        }
    }

    /// Types on the keyboard.
    pub(crate) fn types(&mut self, keys: &str) {
        self.outside.write_all(keys.as_bytes()).unwrap();
    }

    /// Reads the screen until this text appears.
    #[track_caller]
    pub(crate) fn shows(&mut self, text: &str) {
        let until = Instant::now() + LONG;
        loop {
            if let Some(at) = self.unread.find(text) {
                self.unread.drain(..at + text.len());
                return;
            }
            let left = until.saturating_duration_since(Instant::now());
            match self.written.recv_timeout(left) {
                Ok(piece) => self.unread += &String::from_utf8_lossy(&piece),
                Err(why) => panic!("{text:?} does not appear, {why}: {:?}", self.unread),
            }
        }
    }

    /// Waits until the program has ended, and returns its remaining output.
    #[track_caller]
    pub(crate) fn ends_with(&mut self, code: i32) -> String {
        let until = Instant::now() + LONG;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            match self.written.recv_timeout(left) {
                Ok(piece) => self.unread += &String::from_utf8_lossy(&piece),
                Err(_) if left.is_zero() => panic!("the program does not end: {:?}", self.unread),
                Err(_) => break,
            }
        }
        let status = self.child.wait().unwrap();
        assert_eq!(status.code(), Some(code), "{:?}", self.unread);
        std::mem::take(&mut self.unread)
    }

    /// Whether the terminal reads whole lines and echoes input, as a shell expects.
    pub(crate) fn is_in_line_mode(&self) -> bool {
        let modes = tcgetattr(&self.outside).unwrap().local_modes;
        modes.contains(LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG)
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // After a successful test the program has already ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the same command in a new session, with the same arguments and environment.
fn in_a_session(command: &Command) -> Command {
    let mut session = Command::new("setsid");
    session
        .arg("--ctty")
        .arg(command.get_program())
        .args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => session.env(name, value),
            None => session.env_remove(name),
        };
    }
    if let Some(folder) = command.get_current_dir() {
        session.current_dir(folder);
    }
    session.env("TERM", "xterm-256color");
    session
}

/// Reads in a separate thread, so that a wait can time out. The thread ends with the program, or
/// when the receiver is dropped.
fn read_ahead(mut outside: File) -> Receiver<Vec<u8>> {
    let (sender, written) = sync_channel(PIECES);
    std::thread::spawn(move || {
        let mut piece = [0; PIECE];
        // A terminal whose inside is closed answers with an error.
        while let Ok(count @ 1..) = outside.read(&mut piece) {
            if sender.send(piece[..count].to_vec()).is_err() {
                return;
            }
        }
    });
    written
}
