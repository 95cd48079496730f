//! A signal that cannot be stored.

#![allow(unused)]

use outlast::prelude::*;

#[derive(Signal)]
struct Paid {
    amount: u64,
}

fn main() {}
