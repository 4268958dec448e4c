use serde::{Deserialize, Serialize};

/// The status of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunStatus {
    /// The run waits for its start time, for earlier runs of its thread, or for a worker.
    #[default]
    Pending,
    /// A worker executes the run.
    Running,
    /// The run has ended without an error. A run that stopped for a question has this status, too. Its thread then has
    /// the status [`ThreadStatus::Interrupted`].
    Success,
    /// The run has failed.
    Error,
    /// The run was cancelled. A run that stopped for a question has the status [`Success`](Self::Success) instead.
    Interrupted,
    /// The run exceeded its time limit.
    Timeout,
}

impl RunStatus {
    /// Returns the name: `pending`, `running`, `success`, `error`, `interrupted` or `timeout`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Running => "running",
            Self::Success => "success",
            Self::Error => "error",
            Self::Interrupted => "interrupted",
            Self::Timeout => "timeout",
        }
    }

    /// Returns true if the run has not ended.
    pub const fn is_live(self) -> bool {
        matches!(self, Self::Pending | Self::Running)
    }
}

/// The status of a thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ThreadStatus {
    /// All runs of the thread have ended, and none of the other statuses applies.
    #[default]
    Idle,
    /// The thread has a run that has not ended.
    Busy,
    /// The thread waits for an answer, a timer or a signal, or its last run stopped early, for example at a breakpoint.
    Interrupted,
    /// The last run failed.
    Error,
}

impl ThreadStatus {
    /// Returns the name: `idle`, `busy`, `interrupted` or `error`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Busy => "busy",
            Self::Interrupted => "interrupted",
            Self::Error => "error",
        }
    }
}
