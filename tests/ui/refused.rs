//! Programs that must not compile: a folder for each rule, with programs that must fail and their messages. Next to them are the nearest
//! programs that must compile: see `accepted.rs`.

#[test]
fn programs_are_refused_with_their_messages() {
    // Without a program that must pass, trybuild compiles all of them at once.
    trybuild::TestCases::new().compile_fail("*/**/fail_*.rs");
}
