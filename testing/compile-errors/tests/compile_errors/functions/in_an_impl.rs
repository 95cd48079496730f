//! A job inside of an `impl`.

#![allow(unused)]

use outlast::JobError;
use outlast::prelude::*;

struct Mails;

impl Mails {
    #[job]
    async fn send(to: String) -> Result<(), JobError> {
        Ok(())
    }
}

fn main() {}
