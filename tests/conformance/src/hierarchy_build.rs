//! Builds the agents of a scenario with the runtime builder.

use std::collections::BTreeMap;
use std::sync::Arc;

use hier_agents::{
    AgentBuilder, BaseContext, BaseState, BaseStateUpdate, DynBaseState, DynBaseUpdate, Subagent, SubagentPolicy, Tool,
    ToolCall, ToolOutput, ToolSpec,
};
use hier_core::async_trait;
use hier_core::graph::{CompiledGraph, Task};
use hier_core::state::{Builtin, Schema, State, Values};
use hier_core::{BuildError, NodeError};
use serde_json::{Map, Value, json};

use super::hierarchy::{Agent, Channel, Hierarchy, Kind, Policy, ToolName};

type Graph = CompiledGraph<DynBaseState, BaseContext>;
type Member = Subagent<DynBaseState, BaseContext>;

/// Builds the root agent and the schema that all agents share.
pub(crate) fn build(scenario: &Hierarchy) -> Result<(Graph, Arc<Schema>), BuildError> {
    let schema = Arc::new(schema(&scenario.channels));
    let family = Family { agents: &scenario.agents, root: &scenario.root, schema: &schema };
    Ok((family.graph(&scenario.root)?, schema))
}

fn schema(channels: &BTreeMap<String, Channel>) -> Schema {
    channels.iter().fold(Schema::new(), |schema, (name, channel)| match channel {
        Channel::Last => schema.last(name),
        Channel::Merge => schema.reduced(name, Builtin::Extend),
        Channel::Max => schema.reduced(name, Builtin::Max),
    })
}

/// The data that the agents of a scenario share.
struct Family<'a> {
    agents: &'a BTreeMap<String, Agent>,
    root: &'a str,
    schema: &'a Arc<Schema>,
}

impl Family<'_> {
    fn graph(&self, name: &str) -> Result<Graph, BuildError> {
        // Reading the file has checked that the agent exists.
        let Some(agent) = self.agents.get(name) else {
            return Err(BuildError { graph: name.to_owned(), mistakes: vec!["there is no such agent".to_owned()] });
        };
        match agent.kind {
            Kind::Simple => self.simple(name, agent),
            Kind::React => self.asking(AgentBuilder::dynamic_react(name, self.schema), name, agent),
            Kind::Todo => self.asking(AgentBuilder::dynamic_todo(name, self.schema), name, agent),
        }
    }

    fn simple(&self, name: &str, agent: &Agent) -> Result<Graph, BuildError> {
        let mut builder = DynBaseState::graph(name, self.schema);
        builder = builder.description(agent.description.as_deref().unwrap_or(name));
        let compute = Arc::new(agent.compute.clone());
        builder = builder.node("compute", move |task: Task<DynBaseState, BaseContext>| {
            let compute = compute.clone();
            async move { computed(&compute, task.state()) }
        });
        builder = builder.edge(hier_core::graph::START, "compute").edge("compute", hier_core::graph::END);
        builder.compile()
    }

    fn asking(
        &self,
        mut builder: AgentBuilder<DynBaseState, BaseContext>,
        name: &str,
        agent: &Agent,
    ) -> Result<Graph, BuildError> {
        let own = format!("You are {name}.");
        builder = builder
            .description(agent.description.as_deref().unwrap_or(name))
            .system(agent.system.as_deref().unwrap_or(&own))
            .reasoning(agent.reasoning.as_deref().unwrap_or("What now?"));
        builder = agent.tools.iter().filter_map(|tool| Utensil::of(*tool)).fold(builder, AgentBuilder::tool);
        if let Some(iterations) = agent.max_iterations {
            builder = builder.max_iterations(iterations);
        }
        if let Some(reports) = agent.reports_to_supervisor {
            builder = builder.reports_to_supervisor(reports);
        }
        if let Some(channel) = &agent.report_into {
            builder = builder.report_into_channel(self.schema, channel);
        }
        for subagent in &agent.subagents {
            builder = builder.subagent(self.member(subagent)?);
        }
        for stage in &agent.front {
            builder = builder.front(self.member(stage)?);
        }
        for stage in &agent.back {
            builder = builder.back(self.member(stage)?);
        }
        if name == self.root { builder.compile_as_root() } else { builder.compile() }
    }

    fn member(&self, name: &str) -> Result<Member, BuildError> {
        let member = Subagent::new(&self.graph(name)?);
        let policy = self.agents.get(name).and_then(|agent| agent.policy.as_ref());
        Ok(match policy {
            Some(declared) => member.policy(policy_of(declared)),
            None => member,
        })
    }
}

fn policy_of(declared: &Policy) -> SubagentPolicy {
    let mut policy = SubagentPolicy::new();
    if let Some(clear) = declared.clear_messages {
        policy = policy.clear_messages(clear);
    }
    if let Some(preserve) = declared.preserve_chat_with_operator {
        policy = policy.preserve_chat_with_operator(preserve);
    }
    if let Some(reset) = declared.reset_iteration {
        policy = policy.reset_iteration(reset);
    }
    if let Some(iterations) = declared.max_iterations {
        policy = policy.max_iterations(iterations);
    }
    if let Some(fields) = &declared.merge_fields {
        policy = policy.merge_fields(fields.clone());
    }
    if let Some(fields) = &declared.discard_fields {
        policy = policy.discard_fields(fields.clone());
    }
    policy
}

/// Computes the update of a simple agent.
fn computed(compute: &BTreeMap<String, Value>, state: &DynBaseState) -> Result<DynBaseUpdate, NodeError> {
    let values = compute.iter().map(|(channel, how)| {
        let prefixed = how.get("prefix").and_then(Value::as_str).zip(how.get("from").and_then(Value::as_str));
        let value = match prefixed {
            Some((prefix, from)) => Value::from(format!("{prefix}({})", text(state, from)?)),
            None => how.clone(),
        };
        Ok((channel.clone(), value))
    });
    update(state, values.collect::<Result<_, NodeError>>()?)
}

/// Builds an update of any channels.
pub(crate) fn update(state: &DynBaseState, object: Map<String, Value>) -> Result<DynBaseUpdate, NodeError> {
    let is_base = |name: &String| BaseState::CHANNELS.contains(name);
    let (base, more): (Map<_, _>, Map<_, _>) = object.into_iter().partition(|(name, _)| is_base(name));
    Ok(state.update(Value::Object(more))?.base(base_update(base)?))
}

/// Builds an update of the base state. A scenario can write only some of its channels.
fn base_update(object: Map<String, Value>) -> Result<BaseStateUpdate, NodeError> {
    object.into_iter().try_fold(BaseState::update(), |update, (name, value)| {
        Ok(match &*name {
            "current_agent_report" => update.current_agent_report(serde_json::from_value::<String>(value)?),
            "is_finished" => update.is_finished(serde_json::from_value::<bool>(value)?),
            "todo_list" => update.todo_list(serde_json::from_value::<hier_agents::TodoList>(value)?),
            "messages" => update.messages(serde_json::from_value::<hier_agents::Messages>(value)?),
            "current_agent_args" => update.current_agent_args(serde_json::from_value::<Map<String, Value>>(value)?),
            _ => return Err(NodeError::permanent(format!("a scenario cannot write the channel `{name}`"))),
        })
    })
}

/// Returns a channel's value as text. The text is empty if the channel has no value.
fn text(state: &DynBaseState, channel: &str) -> Result<String, NodeError> {
    let mut index = 0;
    while let Some(spec) = state.channel(index) {
        if spec.name == channel {
            return Ok(match state.to_json(index)? {
                None | Some(Value::Null) => String::new(),
                Some(Value::String(text)) => text,
                Some(other) => other.to_string(),
            });
        }
        index += 1;
    }
    Err(NodeError::permanent(format!("there is no channel `{channel}`")))
}

/// The tools of the scenarios.
struct Utensil(ToolName);

impl Utensil {
    /// Returns `None` for `finish_task`, which every agent has.
    fn of(name: ToolName) -> Option<Self> {
        (name != ToolName::FinishTask).then_some(Self(name))
    }

    fn name(&self) -> &'static str {
        match self.0 {
            ToolName::Echo => "echo",
            ToolName::Shout => "shout",
            ToolName::Note => "note",
            ToolName::FinishTask => "finish_task",
        }
    }

    fn run(&self, args: &Value) -> Option<String> {
        let text = |name: &str| args.get(name).and_then(Value::as_str);
        Some(match self.0 {
            ToolName::Echo => format!("echo:{}", text("value")?),
            ToolName::Shout => text("value")?.to_uppercase(),
            ToolName::Note => format!("noted {}={}", text("key")?, text("value")?),
            ToolName::FinishTask => return None,
        })
    }
}

#[async_trait]
impl Tool<DynBaseState, BaseContext> for Utensil {
    fn spec(&self) -> ToolSpec {
        let (name, description) = (self.name().to_owned(), self.name().to_owned());
        ToolSpec { name, description, parameters: json!({"type": "object"}) }
    }

    async fn call(
        &self,
        call: &ToolCall,
        _task: &Task<DynBaseState, BaseContext>,
    ) -> Result<ToolOutput<DynBaseState>, NodeError> {
        let output = match self.run(&call.args) {
            Some(text) => ToolOutput::Content(text.into()),
            None => ToolOutput::Invalid("an argument is missing or is no text".to_owned()),
        };
        Ok(output)
    }
}
