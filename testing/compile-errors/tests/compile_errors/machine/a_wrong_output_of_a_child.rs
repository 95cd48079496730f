//! A child whose output is read as another type.

use outlast::prelude::*;
use outlast::{Job, JobError};

struct Line;

impl Job for Line {
    const NAME: &'static str = "line";
    type Args = u32;
    type Output = u32;

    async fn perform(&self, pieces: u32, _cx: &Context) -> Result<u32, JobError> {
        Ok(pieces)
    }
}

struct Checkout;

#[steps]
enum Order {
    Start,
    Join,
}

impl Machine for Checkout {
    const NAME: &'static str = "checkout";
    type State = Order;
    type Output = String;

    async fn step(&self, state: Order, cx: &Context) -> StepResult<Self> {
        match state {
            Order::Start => fan_out([Line::with(3)]).then(Order::Join),
            Order::Join => {
                let mut names: Vec<String> = Vec::new();
                for child in cx.children::<Line>()? {
                    names.push(child.into_output()?);
                }
                done(names.join(", "))
            }
        }
    }
}

fn main() {}
