//! A file system of its own with little room, to be filled up under a server and made free again.

use crate::program::{self, Account, is_root};
use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// A file system in memory, unmounted with the value. Whatever works in it must go before.
pub struct SmallDisk {
    folder: TempDir,
}

impl SmallDisk {
    /// So many MiB, in a folder of the account that servers run as. `None`, with a word, where nothing can be
    /// mounted.
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
                eprintln!("skipped: a small file system cannot be mounted here, which root may");
                None
            }
        }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// How many bytes may still be written.
    pub fn available(&self) -> u64 {
        let room = rustix::fs::statvfs(self.path()).expect("the file system is there");
        room.f_bavail * room.f_frsize
    }

    /// Takes all the room but so many bytes, in whole pages. Blocks.
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
                // Whoever else writes was faster.
                Err(error) if error.kind() == ErrorKind::StorageFull => return,
                Err(error) => panic!("the disk cannot be filled: {error}"),
            }
        }
    }

    /// Gives the room back that was taken.
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
        // Lazily: somebody may still hold files of it.
        let mut unmount = Command::new("umount");
        let _ = unmount.arg("--lazy").arg(self.path()).output();
    }
}
