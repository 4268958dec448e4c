//! A simulated person.

use std::fmt;
use std::sync::Arc;

use hier_agents::{Approval, ApprovalRequest, OperatorQuestion};
use hier_core::Question;
use serde::Serialize;
use serde_json::Value;

type AnswerRule = Arc<dyn Fn(&Question) -> Option<Value> + Send + Sync>;

/// A simulated person who answers the questions of a run. The operator tries its rules in the order in which they were
/// added, and gives the first answer that a rule returns. If no rule returns an answer, the question stays open.
///
/// ```
/// use hier_testkit::FakeOperator;
/// use serde_json::json;
///
/// let operator = FakeOperator::new()
///     .approve("lookup")
///     .reject("refund", "not before Monday")
///     .answer_text("Which year", "2026")
///     .answer_node("sign_off", true)
///     .rule(|question| (question.value["amount"].as_u64()? < 100).then(|| json!("yes")));
/// # let _ = operator;
/// ```
#[derive(Clone, Default)]
#[must_use]
pub struct FakeOperator {
    rules: Vec<AnswerRule>,
}

impl fmt::Debug for FakeOperator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FakeOperator").field("rules", &self.rules.len()).finish()
    }
}

impl FakeOperator {
    /// Creates an operator without rules, who does not answer any question.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a rule: a function that returns the answer to a question, or `None` to leave the question to the next rule.
    pub fn rule(mut self, rule: impl Fn(&Question) -> Option<Value> + Send + Sync + 'static) -> Self {
        self.rules.push(Arc::new(rule));
        self
    }

    /// Adds a rule that gives this answer to each question.
    pub fn answer(self, answer: impl Serialize) -> Self {
        let answer = json(&answer);
        self.rule(move |_| Some(answer.clone()))
    }

    /// Adds a rule that gives this answer to each question that this node asks.
    pub fn answer_node(self, node: impl Into<String>, answer: impl Serialize) -> Self {
        let (node, answer) = (node.into(), json(&answer));
        self.rule(move |question| (question.path.last() == Some(&node)).then(|| answer.clone()))
    }

    /// Adds a rule for the questions that a model asks with the tool [`ask_operator`](hier_agents::ask_operator). The
    /// rule gives this answer if the text of the question contains `part`.
    pub fn answer_text(self, part: impl Into<String>, answer: impl Into<String>) -> Self {
        let (part, answer) = (part.into(), answer.into());
        self.rule(move |question| {
            let asked: OperatorQuestion = question.parse().ok()?;
            asked.question.contains(&part).then(|| Value::from(answer.as_str()))
        })
    }

    /// Adds a rule that approves calls of this tool.
    pub fn approve(self, tool: impl Into<String>) -> Self {
        self.decide(tool, &Approval::Approve)
    }

    /// Adds a rule that approves calls of this tool, but replaces the arguments of the call with `args`.
    pub fn edit(self, tool: impl Into<String>, args: Value) -> Self {
        self.decide(tool, &Approval::Edit { args })
    }

    /// Adds a rule that rejects calls of this tool. The model receives the reason as the result of the call.
    pub fn reject(self, tool: impl Into<String>, reason: impl Into<String>) -> Self {
        self.decide(tool, &Approval::Reject { reason: reason.into() })
    }

    fn decide(self, tool: impl Into<String>, approval: &Approval) -> Self {
        let (tool, approval) = (tool.into(), json(approval));
        self.rule(move |question| {
            let asked: ApprovalRequest = question.parse().ok()?;
            (asked.call.name == tool).then(|| approval.clone())
        })
    }

    /// Returns the answer to a question, or `None` if no rule returns one.
    pub fn reply(&self, question: &Question) -> Option<Value> {
        self.rules.iter().find_map(|rule| rule(question))
    }
}

/// Serializes an answer. Values that JSON cannot express become null.
fn json(value: &impl Serialize) -> Value {
    serde_json::to_value(value).unwrap_or_default()
}
