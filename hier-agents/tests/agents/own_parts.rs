//! Channels that are stored in parts which only a reducer of the program's own can put together, read by a program whose state
//! has another version. An agent's state has some: its todo list and its progress.

use hier_agents::TodoList;
use hier_agents::prelude::*;
use hier_core::Result;
use hier_core::checkpoint::MemorySaver;
use serde_json::{Map, Value};

/// Checks that the program cannot read the thread, with these words in the error.
fn refused<T: std::fmt::Debug>(result: Result<T, RunError>, words: &[&str]) {
    let error = result.expect_err("it does not fit");
    assert!(matches!(error, RunError::Incompatible { .. }), "{error}");
    let text = error.to_string();
    for word in words.iter().chain(&["thread `t`", "graph `review`"]) {
        assert!(text.contains(word), "no {word} in: {text}");
    }
}

fn unite<T: Ord>(marks: &mut Vec<T>, new: Vec<T>) {
    marks.extend(new);
    marks.sort_unstable();
    marks.dedup();
}

/// A program whose state has this name for its title, and marks of this type.
macro_rules! program {
    ($module:ident, $title:ident, $mark:ty, $(#[$version:meta])?) => {
        mod $module {
            use super::*;

            #[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
            $(#[$version])?
            pub(crate) struct Case {
                #[state(flatten)]
                pub(crate) base: BaseState,
                pub(crate) $title: String,
                #[reducer(with = unite)]
                #[channel(delta)]
                pub(crate) marks: Vec<$mark>,
            }

            graph! {
                pub(crate) Desk<Case> = Graph {
                    name: "review",
                    nodes: [work, ask],
                    edges: [START >> work >> if is_done { ask } else { work }, ask >> END],
                }
            }

            fn is_done(state: &Case) -> bool {
                state.marks.len() > 4
            }

            async fn work(run: &Run) -> CaseUpdate {
                let step = u8::try_from(run.superstep()).unwrap_or_default();
                let list = TodoList::from_iter([(format!("step {step}"), step % 2 == 0)]);
                Case::update().$title("a title").marks([<$mark>::from(step)]).todo_list(list)
            }

            async fn ask(run: &Run) -> Result<CaseUpdate> {
                Ok(Case::update().todo_list(TodoList::from_iter([(run.interrupt::<String>(&"what else?").await?, false)])))
            }
        }
    };
}

program!(before, title, u64,);
program!(after, heading, u64, #[state(version = 2, migrate = rename_title)]);
program!(other, heading, char, #[state(version = 2, migrate = rename_title)]);

fn rename_title(stored: &mut Map<String, Value>) -> Result<()> {
    let title = stored.remove("title").ok_or_else(|| NodeError::permanent("there is no title"))?;
    stored.insert("heading".to_owned(), title);
    Ok(())
}

#[tokio::test]
async fn stored_parts_are_merged_by_the_current_reducers() {
    let saver = MemorySaver::new();
    let begun = before::Desk::compile().checkpointer(saver.clone());
    let asked = begun.invoke(before::Case::update()).thread("t").await.unwrap();
    assert!(matches!(asked, Outcome::Interrupted(_)), "{asked:?}");
    let desk = after::Desk::compile().checkpointer(saver.clone());
    let end = desk.invoke(Command::resume("rest")).thread("t").await.unwrap().into_state();
    assert_eq!((end.heading.as_str(), end.marks), ("a title", vec![1, 2, 3, 4, 5]));
    let todo: Vec<(&str, bool)> = end.base.todo_list.iter().collect();
    let steps = ["step 1", "step 2", "step 3", "step 4", "step 5", "rest"];
    assert_eq!(todo, steps.map(|step| (step, step.ends_with(['2', '4']))));
    assert_eq!(desk.state("t").await.unwrap().values.marks.len(), 5, "and what is stored now");
}

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
#[state(version = 2, migrate = rename_title)]
struct Poor {
    #[state(flatten)]
    base: BaseState,
    heading: String,
}

graph! {
    PoorDesk<Poor> = Graph { name: "review", nodes: [work = nothing, ask = nothing], edges: [START >> work >> ask >> END] }
}

async fn nothing() {}

#[tokio::test]
async fn changed_or_missing_channel_is_an_error() {
    let saver = MemorySaver::new();
    let begun = before::Desk::compile().checkpointer(saver.clone());
    let _ = begun.invoke(before::Case::update()).thread("t").await.unwrap();
    let desk = PoorDesk::compile().checkpointer(saver.clone());
    refused(desk.state("t").await, &["channel `marks` cannot be migrated", "keep the channel"]);
    let desk = other::Desk::compile().checkpointer(saver);
    refused(desk.state("t").await, &["channel `marks` cannot be migrated", "use a new channel for the new type"]);
}
