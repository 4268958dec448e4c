//! Tests of `graph!` in an editor with rust-analyzer, whose path `scripts/peers.sh editors` sets in `HIER_TEST_RUST_ANALYZER`.
//! One test, since opening the crate takes half a minute.

use hier_editors::{Editor, Place};

const DESK: &str = include_str!("desk.txt");

/// The line of `classify`.
const FUNCTION: &str = "async fn classify(filing: &Filing) -> FilingUpdate {";

#[test]
#[ignore = "needs rust-analyzer: run ./scripts/peers.sh editors"]
fn editor_completes_and_hovers_in_graph() {
    let program =
        std::env::var("HIER_TEST_RUST_ANALYZER").expect("rust-analyzer: run it with `scripts/peers.sh editors`");
    let mut editor = Editor::open(&program, DESK);
    goes_to_definitions(&mut editor);
    shows_cards(&mut editor);
    renames(&mut editor);
    completes_nodes(&mut editor);
    completes_words(&mut editor);
    completes_names_of_the_user(&mut editor);
}

fn goes_to_definitions(editor: &mut Editor) {
    let mut lines = |at: &str| -> Vec<String> {
        let places = editor.at(at).definitions();
        assert!(places.iter().all(|Place { file, .. }| file == "main.rs"), "{at}: {places:?}");
        places.into_iter().map(|place| place.line).collect()
    };
    // Every mention of a node is its function, and nothing else.
    for at in ["START >> clas|sify", "other >> clas|sify,"] {
        assert_eq!(lines(at), [FUNCTION], "{at}");
    }
    // The declaration of a node is also its target for commands.
    assert_eq!(lines("nodes: [clas|sify"), [FUNCTION, "nodes: [classify { retry: 3 }, other = store],"]);
    // A node of another name leads to where it got that.
    for at in ["=> oth|er,", "oth|er >> classify,", "[oth|er]"] {
        assert_eq!(lines(at), ["nodes: [classify { retry: 3 }, other = store],"], "{at}");
    }
    assert_eq!(lines("other = st|ore"), ["async fn store() -> FilingUpdate {"]);
    assert_eq!(lines("match ver|dict"), ["fn verdict(filing: &Filing) -> Verdict {"]);
    assert_eq!(lines("[Revi|ew {"), ["pub Review<Filing> = Graph {"]);
    assert_eq!(lines("[loo|kup]"), ["async fn lookup(year: u32) -> u32 {"]);
}

fn shows_cards(editor: &mut Editor) {
    for at in ["START >> clas|sify", "other >> clas|sify,"] {
        let card = editor.at(at).hover();
        assert!(card.contains("async fn classify") && card.contains("Reads the papers."), "{at}: {card}");
        assert!(!card.contains("hier_core::graph"), "{at}: {card}");
    }
    for (at, said) in [
        ("int|errupt_before", "Nodes before which a run stops"),
        ("re|try: 3", "The attempts of the node"),
        ("merge|_fields", "The channels that the supervisor receives"),
        ("Filing> = Ag|ent", "An agent that answers"),
    ] {
        let card = editor.at(at).hover();
        assert!(card.contains(said), "{at}: {card}");
    }
}

fn renames(editor: &mut Editor) {
    let renamed = DESK.replace("classify", "sort_papers");
    for at in ["fn clas|sify", "START >> clas|sify", "other >> clas|sify,"] {
        assert_eq!(editor.at(at).renamed("sort_papers"), renamed, "{at}");
    }
    let renamed = DESK.replace("other", "kept");
    assert_eq!(editor.at("oth|er >> classify,").renamed("kept"), renamed);
}

/// Calls that are being written, most of which do not parse.
fn completes_nodes(editor: &mut Editor) {
    let nodes = ["END", "START", "classify", "other"];
    for (piece, with) in [
        ("other >> classify,", "other >> cla|,"),
        ("other >> classify,", "other >> |"),
        ("other >> classify,", "oth|"),
        ("other >> classify,", "[classify, |] >> other,"),
        ("Verdict::Redo => other", "Verdict::Redo => |"),
        ("interrupt_before: [other]", "interrupt_before: [o|"),
        ("retry: 3", "goto: [cl|]"),
    ] {
        let mut found = editor.typed(piece, with).completions();
        found.sort_unstable();
        assert_eq!(found, nodes, "{with}");
    }
}

/// The words of the macro: kinds, fields, options.
fn completes_words(editor: &mut Editor) {
    let node = ["cache", "checkpoints", "defer", "goto", "idle_timeout", "on_error", "retry", "timeout", "writes"];
    let graph = ["description", "input", "name", "output", "policy"];
    let policy = ["clear_messages", "discard_fields", "max_iterations", "preserve_chat_with_operator"];
    let agent = ["answer", "layers", "max_iterations", "model", "options", "tool_errors"];
    for (piece, with, offered) in [
        ("retry: 3", "re|", &node[..]),
        ("retry: 3", "|", &node),
        ("interrupt_before: [other],", "inp|", &graph),
        ("interrupt_before: [other],", "|", &graph),
        ("merge_fields: [title], max_iterations: 3", "ma|", &policy),
        ("tools: [lookup],", "ans|", &agent),
        ("tools: [lookup],", "|", &agent),
        (
            "pub Review<Filing> = Graph {",
            "pub Review<Filing> = Gr| {",
            &["Agent", "Graph", "ReactGraph", "SimpleGraph", "TodoGraph"],
        ),
        ("retry: 3", "checkpoints: per|", &["per_call", "per_thread", "none"]),
        ("retry: 3", "retry: Retry { at| }", &["attempts", "interval", "factor", "cap", "jitter"]),
    ] {
        let found = editor.typed(piece, with).completions();
        for word in offered {
            assert!(found.iter().any(|found| found == word), "{with}: no {word} in {found:?}");
        }
        assert!(found.len() < 30, "{with}: {found:?}");
    }
    // Existing words are not offered again.
    let found = editor.typed("retry: 3", "retry: 3, t|").completions();
    assert!(!found.contains(&"retry".to_owned()) && found.contains(&"timeout".to_owned()), "{found:?}");
}

/// Channels, functions, variants, types.
fn completes_names_of_the_user(editor: &mut Editor) {
    for (piece, with, offered) in [
        ("retry: 3", "writes: [inc|]", &["title", "income", "messages"][..]),
        ("merge_fields: [title]", "merge_fields: [|]", &["title", "income"]),
        ("tools: [lookup],", "answer: ti|", &["title"]),
        ("nodes: [classify { retry: 3 }", "nodes: [cla|", &["classify", "store"]),
        ("match verdict {", "match ver| {", &["verdict"]),
        ("match verdict {", "match state.ti| {", &["title", "income"]),
        ("Verdict::Redo => other", "Verdict::Re|", &["Accept", "Redo"]),
        ("tools: [lookup]", "tools: [loo|]", &["lookup"]),
        ("subagents: [Review {", "subagents: [Rev| {", &["Review"]),
    ] {
        let found = editor.typed(piece, with).completions();
        for word in offered {
            assert!(
                found.iter().any(|found| found == word || found.starts_with(&format!("{word}("))),
                "{with}: no {word} in {found:?}"
            );
        }
    }
}
