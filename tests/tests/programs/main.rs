//! Four programs that the docs of LangGraph have in Python, as one writes them here. Each has a limit: 1.2 times the lines of
//! the original, without blanks and comments (plan-and-execute 63, supervisor 29, map-reduce 31, support bot 50).

mod map_reduce;
mod plan_and_execute;
mod supervisor;
mod support_bot;

#[test]
fn programs_are_as_short_as_the_originals() {
    let lines = |program: &str| {
        program.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with("//")).count()
    };
    for (name, program, original) in [
        ("plan-and-execute", include_str!("plan_and_execute.rs"), 63),
        ("supervisor", include_str!("supervisor.rs"), 29),
        ("map-reduce", include_str!("map_reduce.rs"), 31),
        ("support bot", include_str!("support_bot.rs"), 50),
    ] {
        let (here, limit) = (lines(program), original * 6 / 5);
        println!("{name}: {here} lines, in Python {original}");
        assert!(here <= limit, "{name} has {here} lines, and may have {limit}");
    }
}
