//! A terminal that runs the program, with the test as its user.

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

/// How much is read ahead of the test, in pieces of up to [`PIECE`] bytes.
const PIECES: usize = 64;
const PIECE: usize = 4096;

/// A pseudo-terminal, ended with the test.
pub(crate) struct Terminal {
    /// The side of the screen and the keyboard.
    outside: File,
    child: Child,
    written: Receiver<Vec<u8>>,
    /// What has been written to the screen and not been waited for yet.
    unread: String,
}

impl Terminal {
    /// Starts a program on a terminal of its own: `setsid` makes it the controlling one of a new session, so that
    /// `/dev/tty` is not the terminal that the tests were started on.
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
        // The last copies of the inside are the program's, so that reading ends when it does.
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

    /// Reads the screen until this comes.
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
                Err(why) => panic!("{text:?} does not come, {why}: {:?}", self.unread),
            }
        }
    }

    /// Waits until the program has gone. Answers what it has still written.
    #[track_caller]
    pub(crate) fn ends_with(&mut self, code: i32) -> String {
        let until = Instant::now() + LONG;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            match self.written.recv_timeout(left) {
                Ok(piece) => self.unread += &String::from_utf8_lossy(&piece),
                Err(_) if left.is_zero() => panic!("it does not end: {:?}", self.unread),
                Err(_) => break,
            }
        }
        let status = self.child.wait().unwrap();
        assert_eq!(status.code(), Some(code), "{:?}", self.unread);
        std::mem::take(&mut self.unread)
    }

    /// Whether it takes whole lines and shows what is typed, as a shell expects it.
    pub(crate) fn is_as_a_shell_left_it(&self) -> bool {
        let modes = tcgetattr(&self.outside).unwrap().local_modes;
        modes.contains(LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG)
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // Gone already where the test went well.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The same program, with the same arguments and surroundings.
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

/// A thread of its own reads, so that waiting has a bound. It ends with the program, or when nobody listens.
fn read_ahead(mut outside: File) -> Receiver<Vec<u8>> {
    let (tell, written) = sync_channel(PIECES);
    std::thread::spawn(move || {
        let mut piece = [0; PIECE];
        // The end of a terminal is an error: nobody is on its inside any more.
        while let Ok(count @ 1..) = outside.read(&mut piece) {
            if tell.send(piece[..count].to_vec()).is_err() {
                return;
            }
        }
    });
    written
}
