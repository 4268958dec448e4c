//! The checks that generated code leaves to the compiler.

use crate::crate_path::Hier;

fn code(call: &str) -> String {
    super::super::expand(call.parse().unwrap(), &Hier::known("hier")).to_string()
}

/// The channels that the generated code checks with this function, in order.
fn checked(code: &str, check: &str) -> Vec<String> {
    let before = format!("{check} (& < ");
    let calls = code.split(&before).skip(1);
    let channels = calls.filter_map(|call| call.split("channels () . ").nth(1)?.split([' ', ')']).next());
    channels.map(str::to_owned).collect()
}

#[test]
fn channels_with_two_writers_in_a_step_need_a_reducer() {
    let graph = |edges: &str| {
        code(&format!("G<S> = Graph {{ nodes: [a {{ writes: [x, y] }}, b {{ writes: [z, y] }}], edges: [{edges}] }}"))
    };
    let together = graph("START >> [a, b], a >> END, b >> END");
    assert_eq!(checked(&together, "needs_reducer"), ["y", "y"], "{together}");
    assert_eq!(checked(&together, "writable"), ["x", "y", "z", "y"]);
    assert!(checked(&graph("START >> a >> b >> END"), "needs_reducer").is_empty());
}

#[test]
fn an_agent_with_a_mistake_is_not_checked_again_by_the_compiler() {
    let agent = |subagents: &str| code(&format!("G<S> = Agent {{ subagents: [{subagents}] }}"));
    assert!(agent("A, B").contains("check_needs"));
    assert!(!agent("A, A").contains("check_needs"));
}
