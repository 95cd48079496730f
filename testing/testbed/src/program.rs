//! Programs that run as an unprivileged user: PostgreSQL and PgBouncer refuse root.

use std::fs;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// The user that runs a program, when this process runs as root.
#[derive(Clone, Copy)]
pub struct Account {
    uid: u32,
    gid: u32,
}

impl Account {
    /// Returns `None` unless this process runs as root.
    pub fn needed() -> Option<Account> {
        if !is_root() {
            return None;
        }
        let accounts = fs::read_to_string("/etc/passwd").expect("the accounts can be read");
        ["postgres", "nobody"]
            .iter()
            .find_map(|name| Account::named(&accounts, name))
    }

    fn named(accounts: &str, name: &str) -> Option<Account> {
        let line = accounts
            .lines()
            .find(|line| line.split(':').next() == Some(name))?;
        let mut fields = line.split(':').skip(2);
        Some(Account {
            uid: fields.next()?.parse().ok()?,
            gid: fields.next()?.parse().ok()?,
        })
    }
}

/// Returns whether this process runs as root.
pub fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    fs::metadata("/proc/self").is_ok_and(|it| it.uid() == 0)
}

/// Creates a folder of the account, removed when the value is dropped.
pub fn folder(account: Option<Account>) -> TempDir {
    let folder = tempfile::Builder::new()
        .prefix("outlast-test-")
        .tempdir()
        .expect("a temporary folder can be made");
    give(folder.path(), account);
    folder
}

/// Changes the owner of a path to the account.
pub fn give(path: &Path, account: Option<Account>) {
    if let Some(Account { uid, gid }) = account {
        chown(path, Some(uid), Some(gid)).expect("the owner of a folder can be changed");
    }
}

/// Returns a command of the account, in `folder`.
pub fn command(program: &Path, folder: &Path, account: Option<Account>) -> Command {
    let mut command = Command::new(program);
    command.current_dir(folder).env("LC_ALL", "C");
    if let Some(Account { uid, gid }) = account {
        command.uid(uid).gid(gid);
    }
    command
}

/// Runs a command, which must succeed.
pub fn run(command: &mut Command) -> Output {
    let output = command.output().expect("the program can be started");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?} failed: {errors}");
    output
}

/// Returns the first folder that contains the program.
pub fn find(program: &str, folders: impl IntoIterator<Item = PathBuf>) -> Option<PathBuf> {
    folders
        .into_iter()
        .map(|folder| folder.join(program))
        .find(|path| path.is_file())
}

/// Returns the folders in which to look for programs.
pub fn folders_of_path() -> Vec<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).collect()
}

/// Returns a port below the ephemeral range of Linux. Only listening on it shows whether it is
/// free.
pub fn some_port() -> u16 {
    use std::hash::{BuildHasher, RandomState};
    let random = RandomState::new().hash_one(std::process::id());
    20_000 + (random % 12_000) as u16
}

/// Polls until the answer is true, for at most half a minute: for the progress of another process.
pub async fn eventually<F: Future<Output = bool>>(what: &str, mut ask: impl FnMut() -> F) {
    let begun = Instant::now();
    while !ask().await {
        assert!(begun.elapsed() < Duration::from_secs(30), "never: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
