//! Something that is no machine, started as if it were.

use outlast::prelude::*;

struct Invoice;

fn main() {
    let _ = New::<Invoice>(42);
}
