//! The project's English: the doc comments, pages and error texts of the workspace keep the rules of `language.rs`.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use hier_layers::language::{Finding, Kind, Text, of_page, of_source};

/// Texts that break a rule for a reason. At most twenty.
const EXCEPTIONS: &[(&str, &str, &str)] =
    &[("hier-agents/src/agent_error.rs", "Agent raised exception", "follows langgraph-hierarchies")];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("the folder of the workspace")
}

/// All files below a folder with this extension, except build results.
fn files(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let entries = folder.read_dir().unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut found = Vec::new();
    for path in entries.map(|entry| entry.expect("an entry").path()) {
        if path.is_dir() && !path.ends_with("target") {
            found.extend(files(&path, extension));
        } else if path.extension().is_some_and(|it| it == extension) {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// All texts of the workspace that break a rule, read once for all tests.
static FINDINGS: LazyLock<Vec<Finding>> = LazyLock::new(findings);

fn findings() -> Vec<Finding> {
    let mut found = Vec::new();
    let read = |path: &Path| {
        let name = path.strip_prefix(root()).expect("a file of the workspace").display().to_string();
        (name, std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display())))
    };
    let crates = root().read_dir().expect("the workspace").map(|entry| entry.expect("an entry").path().join("src"));
    // Files of unit tests are not read by users.
    let is_test =
        |path: &Path| path.components().any(|part| ["tests", "tests.rs"].iter().any(|it| part.as_os_str() == *it));
    let sources = crates.filter(|source| source.is_dir() && !source.ends_with("tests/src"));
    for path in sources
        .flat_map(|source| files(&source, "rs"))
        .filter(|path| !is_test(path.strip_prefix(root()).unwrap_or(path)))
    {
        let (name, text) = read(&path);
        found.extend(of_source(&name, &text).iter().flat_map(Text::check));
    }
    let pages = root().read_dir().expect("the workspace").map(|entry| entry.expect("an entry").path());
    let pages = pages.filter(|path| path.extension().is_some_and(|it| it == "md"));
    for path in pages.chain(files(&root().join("docs"), "md")) {
        let (name, text) = read(&path);
        let (texts, wide) = of_page(&name, &text);
        found.extend(texts.iter().flat_map(Text::check).chain(wide));
    }
    found
}

#[test]
fn every_text_follows_the_rules() {
    let is_exception =
        |it: &Finding| EXCEPTIONS.iter().any(|(file, words, _)| it.file == *file && it.words.contains(words));
    let lines: Vec<_> = FINDINGS.iter().filter(|it| !is_exception(it)).map(ToString::to_string).collect();
    assert!(lines.is_empty(), "{} texts break a rule of tests/layers/language.rs:\n{}", lines.len(), lines.join("\n"));
}

#[test]
fn every_exception_is_used_and_there_are_at_most_twenty() {
    for (file, words, reason) in EXCEPTIONS {
        assert!(
            FINDINGS.iter().any(|it| it.file == *file && it.words.contains(words)),
            "unused: {file}: {words} ({reason})"
        );
    }
    assert!(EXCEPTIONS.len() <= 20);
}

fn check(kind: Kind, prose: &str) -> Vec<&'static str> {
    let text = Text { file: String::new(), line: 1, kind, prose: prose.to_owned() };
    text.check().into_iter().map(|found| found.advice).collect()
}

/// Sentences that stood in the project and had to be read twice.
const UNREADABLE: &[&str] = &[
    "With `--features models` before `--example`, and `--model openai:gpt-4o`, a real model decides; without, a scripted one.",
    "By hand (a program that is whole is in [a first graph]; the graph of this one is the [hierarchy] below):",
    "the same; equal are inputs of which the function says equal things.",
    "What Postgres is asked ends: a statement that has no answer within 30 seconds closes its connection",
    "It needs no runtime beside it, and where it keeps its threads, a file or a Postgres.",
    "Whether it lives is asked at `/ok`, whether its database answers at `/ok?check_db=true`.",
    "Of several answers at once all must be equal; one that comes with other calls is not taken",
    "takes one away: one of another type than the node that reads it wants fails each run that comes to it.",
    "Past these machines. What a load needs that nobody here has:",
    "The way of events from a run to who listens: bounded, and never in the way of the run.",
    "Whether it is no failure: the task asks something. Who catches errors passes it on.",
    "How full the context is says the provider, with its last answer; only what came since is estimated.",
    "An agent's model gave no answer that could be used: what a run fails with whose root is such an agent.",
    "Of events that could not be stored it is told later that they are missing.",
    "Where the engine keeps conversations from run to run, if it may. Who has one implements `get_changed`.",
    "Lets it wait. Whether nobody sends, and the caller has to see to it.",
    "A peer that accepts and says nothing is none.",
    "How often it looks for runs, if nobody tells it; 1 second unless given.",
    "What code that runs when a graph is entered or left returns: what a node may return, or a future of it.",
    "or why what is stored of that cannot be read: then the attempt has failed. None if somebody else was faster.",
    "A key that is none.",
    "`{name}` is no header of webhooks: its name or its value has characters that none has",
    "an event is no JSON and was dropped",
    "A server that is killed around the time of a cron, or while it tells a webhook, is a test.",
    "runs that cannot be are named, as is one of which it is not known whether it was added.",
];

/// The same facts in sentences that can be read.
const READABLE: &[&str] = &[
    "To use a real model, add `--features models` and pass `--model PROVIDER:NAME` or a server URL.",
    "Or add hier to an existing project. For a complete program see [A first graph](docs/first-graph.md).",
    "As above, but inputs are equal if the key function returns equal values.",
    "Every Postgres call is bounded. If a statement exceeds `statement_timeout`, its connection is closed.",
    "Liveness: `GET /ok`. Readiness, including the database: `GET /ok?check_db=true`.",
    "If the model returns several answers, they must be identical.",
    "Delivers run events through a bounded queue. A slow consumer loses the oldest events and never blocks the run.",
    "Returns true for control flow: an interrupt, a mistyped answer, a storage error.",
    "Enqueues an item. Returns true if the caller must start the sender. There is no limit.",
    "Defaults to 1 second. What does it cost?",
    "invalid webhook header `{name}`: the name or value contains characters that HTTP headers do not allow",
];

#[test]
fn sentences_that_had_to_be_read_twice_are_found() {
    assert_eq!(UNREADABLE.len(), 25);
    for sentence in UNREADABLE {
        assert!(!check(Kind::Doc, sentence).is_empty(), "not found: {sentence}");
    }
    for sentence in READABLE {
        assert_eq!(check(Kind::Doc, sentence), Vec::<&str>::new(), "{sentence}");
    }
}

#[test]
fn rules_of_a_kind_apply_to_that_kind() {
    let long = format!("A {}.", "word ".repeat(41));
    assert_eq!(check(Kind::Page, &long), ["write sentences of at most 40 words"]);
    assert_eq!(check(Kind::Message, &long), Vec::<&str>::new());
    let private = Kind::PrivateDoc { item: "RunStore".to_owned() };
    assert_eq!(check(private.clone(), "The store of a run."), ["delete a doc that repeats the name"]);
    assert_eq!(check(private, "The store of a run, shared by its tasks."), Vec::<&str>::new());
    assert_eq!(check(Kind::Error, "The thread is busy"), ["begin an error in lower case"]);
    assert_eq!(check(Kind::Error, "no such thread."), ["end an error without a full stop"]);
    assert_eq!(check(Kind::Error, "MCP server `{name}` ended"), Vec::<&str>::new());
}

#[test]
fn docs_and_messages_of_a_source_are_read() {
    let source = "//! What it is.\n//! More of it.\n\n/// Told.\npub struct Told {\n    /// The name.\n    name: String,\n}\n\
                  #[cfg(test)]\nmod tests {\n    /// Somebody.\n    fn f() {}\n}\n\
                  fn g() { warn!(\"somebody has told \\\n   it\"); }\n#[error(\"Bad.\")] struct E;";
    let texts = of_source("a.rs", source);
    let kinds: Vec<_> = texts.iter().map(|text| (text.line, &text.kind, text.prose.as_str())).collect();
    let name = Kind::PrivateDoc { item: "name".to_owned() };
    let expected = [
        (1, &Kind::Doc, "What it is.\nMore of it."),
        (4, &Kind::Doc, "Told."),
        (6, &name, "The name."),
        (14, &Kind::Message, "somebody has told it"),
        (16, &Kind::Error, "Bad."),
    ];
    assert_eq!(kinds, expected);
}
