//! Agents and graphs over a state whose channels are declared at run time.

use std::sync::Arc;

use hier_spec::agent::AgentKind;
use serde_json::Value;

use super::AgentBuilder;
use crate::state::context::BaseContext;
use crate::state::dynamic::{DynBaseState, DynBaseUpdate};
use hier_core::graph::GraphBuilder;
use hier_core::state::{DynUpdate, Schema, Update};

impl<C: AsRef<BaseContext> + Send + Sync + 'static> AgentBuilder<DynBaseState, C> {
    /// Creates a builder of an `Agent`, which ends when its model replies without a tool call. The agent's state
    /// contains the channels of [`BaseState`](crate::BaseState) and those in `schema`.
    pub fn dynamic(name: impl Into<Arc<str>>, schema: &Arc<Schema>) -> Self {
        Self::of_schema(AgentKind::Agent, name, schema)
    }

    /// Creates a builder of a `ReactGraph`, which asks its model until the model calls `report_to_supervisor` or
    /// `finish_task`. The agent's state contains the channels of [`BaseState`](crate::BaseState) and those in `schema`.
    pub fn dynamic_react(name: impl Into<Arc<str>>, schema: &Arc<Schema>) -> Self {
        Self::of_schema(AgentKind::React, name, schema)
    }

    fn of_schema(kind: AgentKind, name: impl Into<Arc<str>>, schema: &Arc<Schema>) -> Self {
        let (channels, schema) = (DynBaseState::channels(schema), schema.clone());
        Self::over(kind, name, channels, Arc::new(move || DynBaseState::initial(&schema)))
    }

    /// Creates a builder of a `TodoGraph`: a `ReactGraph` that may report only when its TODO list is complete. The
    /// agent's state contains the channels of [`BaseState`](crate::BaseState) and those in `schema`.
    pub fn dynamic_todo(name: impl Into<Arc<str>>, schema: &Arc<Schema>) -> Self {
        Self::of_schema(AgentKind::Todo, name, schema)
    }

    /// Makes the agent also write its report to the channel of `schema` whose name is `channel`. The channel must not
    /// have a reducer.
    pub fn report_into_channel(self, schema: &Arc<Schema>, channel: &str) -> Self {
        let report = |schema: &Schema, channel: &str, report| DynUpdate::default().write(schema, channel, report);
        if let Err(error) = report(schema, channel, Value::Null) {
            return self.with_mistake(format!("`report_into`: {error}"));
        }
        let (schema, channel) = (schema.clone(), channel.to_owned());
        self.report_with(move |text| {
            // The channel was checked above.
            let update = report(&schema, &channel, Value::from(text)).unwrap_or_default();
            DynBaseUpdate::from_dynamic(update).into_writes()
        })
    }
}

impl DynBaseState {
    /// Creates a builder of a graph without a model. Use this function for the members of a hierarchy that are not
    /// agents. The graph's state contains the channels of [`BaseState`](crate::BaseState) and those in `schema`.
    pub fn graph<C: Send + Sync + 'static>(name: impl Into<String>, schema: &Arc<Schema>) -> GraphBuilder<Self, C> {
        let (channels, schema) = (Self::channels(schema), schema.clone());
        GraphBuilder::over(name.into(), channels, Arc::new(move || Self::initial(&schema)))
    }
}
