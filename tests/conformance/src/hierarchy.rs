//! A hierarchy of agents as data.

use std::collections::{BTreeMap, BTreeSet};

use hier_spec::did_you_mean;
use serde::Deserialize;
use serde_json::Value;

use super::scenario::Object;

/// A hierarchy scenario, without the recorded answers.
#[derive(Debug, Deserialize)]
pub(crate) struct Hierarchy {
    #[serde(default)]
    pub(crate) channels: BTreeMap<String, Channel>,
    pub(crate) root: String,
    pub(crate) agents: BTreeMap<String, Agent>,
    pub(crate) script: Vec<Reply>,
    #[serde(default)]
    pub(crate) input: Object,
    #[serde(default = "limit")]
    pub(crate) recursion_limit: usize,
}

fn limit() -> usize {
    200
}

/// A channel that extends the base state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Channel {
    Last,
    Merge,
    Max,
}

/// The three kinds of agents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Kind {
    React,
    Todo,
    Simple,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Agent {
    #[serde(rename = "type")]
    pub(crate) kind: Kind,
    pub(crate) description: Option<String>,
    pub(crate) policy: Option<Policy>,
    pub(crate) system: Option<String>,
    pub(crate) reasoning: Option<String>,
    #[serde(default)]
    pub(crate) tools: Vec<ToolName>,
    pub(crate) max_iterations: Option<u32>,
    pub(crate) reports_to_supervisor: Option<bool>,
    pub(crate) report_into: Option<String>,
    #[serde(default)]
    pub(crate) subagents: Vec<String>,
    #[serde(default)]
    pub(crate) front: Vec<String>,
    #[serde(default)]
    pub(crate) back: Vec<String>,
    #[serde(default)]
    pub(crate) compute: BTreeMap<String, Value>,
}

/// The state that a subagent receives and returns.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Policy {
    pub(crate) clear_messages: Option<bool>,
    pub(crate) preserve_chat_with_operator: Option<bool>,
    pub(crate) reset_iteration: Option<bool>,
    pub(crate) max_iterations: Option<u32>,
    pub(crate) merge_fields: Option<Vec<String>>,
    pub(crate) discard_fields: Option<Vec<String>>,
}

/// The tools that the scenarios know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ToolName {
    Echo,
    Shout,
    Note,
    FinishTask,
}

/// One reply of the model.
#[derive(Debug, Deserialize)]
pub(crate) struct Reply {
    #[serde(default)]
    pub(crate) content: String,
    #[serde(default)]
    pub(crate) calls: Vec<Call>,
}

/// A tool that the model calls.
#[derive(Debug, Deserialize)]
pub(crate) struct Call {
    pub(crate) name: String,
    pub(crate) args: Value,
    pub(crate) id: String,
}

impl Hierarchy {
    /// Returns the mistakes that the types cannot rule out.
    pub(crate) fn mistakes(&self) -> Vec<String> {
        let mut mistakes = Vec::new();
        self.known("root", &self.root, &mut mistakes);
        for (name, agent) in &self.agents {
            for (list, members) in [("subagents", &agent.subagents), ("front", &agent.front), ("back", &agent.back)] {
                for member in members {
                    self.known(&format!("agents.{name}.{list}"), member, &mut mistakes);
                }
            }
            if self.contains_itself(name) {
                mistakes.push(format!("at `agents.{name}`: an agent cannot contain itself"));
            }
        }
        mistakes
    }

    fn known(&self, at: &str, name: &str, mistakes: &mut Vec<String>) {
        if !self.agents.contains_key(name) {
            let tail = did_you_mean(name, self.agents.keys().map(String::as_str));
            mistakes.push(format!("at `{at}`: there is no agent `{name}`{tail}"));
        }
    }

    fn contains_itself(&self, name: &str) -> bool {
        let (mut seen, mut open) = (BTreeSet::new(), vec![name]);
        while let Some(agent) = open.pop().and_then(|open| self.agents.get(open)) {
            for member in agent.subagents.iter().chain(&agent.front).chain(&agent.back) {
                if member == name {
                    return true;
                }
                if self.agents.contains_key(member) && seen.insert(member) {
                    open.push(member);
                }
            }
        }
        false
    }
}
