//! A small disk fills up under a server. The server reports it, and works again after the disk has
//! room.

#![allow(clippy::unwrap_used, reason = "an unexpected error fails the test")]

use outlast_testbed::cluster::Cluster;
use outlast_testbed::small_disk::SmallDisk;

#[test]
fn a_small_disk_is_filled_and_freed_and_unmounted_when_dropped() {
    let Some(disk) = SmallDisk::mount(8) else {
        return;
    };
    let empty = disk.available();
    assert!(empty > 7 << 20 && empty <= 8 << 20, "{empty}");
    disk.fill(1 << 20);
    assert_eq!(disk.available(), 1 << 20);
    disk.fill(0);
    assert_eq!(disk.available(), 0);
    std::fs::write(disk.path().join("more"), [1]).unwrap_err();
    disk.free();
    assert_eq!(disk.available(), empty);
    disk.free();
    let path = disk.path().to_owned();
    drop(disk);
    assert!(!path.exists());
    let mounts = std::fs::read_to_string("/proc/mounts").unwrap();
    assert!(!mounts.contains(path.to_str().unwrap()));
}

#[test]
fn a_server_on_a_full_disk_fails_and_recovers_when_there_is_room() {
    let Some(disk) = SmallDisk::mount(160) else {
        return;
    };
    let Some(mut cluster) = Cluster::durable_in(disk.path()) else {
        return;
    };
    cluster.configure("min_wal_size = 32MB\nmax_wal_size = 48MB");
    cluster.start();
    cluster
        .ask("postgres", "create table kept (t text)")
        .unwrap();
    disk.fill(1 << 20);
    let write = "insert into kept select repeat('x', 1000) from generate_series(1, 40000)";
    let error = cluster.ask("postgres", write).unwrap_err();
    let errors = error.to_string() + &cluster.log();
    assert!(errors.contains("No space left on device"), "{errors}");
    disk.free();
    if cluster.process().is_none() {
        // A server without room for its log ends, and does not restart by itself.
        cluster.start();
    }
    cluster.wait_ready();
    cluster.ask("postgres", write).unwrap();
    drop(cluster);
}
