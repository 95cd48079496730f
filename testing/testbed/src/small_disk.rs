//! A small file system that a test fills up under a server and frees again.

use crate::program::{self, Account, is_root};
use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// A file system in memory, unmounted when the value is dropped. Its users must be dropped before.
pub struct SmallDisk {
    folder: TempDir,
}

impl SmallDisk {
    /// Mounts this many MiB, in a folder of the account of the servers. Returns `None`, with a
    /// message, if mounting is not possible.
    pub fn mount(mebibytes: u32) -> Option<SmallDisk> {
        let account = Account::needed();
        let folder = program::folder(account);
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &format!("size={mebibytes}m"), "tmpfs"]);
        mount.arg(folder.path());
        let mounted = is_root().then(|| mount.output());
        match mounted {
            Some(Ok(mounted)) if mounted.status.success() => {
                program::give(folder.path(), account);
                Some(SmallDisk { folder })
            }
            None | Some(_) => {
                eprintln!("skipped: a small file system cannot be mounted here; root can do it");
                None
            }
        }
    }

    /// Returns its path.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Returns the number of free bytes.
    pub fn available(&self) -> u64 {
        let room = rustix::fs::statvfs(self.path()).expect("the file system is mounted");
        room.f_bavail * room.f_frsize
    }

    /// Fills the disk except for this many bytes, in whole pages. Blocks.
    pub fn fill(&self, leave_bytes: u64) {
        const STEP: u64 = 64 << 10;
        let mut ballast = OpenOptions::new();
        let mut ballast = ballast
            .append(true)
            .create(true)
            .open(self.ballast())
            .expect("a file can be made");
        loop {
            let too_much = self.available().saturating_sub(leave_bytes).min(STEP);
            if too_much == 0 {
                return;
            }
            match ballast.write_all(&vec![1; too_much as usize]) {
                Ok(()) => {}
                // Another writer was faster.
                Err(error) if error.kind() == ErrorKind::StorageFull => return,
                Err(error) => panic!("the disk cannot be filled: {error}"),
            }
        }
    }

    /// Frees the filled space.
    pub fn free(&self) {
        if let Err(error) = fs::remove_file(self.ballast()) {
            assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
        }
    }

    fn ballast(&self) -> PathBuf {
        self.path().join("ballast")
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Lazily: another process may still have its files open.
        let mut unmount = Command::new("umount");
        let _ = unmount.arg("--lazy").arg(self.path()).output();
    }
}
