//! What the compiler says about machines that cannot be: its words are part of the interface.
//!
//! After a change of the toolchain, `TRYBUILD=overwrite cargo test -p outlast-compile-errors` writes what it
//! says now; read the difference before committing it.

#[test]
fn machines_that_cannot_be_are_refused_by_the_compiler_with_the_reason() {
    trybuild::TestCases::new().compile_fail("tests/compile_errors/*.rs");
}
