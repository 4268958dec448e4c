//! The background subagents of an agent, as a channel.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::state::counts::LayerCounts;
use crate::state::labels::ConversationLabels;
use hier_checkpoint::message::ToolCall;

/// The background subagents that an agent has started. Each subagent has a handle, such as `researcher-1`. The channel
/// `background_subagents` has this type.
///
/// Each subagent runs on the thread `{thread}/background/{handle}-{task}`. Here, `thread` is the id of the agent's own
/// thread, and `task` is the [id of the task](BackgroundSubagent::task) that started the subagent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct BackgroundSubagents(BTreeMap<String, BackgroundSubagent>);

/// A background subagent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct BackgroundSubagent {
    /// The name of the subagent.
    pub agent: String,
    /// The name of the node that runs the subagent.
    pub node: String,
    /// The tool call that started the subagent.
    pub call: ToolCall,
    /// The id of the task that started the subagent.
    pub task: Uuid,
    /// The status, as far as the supervisor knows it.
    pub status: BackgroundStatus,
    /// The labels with which the subagent starts: the labels that the supervisor's conversation has, or may get later.
    #[serde(default, skip_serializing_if = "has_no_labels")]
    pub(crate) labels: ConversationLabels,
    /// The counts of the layers when the subagent starts.
    #[serde(default, skip_serializing_if = "LayerCounts::is_empty")]
    pub(crate) counts: LayerCounts,
}

/// The status of a background subagent, as far as its supervisor knows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum BackgroundStatus {
    /// The subagent is running, or it has ended and the supervisor does not know this yet.
    #[default]
    Running,
    /// The subagent has ended, and the supervisor has received its report.
    Reported,
    /// The subagent has ended without a report, and the supervisor has received the reason.
    Failed,
    /// The supervisor has cancelled the subagent, or the supervisor's turn ended while the subagent was running.
    Cancelled,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // as serde calls it
fn has_no_labels(labels: &ConversationLabels) -> bool {
    labels.is_empty()
}

impl BackgroundSubagents {
    /// Returns the subagent with this handle, or `None` if the agent has not started one with this handle.
    pub fn get(&self, handle: &str) -> Option<&BackgroundSubagent> {
        self.0.get(handle)
    }

    /// Iterates over the subagents in the order of their handles.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &BackgroundSubagent)> {
        self.0.iter().map(|(handle, subagent)| (&**handle, subagent))
    }

    /// Returns true if the agent has not started a background subagent.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Iterates over the subagents whose end the supervisor does not know.
    pub(crate) fn running(&self) -> impl Iterator<Item = (&str, &BackgroundSubagent)> {
        self.iter().filter(|(_, subagent)| subagent.status == BackgroundStatus::Running)
    }

    /// Adds the subagents in `more`. If `self` already contains a subagent of `more`, and its status in `self` is
    /// [`BackgroundStatus::Running`], replaces the subagent. Ignores the subagents of `more` whose status in `self` is
    /// final. The channel uses this function as its reducer.
    pub fn merge(&mut self, more: Self) {
        for (handle, new) in more.0 {
            let old = self.0.entry(handle).or_insert_with(|| new.clone());
            if old.status == BackgroundStatus::Running {
                *old = new;
            }
        }
    }
}

impl BackgroundStatus {
    /// Describes the status for the supervisor's model.
    pub(crate) fn described(self) -> &'static str {
        match self {
            Self::Running => "is running",
            Self::Reported => "has ended, and you have its report",
            Self::Failed => "has failed, and you have the reason",
            Self::Cancelled => "was cancelled",
        }
    }
}

impl BackgroundSubagent {
    pub(crate) fn with_status(&self, status: BackgroundStatus) -> Self {
        Self { status, ..self.clone() }
    }

    /// Returns the name of the subagent's thread below the supervisor's thread.
    pub(crate) fn thread_name(&self, handle: &str) -> String {
        format!("{handle}-{}", self.task.simple())
    }
}

impl FromIterator<(String, BackgroundSubagent)> for BackgroundSubagents {
    fn from_iter<I: IntoIterator<Item = (String, BackgroundSubagent)>>(subagents: I) -> Self {
        let mut all = Self::default();
        for (handle, subagent) in subagents {
            all.0.insert(handle, subagent);
        }
        all
    }
}
