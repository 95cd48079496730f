//! The memory of `serve` while many callers make the largest allowed requests.

use crate::demonstrating::Serving;
use crate::support::{Site, on_both_databases};
use outlast::InstanceId;
use outlast::store::{Json, NewInstance, NewSignal, Target};
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

const READERS: usize = 64;
const STATES: usize = 200;
const SIGNALS: usize = 20;
const MEMORY_MAX_MB: u64 = 200;
/// How long each caller repeats its requests.
const TIME: Duration = Duration::from_secs(20);

on_both_databases!(many_readers_of_large_states_take_little_memory,);

async fn many_readers_of_large_states_take_little_memory(site: &Site) {
    fill(site).await;
    let serving = Serving::start(site.command(["serve", "--port", "0"]));
    let before = peak_mb(serving.id());
    let id = newest(site);
    let paths = [
        "/v1/instances?limit=200".to_owned(),
        "/v1/instances?limit=200&full=true".to_owned(),
        format!("/v1/instances/{id}"),
        format!("/v1/instances/{id}/signals"),
        format!("/v1/instances/{id}/wait?timeout_ms=10"),
        "/v1/events?limit=200".to_owned(),
    ];
    std::thread::scope(|scope| {
        for reader in 0..READERS {
            let path = &paths[reader % paths.len()];
            let address = serving.address();
            // Every fourth caller does not read its answers.
            scope.spawn(move || read_again_and_again(address, path, reader % 4 != 3));
        }
    });
    let peak = peak_mb(serving.id());
    assert!(
        peak < MEMORY_MAX_MB,
        "serve took {peak} MB, and {before} MB before the requests"
    );
    let (status, _) = serving.get_of("localhost", "/healthz");
    assert_eq!(status, 200);
    serving.stop();
}

/// Inserts states of 1 MiB, and sends signals of the same size to the newest instance.
async fn fill(site: &Site) {
    let client = site.engine().await;
    let value = Json::of(&"x".repeat(1024 * 1024 - 2)).unwrap();
    for _ in 0..STATES {
        let row = NewInstance::new("m", "s", value.clone());
        client.admin().insert_rows(vec![row]).await.unwrap();
    }
    let id = newest(site).parse().map(InstanceId).unwrap();
    for _ in 0..SIGNALS {
        let signal = NewSignal::new(Target::Id(id), "s", value.clone());
        client.admin().signal_rows(vec![signal]).await.unwrap();
    }
    client.stop().await;
}

fn newest(site: &Site) -> String {
    site.run(["list", "-n", "1", "-o", "ids"]).succeeds().line()
}

fn read_again_and_again(address: &str, path: &str, reads: bool) {
    let begun = Instant::now();
    while begun.elapsed() < TIME {
        let Ok(mut stream) = TcpStream::connect(address) else {
            continue;
        };
        let second = Some(Duration::from_secs(1));
        let _ = stream.set_read_timeout(second);
        let _ = stream.set_write_timeout(second);
        let head = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n");
        if stream.write_all(head.repeat(20).as_bytes()).is_err() {
            continue;
        }
        if !reads {
            std::thread::sleep(Duration::from_secs(1));
            continue;
        }
        let mut buffer = vec![0; 256 * 1024];
        while begun.elapsed() < TIME && stream.read(&mut buffer).is_ok_and(|read| read > 0) {}
    }
}

/// Returns the peak memory of a process.
fn peak_mb(process: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    let words: Vec<&str> = line.unwrap().split_whitespace().collect();
    words[1].parse::<u64>().unwrap() / 1024
}
