//! A type that is nothing, started as a machine.

use outlast::prelude::*;

struct Invoice;

fn main() {
    let _ = Invoice::with(42);
}
