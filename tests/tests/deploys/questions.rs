//! Changes of declared questions.

use std::fmt::Debug;

use hier_core::DeclaredQuestion;
use hier_core::graph::{NodeDef, Task};
use hier_core::prelude::*;

use crate::breaking::{Empty, around};
use crate::kit::{Builder, Case, Logs, case, compile};

mod text {
    use super::*;

    #[derive(Question, Clone, Debug, Serialize, Deserialize, JsonSchema)]
    #[question(answer = String)]
    pub(super) struct Sign {}
}

mod number {
    use super::*;

    #[derive(Question, Clone, Debug, Serialize, Deserialize, JsonSchema)]
    #[question(answer = u32)]
    pub(super) struct Sign {}
}

/// A graph of one node that asks a question.
fn review<Q: DeclaredQuestion<Answer: Debug>>(question: fn() -> Q) -> hier_core::graph::CompiledGraph<Empty> {
    let sign = NodeDef::task(move |task: Task<Empty>| async move {
        let answer = Ask::<Q>::of_task(&task).ask(question()).await?;
        Ok::<_, NodeError>(Empty::logged(&format!("{answer:?}")))
    });
    compile(Builder::new("review").asks::<Q>().node("sign", sign).edge(START, "sign").edge("sign", END))
}

pub(crate) fn breaking() -> Vec<Case> {
    let (old, new) = (|| review(|| text::Sign {}), || review(|| number::Sign {}));
    vec![
        case("new answer of an open question", old(), new()).breaks(&["question-changed"]),
        case("new answer of an open question in a subgraph", compile(around(&old())), compile(around(&new())))
            .breaks(&["question-changed"]),
    ]
}
