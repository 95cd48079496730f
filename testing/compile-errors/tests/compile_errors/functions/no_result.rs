//! Functions whose return type is no `Result` behind its name.

#![allow(unused)]

use outlast::prelude::*;

type Answer = u64;

#[job]
async fn count(number: u64) -> Answer {
    number
}

#[workflow]
async fn order(flow: Flow, number: u64) -> Answer {
    number
}

fn main() {}
