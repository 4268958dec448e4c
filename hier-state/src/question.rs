//! Questions of nodes (interrupts).

use std::sync::Arc;
use std::time::SystemTime;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

#[doc(hidden)]
pub mod client_call;
mod declared;
mod facts;
mod set;

pub use declared::{DeclaredQuestion, QuestionType};
#[doc(hidden)]
pub use declared::{QuestionData, answer_schema, question_data, to_value};
pub use facts::{QuestionFacts, check_asked, check_declared, check_distinct, check_hook};
pub use set::{OpenQuestion, QuestionAnswer, QuestionError, QuestionSet};

use crate::checkpoint::codec;

/// A question that a node has asked (in LangGraph: an interrupt), or the wait of a node for a timer or a signal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Question {
    /// The id of the question: 32 hexadecimal digits.
    pub id: String,
    /// The names of the nodes from the root graph to the node that asks.
    pub path: Vec<String>,
    /// The value of the question as JSON. For a declared question, this is an object. Its field `type` is `tool` for a
    /// client tool, and otherwise the name of the question.
    pub value: Value,
    /// The name of the question, if it is declared. `None` for a question from `Run::interrupt`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// True if the question has been answered or withdrawn.
    #[serde(default)]
    pub answered: bool,
    /// True if the question was withdrawn, because `update_state` changed the state of the graph that asked it. The
    /// graph asks again if it still needs an answer.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub withdrawn: bool,
    /// The source of the answer: a person, a timer or a signal.
    #[serde(default, skip_serializing_if = "QuestionKind::is_person")]
    pub kind: QuestionKind,
    /// The time at which a timer ends. For other questions, the deadline after which the default counts as the answer.
    /// `None` if the question has no such time.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "millis")]
    pub due: Option<SystemTime>,
    /// The answer that counts after the deadline. `None` if the question has no deadline, or is a timer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<Value>,
    /// The JSON Schema of the answer. A declared question has a schema. A question from `Run::interrupt` has one if the
    /// node added it with `Interrupt::schema` or `Interrupt::with_schema`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<Value>,
    #[serde(default)]
    #[doc(hidden)]
    pub asker: Option<Asker>,
}

/// The source of the answer to a question.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum QuestionKind {
    /// A person or a client program answers (`Run::interrupt`).
    #[default]
    Person,
    /// A timer answers (`Run::sleep_until`).
    Timer,
    /// The signal with this name answers (`Run::signal`).
    Signal(Arc<str>),
}

impl QuestionKind {
    /// Returns true if a person or a client answers.
    pub fn is_person(&self) -> bool {
        *self == Self::Person
    }
}

/// Serializes a time as milliseconds since 1970, rounded up.
mod millis {
    use std::time::{Duration, SystemTime, UNIX_EPOCH};

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[allow(clippy::ref_option)] // as serde wants it
    pub(super) fn serialize<S: Serializer>(time: &Option<SystemTime>, serializer: S) -> Result<S::Ok, S::Error> {
        let since = |time: &SystemTime| time.duration_since(UNIX_EPOCH).unwrap_or_default();
        let whole = |since: Duration| u64::try_from(since.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX);
        time.as_ref().map(since).map(whole).serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<SystemTime>, D::Error> {
        let millis = Option::<u64>::deserialize(deserializer)?;
        Ok(millis.and_then(|millis| UNIX_EPOCH.checked_add(Duration::from_millis(millis))))
    }
}

impl Question {
    #[doc(hidden)]
    pub fn new(id: String, path: Vec<String>, value: Value) -> Self {
        let kind = QuestionKind::Person;
        let (name, due, default, schema, asker) = (None, None, None, None, None);
        Self { id, path, value, name, answered: false, withdrawn: false, kind, due, default, schema, asker }
    }

    /// Returns true if a timer or a signal can resume the thread: the question waits for one of them, or has a
    /// deadline.
    #[doc(hidden)]
    pub fn is_woken(&self) -> bool {
        self.due.is_some() || !self.kind.is_person()
    }

    /// Deserializes the value of the question. Fails if the value does not have the form of a `T`.
    ///
    /// ```
    /// # use hier_core::prelude::*;
    /// use hier_core::Question;
    ///
    /// #[derive(Deserialize)]
    /// struct Payment {
    ///     euros: u32,
    /// }
    ///
    /// fn ask(question: &Question) -> hier_core::Result<String> {
    ///     let payment: Payment = question.parse()?;
    ///     Ok(format!("pay {} euros?", payment.euros))
    /// }
    /// ```
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        codec::from_json(&self.value).map_err(serde::de::Error::custom)
    }
}

/// The task that asks, in the root graph or a subgraph.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[doc(hidden)]
pub struct Asker {
    #[doc(hidden)]
    pub namespace: String,
    #[doc(hidden)]
    pub checkpoint: Uuid,
    #[doc(hidden)]
    pub task: Uuid,
    #[doc(hidden)]
    pub path: String,
    /// The number of the question among the questions of its task, from 0.
    #[doc(hidden)]
    pub number: usize,
    /// The hash of the question's key or, without a key, of its value. A stored answer counts only if it has this hash.
    #[doc(hidden)]
    pub identity: String,
    /// True if the question has a key. The identity of such a question stays the same if the value of the question
    /// changes.
    #[doc(hidden)]
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_key: bool,
}

impl Asker {
    /// Returns true if both values identify one question of one task. Ignores [`has_key`](Self::has_key), because
    /// another version of hier may have stored the question without it.
    #[doc(hidden)]
    pub fn is_of_same_question(&self, other: &Self) -> bool {
        *self == Self { has_key: self.has_key, ..other.clone() }
    }
}

impl Question {
    /// Returns the path from the root graph to the graph that asks. The path has a segment `node:task` for each level
    /// below the root graph.
    #[doc(hidden)]
    pub fn namespace(&self) -> impl Iterator<Item = &str> {
        let asker = self.asker.as_ref().map_or("", |asker| asker.namespace.as_str());
        asker.split('|').filter(|level| !level.is_empty())
    }

    /// Returns the id of the task in the root graph that asks the question, itself or through a subgraph. Returns
    /// `None` if the field `asker` is `None`.
    #[doc(hidden)]
    pub fn root_task(&self) -> Option<String> {
        let asker = self.asker.as_ref()?;
        match asker.namespace.split('|').next().filter(|level| !level.is_empty()) {
            Some(level) => Some(level.rsplit(':').next().unwrap_or(level).to_owned()),
            None => Some(asker.task.to_string()),
        }
    }
}
