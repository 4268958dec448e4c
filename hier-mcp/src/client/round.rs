//! The reply of a round of a call, in its stored form.

use std::collections::BTreeMap;
use std::time::Duration;

use hier_agents::Content;
use rmcp::model::{InputRequests, InputRequiredResult, Task};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::question::RequestedInput;

/// The maximum size of the server's request state, in bytes. It is stored with the task.
const LARGEST_STATE: usize = 256 * 1024;

/// The maximum number of questions in a round.
const MOST_QUESTIONS: usize = 32;

/// The maximum length of a task's id, in bytes. It is stored, and sent as a header.
const LONGEST_ID: usize = 1024;

/// The interval between two requests for a task, if the server suggests none, and its bounds.
const POLL: Duration = Duration::from_secs(1);
const FASTEST_POLL: Duration = Duration::from_millis(10);
const SLOWEST_POLL: Duration = Duration::from_mins(1);

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum RoundReply {
    Done {
        content: Content,
        failed: bool,
    },
    /// The server's questions, by its keys.
    Asked {
        requests: BTreeMap<String, Value>,
        state: Option<String>,
    },
    /// The server refused the request. The model may correct it.
    Refused(String),
    /// The server continues the call without a connection.
    Task(StartedTask),
}

impl RoundReply {
    /// Reads the server's questions, and checks the limits.
    pub(super) fn asked(asked: InputRequiredResult) -> Result<Self, String> {
        let requests = read_requests(asked.input_requests.unwrap_or_default())?;
        if asked.request_state.as_ref().is_some_and(|state| state.len() > LARGEST_STATE) {
            return Err(format!("its request state exceeds {LARGEST_STATE} bytes"));
        }
        Ok(Self::Asked { requests, state: asked.request_state })
    }
}

/// Reads the server's questions, by its keys.
pub(super) fn read_requests(requests: InputRequests) -> Result<BTreeMap<String, Value>, String> {
    if requests.len() > MOST_QUESTIONS {
        return Err(format!("it has {} questions: the limit is {MOST_QUESTIONS}", requests.len()));
    }
    let mut read = BTreeMap::new();
    for (key, request) in requests {
        let request = serde_json::to_value(request).map_err(|error| error.to_string())?;
        RequestedInput::read(&request)?;
        read.insert(key, request);
    }
    Ok(read)
}

/// A task that the server has started.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct StartedTask {
    pub(super) id: String,
    /// The suggested interval between two requests, in milliseconds.
    pub(super) poll: Option<u64>,
}

impl StartedTask {
    /// Reads a task, and checks the limits.
    pub(super) fn new(task: Task) -> Result<Self, String> {
        if task.task_id.len() > LONGEST_ID {
            return Err(format!("the id of its task exceeds {LONGEST_ID} bytes"));
        }
        Ok(Self { id: task.task_id, poll: task.poll_interval_ms })
    }
}

/// Returns the interval between two requests for a task.
pub(super) fn poll_interval(suggested: Option<u64>) -> Duration {
    suggested.map_or(POLL, Duration::from_millis).clamp(FASTEST_POLL, SLOWEST_POLL)
}
