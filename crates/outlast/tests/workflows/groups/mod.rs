//! Several calls at a time: groups, selects and combinators.

mod all;
mod changed_code;
mod combinators;
mod concurrent_waits;
mod mixed;
mod random_shapes;
mod select;
