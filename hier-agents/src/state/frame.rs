//! The frames of agents that wait for a subagent.

use std::any::Any;
use std::fmt;
use std::sync::{Arc, OnceLock};

use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

use crate::state::budget::Budget;
use hier_core::state::Values;

/// The stack of the subagent calls that are in progress. It contains only the calls of subagents that have a policy.
/// Each call has a frame, which contains the state of the supervisor at the time of the call.
///
/// Clones are cheap, because frames share their values. The frames are not stored with the subagent's checkpoints. A
/// resumed run restores them from the supervisor's checkpoints.
#[derive(Clone, Default)]
pub struct SubagentStack(Option<Arc<SubagentFrame>>);

/// A call of a subagent, with the supervisor's state at the time of the call.
pub struct SubagentFrame {
    agent: Arc<str>,
    saved: Arc<dyn SavedState>,
    below: SubagentStack,
    depth: usize,
    call: FrameCall,
    /// The budget of the call, computed on first use.
    budget: OnceLock<Arc<Budget>>,
}

#[derive(Debug, Default)]
pub(crate) struct FrameCall {
    pub(crate) max_iterations: Option<u32>,
    /// The id of the answer with the call.
    pub(crate) answer: Option<Arc<str>>,
    /// The number of subagent calls in this answer.
    pub(crate) among: u64,
    /// The id of the call, if the subagent runs in the background.
    pub(crate) background: Option<Arc<str>>,
}

/// A state of any type that can be converted to JSON.
trait SavedState: Any + Send + Sync {
    fn to_object(&self) -> Result<Map<String, Value>, serde_json::Error>;
}

impl<S: Values> SavedState for S {
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
    /// Creates an empty stack.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the number of frames.
    pub fn depth(&self) -> usize {
        self.0.as_ref().map_or(0, |frame| frame.depth)
    }

    /// Returns the frame of the innermost call, or `None` if the stack is empty, as in the root agent.
    pub fn top(&self) -> Option<&SubagentFrame> {
        self.0.as_deref()
    }

    /// Iterates over the frames, innermost first.
    pub fn iter(&self) -> impl Iterator<Item = &SubagentFrame> {
        std::iter::successors(self.top(), |frame| frame.below.top())
    }

    /// Returns the stack with one more frame: an agent in the state `saved` calls `agent`.
    pub(crate) fn push<S: Values>(&self, agent: Arc<str>, saved: Arc<S>, call: FrameCall) -> Self {
        let (below, depth) = (self.clone(), self.depth() + 1);
        Self(Some(Arc::new(SubagentFrame { agent, saved, below, depth, call, budget: OnceLock::new() })))
    }

    /// Returns the running agent's share of the whole budget.
    pub(crate) fn budget<'a>(&'a self, whole: &'a Arc<Budget>) -> &'a Arc<Budget> {
        let Some(frame) = self.top() else { return whole };
        let FrameCall { answer, among, background, .. } = &frame.call;
        frame.budget.get_or_init(|| {
            let above = frame.below.budget(whole);
            match background {
                Some(call) => above.reserve(answer.as_ref(), call, *among),
                None => above.share(answer.as_ref(), *among),
            }
        })
    }
}

impl SubagentFrame {
    /// Returns the name of the subagent that was called.
    pub fn agent_name(&self) -> &str {
        &self.agent
    }

    /// Returns the state of the supervisor at the time of the call, or `None` if this state does not have the type `S`.
    pub fn saved_state<S: Values>(&self) -> Option<&S> {
        (&*self.saved as &dyn Any).downcast_ref()
    }

    /// Returns the limit of model requests that the subagent's policy sets, or `None` if it sets none.
    pub fn max_iterations(&self) -> Option<u32> {
        self.call.max_iterations
    }
}

impl Serialize for SubagentFrame {
    /// Serializes in LangGraph's format.
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
        let mut frames: Vec<&SubagentFrame> = self.iter().collect();
        frames.reverse();
        serializer.collect_seq(frames)
    }
}

impl fmt::Debug for SubagentStack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter().map(SubagentFrame::agent_name)).finish()
    }
}

impl fmt::Debug for SubagentFrame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SubagentFrame").field("agent_name", &self.agent).finish_non_exhaustive()
    }
}
