//! What a node knows of the run that it is part of.

use std::fmt;
use std::sync::{Arc, OnceLock};

use serde::Serialize;
use tokio_util::sync::{CancellationToken, WaitForCancellationFuture};
use uuid::Uuid;

use crate::config::Config;
use crate::engine::{Crew, Heartbeat, Outlet, Plan, Question, TaskKey};
use crate::error::{NodeError, NodeErrorKind};

/// The run, as a node sees it: `run: &Run<Desk>`. `C` is the graph's context.
pub struct Run<C = ()> {
    pub(crate) shared: Arc<Shared<C>>,
    pub(crate) key: TaskKey,
    pub(crate) attempt: u32,
    pub(crate) remaining: usize,
    pub(crate) heartbeat: Option<Arc<Heartbeat>>,
}

/// What is the same for all tasks of a run.
pub(crate) struct Shared<C> {
    pub(crate) context: Arc<C>,
    pub(crate) config: Arc<Config>,
    pub(crate) plan: Arc<Plan>,
    pub(crate) namespace: Vec<String>,
    pub(crate) outlet: Option<Arc<dyn Outlet>>,
    pub(crate) crew: Arc<Crew>,
    /// That of the node that this graph is, or is in.
    pub(crate) heartbeat: Option<Arc<Heartbeat>>,
    pub(crate) id: OnceLock<Uuid>,
}

impl<C> Clone for Run<C> {
    fn clone(&self) -> Self {
        Self {
            shared: self.shared.clone(),
            key: self.key,
            attempt: self.attempt,
            remaining: self.remaining,
            heartbeat: self.heartbeat.clone(),
        }
    }
}

impl<C> fmt::Debug for Run<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Run").field("node", &self.node()).field("step", &self.step()).finish_non_exhaustive()
    }
}

impl<C> Run<C> {
    /// The context that was given to `invoke` or `stream`.
    pub fn context(&self) -> &C {
        &self.shared.context
    }

    /// The configuration of the run.
    pub fn config(&self) -> &Config {
        &self.shared.config
    }

    /// The name of the node that is running.
    pub fn node(&self) -> &str {
        self.shared.plan.name(self.key.node)
    }

    /// The name of the graph that is running.
    pub fn graph(&self) -> &str {
        self.shared.plan.graph()
    }

    /// The number of the superstep. The first that runs nodes on a fresh thread is 1.
    pub fn step(&self) -> i64 {
        self.key.step
    }

    /// The number of the attempt, from 1.
    pub fn attempt(&self) -> u32 {
        self.attempt
    }

    /// How many supersteps the run may still take, this one included.
    pub fn remaining_steps(&self) -> usize {
        self.remaining
    }

    /// Whether this superstep is the last that the recursion limit allows to complete.
    pub fn is_last_step(&self) -> bool {
        self.remaining == 1
    }

    /// The path of graphs from the root to this one: `node:task id` for each. Empty in the root.
    pub fn namespace(&self) -> &[String] {
        &self.shared.namespace
    }

    /// The id of this task: it is the same each time the task is run again, and no other task has it.
    pub fn task_id(&self) -> Uuid {
        self.shared.plan.task_id(self.shared.checkpoint_id(self.key.step), &self.shared.namespace, self.key)
    }

    /// Sends a value to those who stream in the mode `Custom`; does nothing if nobody does. The value is converted to
    /// JSON; one that cannot be is logged as a warning and dropped.
    pub fn emit(&self, value: impl Serialize) {
        self.heartbeat();
        let Some(outlet) = self.shared.outlet.as_ref().filter(|outlet| outlet.wants_custom()) else { return };
        match serde_json::to_value(value) {
            Ok(value) => outlet.custom(self.node(), value),
            Err(error) => tracing::warn!(node = self.node(), %error, "what a node emitted is no JSON and was dropped"),
        }
    }

    /// Tells that the node is alive: puts off its `idle_timeout`, and those of the nodes around its graph.
    pub fn heartbeat(&self) {
        if let Some(heartbeat) = self.any_heartbeat() {
            heartbeat.beat();
        }
    }

    /// The node's own heartbeat, or that of the node around its graph.
    pub(crate) fn any_heartbeat(&self) -> Option<&Arc<Heartbeat>> {
        self.heartbeat.as_ref().or(self.shared.heartbeat.as_ref())
    }

    /// Whether the run was cancelled. Its tasks are dropped at their next `await`; a node that computes for long asks
    /// here.
    pub fn is_cancelled(&self) -> bool {
        self.token().is_some_and(CancellationToken::is_cancelled)
    }

    /// Resolves when the run is cancelled; `None` if it has no cancellation token.
    pub fn cancelled(&self) -> Option<WaitForCancellationFuture<'_>> {
        self.token().map(CancellationToken::cancelled)
    }

    fn token(&self) -> Option<&CancellationToken> {
        self.shared.config.cancel.as_ref()
    }

    /// Asks something that only somebody outside can answer. The run stops, once the other tasks of the step have
    /// ended, with [`Outcome::Interrupted`](crate::Outcome::Interrupted), which has the question.
    ///
    /// The error must be returned from the node (`?`). Answering, and so ever getting an `A`, needs a saver, which is
    /// not there yet: for now every question ends the run.
    #[allow(clippy::unused_async)] // asynchronous by contract: with a saver the answer is read from it
    pub async fn interrupt<A>(&self, question: &impl Serialize) -> Result<A, NodeError> {
        let question = serde_json::to_value(question)?;
        let id = self.task_id().simple().to_string();
        let question = Question { id, path: vec![self.node().to_owned()], value: question };
        Err(NodeError::from_kind(NodeErrorKind::Interrupt(vec![question]), false))
    }
}

impl<C> Shared<C> {
    /// The id that the checkpoint at the start of this step has: ordered like the steps.
    pub(crate) fn checkpoint_id(&self, step: i64) -> Uuid {
        let base = self.id.get_or_init(|| Uuid::now_v6(&[0; 6])).as_u128();
        // The reference keeps the step, modulo 2^14, in the clock sequence of the id.
        let sequence = u128::from(step.rem_euclid(1 << 14).unsigned_abs());
        Uuid::from_u128((base & !(0x3fff << 48)) | (sequence << 48))
    }
}
