//! The frames of the agents that wait for a subagent.

use std::any::Any;
use std::fmt;
use std::sync::{Arc, OnceLock};

use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

use crate::state::budget::Budget;
use hier_core::state::Values;

/// The states of the agents that wait for the one that is running: one frame for each call of a subagent with a policy,
/// the outermost first.
///
/// A frame shares the values of the state that it keeps; pushing one costs the same for any history. It is not stored
/// with the subagent's checkpoints, since the supervisor's own checkpoint has that state: a resumed run makes the same
/// frame of it again.
#[derive(Clone, Default)]
pub struct SubagentStack(Option<Arc<Frame>>);

/// One call of a subagent.
pub struct Frame {
    agent: Arc<str>,
    saved: Arc<dyn Saved>,
    below: SubagentStack,
    depth: usize,
    call: FrameCall,
    /// What the call may spend, once somebody asked.
    budget: OnceLock<Arc<Budget>>,
}

/// How a subagent was called.
#[derive(Debug, Default)]
pub(crate) struct FrameCall {
    /// The greatest number of iterations that the policy allows.
    pub(crate) max_iterations: Option<u32>,
    /// The id of the answer that called it, where it is not the only one that was called.
    pub(crate) answer: Option<Arc<str>>,
    /// How many are called side by side.
    pub(crate) among: u64,
}

/// A state of any type, with its channels by name.
trait Saved: Any + Send + Sync {
    fn to_object(&self) -> Result<Map<String, Value>, serde_json::Error>;
}

impl<S: Values> Saved for S {
    fn to_object(&self) -> Result<Map<String, Value>, serde_json::Error> {
        let mut object = Map::new();
        let mut channel = 0;
        while let Some(spec) = self.channel(channel) {
            if let Some(value) = self.to_json(channel)? {
                object.insert(spec.name.to_string(), value);
            }
            channel += 1;
        }
        Ok(object)
    }
}

impl SubagentStack {
    /// No frames.
    pub fn new() -> Self {
        Self::default()
    }

    /// The number of frames.
    pub fn depth(&self) -> usize {
        self.0.as_ref().map_or(0, |frame| frame.depth)
    }

    /// The frame of the call that is running.
    pub fn top(&self) -> Option<&Frame> {
        self.0.as_deref()
    }

    /// The frames, from the call that is running outwards.
    pub fn iter(&self) -> impl Iterator<Item = &Frame> {
        std::iter::successors(self.top(), |frame| frame.below.top())
    }

    /// The same with a frame more: `agent` is called by an agent in the state `saved`.
    pub(crate) fn push<S: Values>(&self, agent: Arc<str>, saved: Arc<S>, call: FrameCall) -> Self {
        let (below, depth) = (self.clone(), self.depth() + 1);
        Self(Some(Arc::new(Frame { agent, saved, below, depth, call, budget: OnceLock::new() })))
    }

    /// What the agent that is running may spend of the budget of the whole run.
    pub(crate) fn budget<'a>(&'a self, whole: &'a Arc<Budget>) -> &'a Arc<Budget> {
        let Some(frame) = self.top() else { return whole };
        let FrameCall { answer, among, .. } = &frame.call;
        frame.budget.get_or_init(|| frame.below.budget(whole).share(answer.as_ref(), *among))
    }
}

impl Frame {
    /// The agent that was called.
    pub fn agent_name(&self) -> &str {
        &self.agent
    }

    /// The state of the agent that called it, if its type is `S`.
    pub fn saved_state<S: Values>(&self) -> Option<&S> {
        (&*self.saved as &dyn Any).downcast_ref()
    }

    /// The greatest number of iterations that the call's policy allows.
    pub fn max_iterations(&self) -> Option<u32> {
        self.call.max_iterations
    }
}

impl Serialize for Frame {
    /// The same shape as in the reference.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let saved = self.saved.to_object().map_err(serde::ser::Error::custom)?;
        let mut frame = serializer.serialize_struct("Frame", 2)?;
        frame.serialize_field("agent_name", &*self.agent)?;
        frame.serialize_field("saved_state", &saved)?;
        frame.end()
    }
}

impl Serialize for SubagentStack {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut frames: Vec<&Frame> = self.iter().collect();
        frames.reverse();
        serializer.collect_seq(frames)
    }
}

impl fmt::Debug for SubagentStack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter().map(Frame::agent_name)).finish()
    }
}

impl fmt::Debug for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Frame").field("agent_name", &self.agent).finish_non_exhaustive()
    }
}
