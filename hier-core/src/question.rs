//! Questions of nodes (interrupts), and the tasks that ask them.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

/// A question of a node: the value of an interrupt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Question {
    /// The id of the question: 32 hexadecimal digits.
    pub id: String,
    /// The node that asks, with the nodes of the graphs around it before it.
    pub path: Vec<String>,
    /// The question.
    pub value: Value,
    /// Whether it needs no answer any more: it has one, or was withdrawn.
    #[serde(default)]
    pub answered: bool,
    /// Whether it was withdrawn: the graph that asked it was changed by `update_state`, and asks anew if it still has to.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub withdrawn: bool,
    /// Where its answer goes.
    #[serde(default)]
    pub(crate) asker: Option<Asker>,
}

impl Question {
    /// What is asked, as a value of this type.
    ///
    /// ```
    /// # use hier_core::prelude::*;
    /// use hier_core::Question;
    /// use hier_core::agent::ApprovalRequest;
    ///
    /// fn wants_to_call(question: &Question) -> Result<String> {
    ///     let asked: ApprovalRequest = question.parse()?;
    ///     Ok(format!("{} wants to call {}", asked.agent, asked.call.name))
    /// }
    /// ```
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        T::deserialize(&self.value)
    }
}

/// The task that asks, of whatever graph in the tree.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Asker {
    pub(crate) namespace: String,
    pub(crate) checkpoint: Uuid,
    pub(crate) task: Uuid,
    pub(crate) path: String,
    /// Which of the task's questions it is, from 0.
    pub(crate) number: usize,
}

impl Question {
    /// The id of the root graph's task that asks, itself or by a graph that it runs.
    pub(crate) fn root_task(&self) -> Option<String> {
        let asker = self.asker.as_ref()?;
        match asker.namespace.split('|').next().filter(|level| !level.is_empty()) {
            Some(level) => Some(level.rsplit(':').next().unwrap_or(level).to_owned()),
            None => Some(asker.task.to_string()),
        }
    }
}
