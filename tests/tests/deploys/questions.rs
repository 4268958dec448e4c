//! Changes of declared questions.

use std::fmt::Debug;
use std::sync::Arc;

use hier_core::DeclaredQuestion;
use hier_core::checkpoint::{Checkpointer, MemorySaver};
use hier_core::graph::{DynInput, NodeDef, Task};
use hier_core::prelude::*;
use hier_testkit::lock::LockReport;
use serde_json::json;

use crate::breaking::around;
use crate::kit::{Builder, Case, Logs, Program, case, compile};
use crate::states::Empty;

mod text {
    use super::*;

    #[derive(Question, Clone, Debug, Serialize, Deserialize, JsonSchema)]
    #[question(answer = String)]
    pub(super) struct Sign {}
}

mod other_text {
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

/// The subgraph asks a question that has the name of another question of the outer graph.
#[tokio::test]
async fn open_question_of_a_subgraph_is_not_a_question_of_the_outer_graph() {
    fn program<Q: DeclaredQuestion>() -> Program {
        compile(around(&review(|| other_text::Sign {})).asks::<Q>()).into()
    }
    let (old, new) = (program::<text::Sign>(), program::<number::Sign>());
    let saver: Arc<dyn Checkpointer> = Arc::new(MemorySaver::default());
    let begun = old.run(&saver, "thread", DynInput::New(json!({}))).await.unwrap();
    assert!(matches!(begun, Outcome::Interrupted(_)), "{begun:?}");
    let report = LockReport::with_threads(&old.lock, &new.lock, &*saver).await.unwrap();
    let breaks: Vec<(&str, usize)> =
        report.breaks().map(|found| (found.finding.change.code(), found.count())).collect();
    assert_eq!(breaks, [("question-changed", 0)], "{report}");
    assert!(report.passes(), "{report}");
}
