//! Threads of older programs: read, migrated, or refused with the mismatch and its fix.

use std::sync::Arc;

use hier_core::checkpoint::MemorySaver;
use hier_core::prelude::*;
use hier_core::{Durability, Result};
use serde_json::{Map, Value};

use super::faulty::Faulty;
use super::golden;

/// The program that has stored the golden files.
pub(crate) mod v1 {
    use super::*;

    #[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
    pub(crate) struct Case {
        title: String,
        draft: u64,
        #[reducer(append)]
        findings: Vec<String>,
        #[reducer(sum)]
        total: u64,
    }

    graph! {
        pub(crate) Review<Case> = Graph {
            name: "review",
            nodes: [collect, check, ask, beside, publish],
            edges: [
                START >> collect >> for item in items { check(item) },
                collect >> [ask, beside],
                check >> END,
                [ask, beside] >> publish >> END,
            ],
        }
    }

    async fn collect() -> CaseUpdate {
        Case::update().title("a title".to_owned()).draft(3_u64).findings(["collected".to_owned()]).total(1)
    }

    async fn check(Sent(item): Sent<u64>) -> CaseUpdate {
        Case::update().total(item)
    }

    async fn ask(run: &Run) -> Result<CaseUpdate> {
        let answer: String = run.interrupt(&"publish?").await?;
        Ok(Case::update().findings([answer]))
    }

    async fn beside() -> CaseUpdate {
        Case::update().findings(["beside".to_owned()])
    }

    async fn publish(state: &Case) -> CaseUpdate {
        Case::update().findings([format!("published {} with {}", state.title, state.total)])
    }

    fn items(_: &Case) -> Vec<u64> {
        vec![20, 300]
    }

    pub(crate) fn note(text: &str) -> CaseUpdate {
        Case::update().findings([text.to_owned()])
    }

    pub(crate) fn findings(state: &Case) -> &[String] {
        &state.findings
    }
}

/// The thread of the file, before the step of `ask` was applied.
pub(crate) const OPEN: &str = "v1_open";

#[tokio::test]
async fn stored_threads_of_this_version_are_read() {
    let saver = Faulty::new(&MemorySaver::new(), usize::MAX);
    let saver = Arc::new(saver);
    let graph = v1::Review::compile().checkpointer(saver.clone());
    let begun = graph.invoke(v1::Case::update()).thread("t").durability(Durability::Sync).await.unwrap();
    assert!(matches!(begun, Outcome::Interrupted(_)), "{begun:?}");
    golden::write(OPEN, &saver);

    let graph = v1::Review::compile().checkpointer(golden::stored(OPEN).await);
    let open = graph.state("t").await.unwrap();
    assert_eq!(
        (open.next.as_slice(), v1::findings(&open.values)),
        (&["ask".to_owned()][..], &["collected", "beside"].map(str::to_owned)[..])
    );
    let end = graph.invoke(Command::resume("yes")).thread("t").await.unwrap();
    let expected = ["collected", "yes", "beside", "published a title with 321"];
    assert_eq!(v1::findings(end.state()), expected);
}

/// A state of a later version, over a graph of the same nodes; `findings` of all later versions is a list of pairs.
macro_rules! later {
    ($module:ident, $name:ident, $state:item) => {
        mod $module {
            use super::*;

            $state

            graph! {
                pub(crate) Review<Case> = Graph {
                    name: "review",
                    nodes: [collect = nothing, check, ask, beside = nothing, publish],
                    edges: [
                        START >> collect >> for item in items { check(item) },
                        collect >> [ask, beside],
                        check >> END,
                        [ask, beside] >> publish >> END,
                    ],
                }
            }

            async fn nothing() {}

            async fn check(Sent(item): Sent<u64>) -> CaseUpdate {
                Case::update().total(item)
            }

            async fn ask(run: &Run) -> Result<CaseUpdate> {
                let answer: String = run.interrupt(&"publish?").await?;
                Ok(Case::update().findings([answer]))
            }

            async fn publish(state: &Case) -> CaseUpdate {
                Case::update().findings([format!("published {} with {}", state.$name, state.total)])
            }

            fn items(_: &Case) -> Vec<u64> {
                Vec::new()
            }

            pub(crate) async fn end(saver: &MemorySaver) -> Result<Case, RunError> {
                let graph = Review::compile().checkpointer(saver.clone());
                Ok(graph.invoke(Command::resume("yes")).thread("t").await?.into_state())
            }

            pub(crate) async fn read(saver: &MemorySaver) -> Result<Case, RunError> {
                Ok(Review::compile().checkpointer(saver.clone()).state("t").await?.values)
            }
        }
    };
}

/// Version 2 calls `title` `name`, and has no `draft`.
#[allow(clippy::unnecessary_wraps)] // the form of a migration
fn from_v1(stored: &mut Map<String, Value>) -> Result<()> {
    stored.remove("draft");
    if let Some(title) = stored.remove("title") {
        stored.insert("name".to_owned(), title);
    }
    Ok(())
}

/// Version 3 has names in capitals, and counts them.
#[allow(clippy::unnecessary_wraps)] // the form of a migration
fn from_v2(stored: &mut Map<String, Value>) -> Result<()> {
    let name = stored.get("name").and_then(Value::as_str).unwrap_or_default().to_uppercase();
    stored.insert("letters".to_owned(), name.len().into());
    stored.insert("name".to_owned(), name.into());
    Ok(())
}

fn refuses(_: &mut Map<String, Value>) -> Result<()> {
    Err(NodeError::permanent("there is no way"))
}

fn invents(stored: &mut Map<String, Value>) -> Result<()> {
    from_v1(stored)?;
    stored.insert("nam".to_owned(), 1.into());
    Ok(())
}

later!(
    v2,
    name,
    #[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
    #[state(version = 2, migrate = from_v1)]
    pub(crate) struct Case {
        pub(crate) name: String,
        #[reducer(append)]
        pub(crate) findings: Vec<String>,
        #[reducer(sum)]
        pub(crate) total: u64,
    }
);
later!(
    v3,
    name,
    #[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
    #[state(version = 3, migrate = [from_v1, from_v2])]
    pub(crate) struct Case {
        pub(crate) name: String,
        pub(crate) letters: u64,
        #[reducer(append)]
        pub(crate) findings: Vec<String>,
        #[reducer(sum)]
        pub(crate) total: u64,
    }
);
later!(
    v3_from_v2,
    name,
    #[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
    #[state(version = 3, migrate = from_v2)]
    pub(crate) struct Case {
        pub(crate) name: String,
        pub(crate) letters: u64,
        #[reducer(append)]
        pub(crate) findings: Vec<String>,
        #[reducer(sum)]
        pub(crate) total: u64,
    }
);
later!(
    refusing,
    name,
    #[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
    #[state(version = 2, migrate = refuses)]
    pub(crate) struct Case {
        pub(crate) name: String,
        #[reducer(append)]
        pub(crate) findings: Vec<String>,
        #[reducer(sum)]
        pub(crate) total: u64,
    }
);
later!(
    inventing,
    name,
    #[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
    #[state(version = 2, migrate = invents)]
    pub(crate) struct Case {
        pub(crate) name: String,
        #[reducer(append)]
        pub(crate) findings: Vec<String>,
        #[reducer(sum)]
        pub(crate) total: u64,
    }
);
later!(
    without_draft,
    title,
    #[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
    pub(crate) struct Case {
        pub(crate) title: String,
        #[reducer(append)]
        pub(crate) findings: Vec<String>,
        #[reducer(sum)]
        pub(crate) total: u64,
    }
);
later!(
    other_type,
    title,
    #[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
    pub(crate) struct Case {
        pub(crate) title: String,
        pub(crate) draft: Vec<u64>,
        #[reducer(append)]
        pub(crate) findings: Vec<String>,
        #[reducer(sum)]
        pub(crate) total: u64,
    }
);
later!(
    added,
    title,
    #[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
    pub(crate) struct Case {
        pub(crate) title: String,
        pub(crate) draft: u64,
        pub(crate) added: u64,
        #[reducer(append)]
        pub(crate) findings: Vec<String>,
        #[reducer(sum)]
        pub(crate) total: u64,
    }
);

#[tokio::test]
async fn migration_updates_an_open_thread() {
    let saver = golden::stored(OPEN).await;
    let open = v2::read(&saver).await.unwrap();
    assert_eq!((open.name.as_str(), open.total), ("a title", 321));
    let end = v2::end(&saver).await.unwrap();
    assert_eq!(end.findings, ["collected", "yes", "beside", "published a title with 321"]);
    // Values that no node has written since still exist.
    let stored = v2::read(&saver).await.unwrap();
    assert_eq!((stored.name.as_str(), stored.total, &stored.findings), ("a title", 321, &end.findings));
}

#[tokio::test]
async fn migrations_run_in_order() {
    let saver = golden::stored(OPEN).await;
    let open = v3::read(&saver).await.unwrap();
    assert_eq!((open.name.as_str(), open.letters), ("A TITLE", 7));
    v3::end(&saver).await.unwrap();
    let stored = v3::read(&saver).await.unwrap();
    assert_eq!((stored.name.as_str(), stored.letters, stored.findings.len()), ("A TITLE", 7, 4));
    // From the version in between, too.
    let saver = golden::stored(OPEN).await;
    v2::end(&saver).await.unwrap();
    assert_eq!(v3::read(&saver).await.unwrap().letters, 7);
}

/// The error names the thread, the mismatch and the fix, and the thread is not changed.
pub(crate) fn refused<T: std::fmt::Debug>(result: Result<T, RunError>, words: &[&str]) {
    let error = result.expect_err("it does not fit");
    assert!(matches!(error, RunError::Incompatible { .. }), "{error}");
    let text = error.to_string();
    for word in words.iter().chain(&["thread `t`", "graph `review`"]) {
        assert!(text.contains(word), "no {word} in: {text}");
    }
}

#[tokio::test]
async fn incompatible_threads_are_refused() {
    let saver = golden::stored(OPEN).await;
    refused(v3_from_v2::read(&saver).await, &["version 1", "add a migration from version 1"]);
    refused(v3_from_v2::end(&saver).await, &["version 1", "add a migration from version 1"]);
    refused(refusing::read(&saver).await, &["from version 1", "there is no way"]);
    refused(refusing::end(&saver).await, &["from version 1", "there is no way"]);
    refused(inventing::read(&saver).await, &["channel `nam`"]);
    refused(inventing::end(&saver).await, &["channel `nam`"]);
    refused(without_draft::read(&saver).await, &["channel `draft`", "version = 2", "migrate"]);
    refused(without_draft::end(&saver).await, &["channel `draft`", "version = 2", "migrate"]);
    refused(other_type::read(&saver).await, &["channel `draft`", "migrate"]);
    refused(other_type::end(&saver).await, &["channel `draft`", "migrate"]);
    // All of these have left the thread as it was.
    let graph = v1::Review::compile().checkpointer(saver.clone());
    assert!(graph.invoke(Command::resume("yes")).thread("t").await.unwrap().is_finished());
    // A newer thread in an older program.
    let saver = golden::stored(OPEN).await;
    v2::end(&saver).await.unwrap();
    let graph = v1::Review::compile().checkpointer(saver);
    refused(graph.state("t").await, &["version 2", "version"]);
}

/// A channel that is new starts with its initial value, and needs no migration.
#[tokio::test]
async fn channel_may_be_added() {
    let saver = golden::stored(OPEN).await;
    assert_eq!(added::read(&saver).await.unwrap().added, 0);
    let end = added::end(&saver).await.unwrap();
    assert_eq!((end.added, end.draft, end.findings.len()), (0, 3, 4));
}

/// The migration of the guide, but strict: it fails where a channel is missing.
fn strictly(stored: &mut Map<String, Value>) -> Result<()> {
    let title = stored.remove("title").ok_or_else(|| NodeError::permanent("there was a `title`"))?;
    stored.remove("draft");
    stored.insert("name".to_owned(), title);
    Ok(())
}

later!(
    strict,
    name,
    #[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
    #[state(version = 2, migrate = strictly)]
    pub(crate) struct Case {
        pub(crate) name: String,
        #[reducer(append)]
        pub(crate) findings: Vec<String>,
        #[reducer(sum)]
        pub(crate) total: u64,
    }
);

#[tokio::test]
async fn history_lists_unreadable_checkpoints() {
    let saver = golden::stored(OPEN).await;
    let before = v1::Review::compile().checkpointer(saver.clone());
    let all = before.states("t").await.unwrap();
    let graph = strict::Review::compile().checkpointer(saver.clone());
    let states = graph.states("t").await.unwrap();
    assert_eq!(states.len(), all.len());
    for (state, known) in states.iter().zip(&all) {
        assert_eq!((state.checkpoint, state.step), (known.checkpoint, known.step));
        match &state.unreadable {
            None => assert_eq!(state.values.name, "a title"),
            Some(reason) => {
                for word in ["there was a `title`", "from version 1", "it must accept missing channels"] {
                    assert!(reason.contains(word), "no {word} in: {reason}");
                }
                assert!(!state.is_finished());
            }
        }
    }
    let unreadable = states.iter().filter(|state| state.unreadable.is_some()).count();
    assert!(unreadable > 0 && unreadable < states.len(), "{unreadable} of {}", states.len());
    assert_eq!(strict::read(&saver).await.unwrap().name, "a title");
    assert_eq!(strict::end(&saver).await.unwrap().name, "a title");
}
