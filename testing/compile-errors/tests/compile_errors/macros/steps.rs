//! What `#[steps]` reports.

#![allow(unused)]

use outlast::prelude::*;

#[steps]
struct OnAStruct {
    number: u64,
}

#[steps]
fn on_a_function() {}

#[steps(tag = "kind")]
enum WithSettings {
    Start,
}

#[steps]
enum WithoutSteps {}

#[steps]
#[derive(Debug, Serialize, Deserialize)]
enum WithDerives {
    Start,
}

#[steps]
#[serde(tag = "type")]
enum WithSerde {
    Start,
}

#[steps]
enum Borrowed<'a> {
    Start { note: &'a str },
}

#[steps]
enum Nameless {
    Start,
    #[serde(skip)]
    Pay,
    #[serde(untagged)]
    Ship,
    #[serde(other)]
    Other,
}

#[derive(Serialize, Deserialize)]
#[steps]
enum DerivesBefore {
    Start,
}

fn main() {}
