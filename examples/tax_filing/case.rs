//! Starts a case, continues it or shows it again.

use std::sync::Arc;

use hier::agent::{AgentStuck, BaseState, ConversationLabels};
use hier::graph::CompiledGraph;
use hier::prelude::*;

use crate::agents::{Desk, TaxCase};
use crate::artifact::Filing;
use crate::input::Problems;
use crate::view::View;

/// The end of a case.
pub(crate) enum End {
    /// The return, and the labels of what the agents have read.
    Filed(Arc<Filing>, ConversationLabels),
    /// It was cancelled.
    Cancelled,
    /// It cannot continue, for this reason.
    Failed(String),
}

type Case = CompiledGraph<TaxCase, Desk>;

/// Runs a case to its end from its current state.
pub(crate) async fn run(case: Case, config: Config, desk: Desk, durable: bool, view: &mut View) -> hier::Result<End> {
    let open = if durable { Some(case.state(config.clone()).await?) } else { None };
    let is_open = open.as_ref().is_some_and(|open| !open.is_finished());
    if let Some(open) = &open {
        if let (Some(filing), false) = (&open.values.artifact.filing, is_open) {
            return Ok(End::Filed(filing.clone(), open.values.base.trust_labels));
        }
        view.expect(open.values.artifact.positions());
        open.values.base.progress.iter().for_each(|(agent, calls)| view.calls(agent, calls));
    }
    let modes: &[StreamMode] = if view.is_shown() { &[StreamMode::Updates] } else { &[] };
    let config = config.stream_subgraphs(true);
    let mut events = if is_open {
        case.stream(()).config(config).context(desk).modes(modes.iter().copied())
    } else {
        case.stream(TaxCase::update()).config(config).context(desk).modes(modes.iter().copied())
    };
    while let Some(event) = events.next().await {
        match event {
            Ok(event) => view.updated(&event.data()?),
            Err(error) => return Ok(ended(&error)),
        }
    }
    match events.outcome().await {
        Ok(outcome) => Ok(outcome_of(outcome.state())),
        Err(error) => Ok(ended(&error)),
    }
}

fn outcome_of(state: &TaxCase) -> End {
    let BaseState { current_agent_report, trust_labels, .. } = &state.base;
    match &state.artifact.filing {
        Some(filing) => End::Filed(filing.clone(), *trust_labels),
        None => End::Failed(format!("the agents ended without a return: {current_agent_report}")),
    }
}

/// Translates an error of the run.
fn ended(error: &RunError) -> End {
    if let RunError::Cancelled { .. } = error.root() {
        return End::Cancelled;
    }
    if let Some(stuck) = AgentStuck::find_in(error) {
        return End::Failed(stuck.to_string());
    }
    End::Failed(problems(error).map_or_else(|| error.to_string(), Problems::to_string))
}

/// Finds the problems of the papers in the error, if they are its cause.
fn problems(error: &RunError) -> Option<&Problems> {
    match error.root() {
        RunError::Node { error, .. } => error.source()?.downcast_ref(),
        _ => None,
    }
}
