//! What `#[derive(Signal)]` reports.

#![allow(unused)]

use outlast::prelude::*;

#[derive(Signal, Serialize, Deserialize)]
struct Generic<T>(T);

#[derive(Signal, Serialize)]
struct Borrowed<'a>(&'a str);

#[derive(Signal, Serialize, Deserialize)]
#[signal(nmae = "paid")]
struct Misspelt;

#[derive(Signal, Serialize, Deserialize)]
#[signal(name = paid)]
struct Unquoted;

#[derive(Signal, Serialize, Deserialize)]
#[signal("paid")]
struct OnlyText;

#[derive(Signal, Serialize, Deserialize)]
#[signal = "paid"]
struct Assigned;

#[derive(Signal, Serialize, Deserialize)]
#[signal]
struct Bare;

#[derive(Signal, Serialize, Deserialize)]
#[signal(name)]
struct Valueless;

#[derive(Signal, Serialize, Deserialize)]
#[signal(name = "")]
struct Empty;

#[derive(Signal, Serialize, Deserialize)]
#[signal(name = "paid")]
#[signal(name = "refunded")]
struct Twice;

#[derive(Signal, Serialize, Deserialize)]
#[signal(name = "paid", version = 2)]
struct More;

#[derive(Signal)]
union Union {
    number: u64,
}

// Each with a wrong name is a signal all the same, so that no other errors follow.
fn main() {
    let _ = wait_for::<(Misspelt, Unquoted)>();
}
