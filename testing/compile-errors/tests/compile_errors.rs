//! The compiler's messages about invalid machines. They are part of the interface.
//!
//! After a change of the toolchain, `TRYBUILD=overwrite cargo test -p outlast-compile-errors`
//! writes the new messages. Read the difference before you commit it.

#[test]
fn the_compiler_rejects_invalid_machines_with_the_reason() {
    trybuild::TestCases::new().compile_fail("tests/compile_errors/**/*.rs");
}
