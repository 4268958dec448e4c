//! What must not compile: a folder a rule, each with programs that must fail, with the message. Beside them stand the nearest
//! programs that must compile: see `accepted.rs`.

#[test]
fn programs_are_refused_with_their_messages() {
    // Where none must pass, trybuild compiles all of them at once.
    trybuild::TestCases::new().compile_fail("*/**/fail_*.rs");
}
