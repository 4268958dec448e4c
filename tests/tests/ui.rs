//! What the compiler catches: a folder a rule in `ui/`, each with programs that must fail, with the message, and beside
//! them the nearest programs that must pass.

#[test]
fn the_compiler_catches_what_it_promises() {
    let cases = trybuild::TestCases::new();
    cases.compile_fail("ui/**/fail_*.rs");
    cases.pass("ui/**/ok_*.rs");
}
