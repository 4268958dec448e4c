//! The names of the prelude.

use std::collections::BTreeSet;

/// All names of `hier::prelude`. Its module docs have the rule.
const NAMES: &[&str] = &[
    "Approval",
    "Ask",
    "BaseContext",
    "BaseState",
    "Command",
    "Config",
    "Deserialize",
    "END",
    "JsonSchema",
    "MemorySaver",
    "Message",
    "Messages",
    "MessagesState",
    "Model",
    "NodeError",
    "Outcome",
    "Question",
    "Run",
    "RunError",
    "START",
    "Sent",
    "Serialize",
    "Sqlite",
    "State",
    "StreamMode",
    "View",
    "graph",
    "schemars",
    "tool",
    "tools",
];

/// Returns the names that the `pub use` lines of a module export, without traits that are imported as `_`.
fn exported(source: &str) -> BTreeSet<String> {
    let code: String = source.lines().map(|line| line.split("//").next().unwrap_or_default()).collect();
    let mut names = BTreeSet::new();
    for import in code.split("pub use ").skip(1).filter_map(|rest| rest.split_once(';')) {
        let path = import.0;
        let (module, list) = path.split_once('{').unwrap_or(("", path));
        for item in list.trim_end_matches('}').split(',').map(str::trim).filter(|item| !item.is_empty()) {
            let item = if item == "self" { module.trim_end_matches("::") } else { item };
            let name = item.rsplit("::").next().unwrap_or(item);
            if name != "*" && !name.ends_with(" as _") {
                names.insert(name.to_owned());
            }
        }
    }
    names
}

#[test]
fn prelude_exports_at_most_thirty_names() {
    let (_, facade) = include_str!("../../src/lib.rs").split_once("pub mod prelude {").expect("a prelude");
    let (facade, _) = facade.split_once("\n}").expect("its end");
    let names = exported(facade);
    assert_eq!(names.iter().map(String::as_str).collect::<Vec<_>>(), NAMES);
    assert!(NAMES.len() <= 30, "{} names: import the ones that few programs use from their modules", NAMES.len());
}

/// Glob imports of the prelude and of crates that programs use with it. A name that several of them export cannot be imported from here.
mod globs {
    pub use anyhow::*;
    pub use axum::extract::*;
    pub use axum::response::*;
    pub use axum::routing::*;
    pub use axum::*;
    pub use hier::prelude::*;
    pub use tokio::sync::*;
    pub use tokio::task::*;
    pub use tokio::time::*;
    pub use tokio::*;
}

/// Fails to compile if a name of the prelude is ambiguous.
mod names {
    pub use super::globs::{
        Approval, Ask, BaseContext, BaseState, Command, Config, Deserialize, END, JsonSchema, MemorySaver, Message,
        Messages, MessagesState, Model, NodeError, Outcome, Question, Run, RunError, START, Sent, Serialize, Sqlite,
        State, StreamMode, View, graph, schemars, tool, tools,
    };
}

/// The derive macro `State` and the extractor `State` of axum are different kinds of names.
#[derive(names::State, Clone, Debug, Default, serde::Serialize, serde::Deserialize)]
struct Visits {
    count: u32,
}

async fn visits(names::State(count): names::State<u32>) -> Result<String, ()> {
    Ok(count.to_string())
}
