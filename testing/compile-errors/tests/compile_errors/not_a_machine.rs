//! A type that is not a machine, started as one.

use outlast::prelude::*;

struct Invoice;

fn main() {
    let _ = Invoice::with(42);
}
