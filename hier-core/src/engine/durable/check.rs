//! Checks the input of a run before the thread is claimed, so that a refused input does not end another run.
//!
//! Everything is checked again under the lease.

use crate::checkpoint::{ListQuery, Saved, check_new_thread};
use crate::config::Config;
use crate::engine::attempt::resolve;
use crate::engine::durable::answer::{self, AnswerRouter};
use crate::engine::durable::pending::Pending;
use crate::engine::durable::thread_reader::ThreadReader;
use crate::engine::log::saver::Saver;
use crate::engine::program::{Command, CommandAnswers, GraphContext, Input, Program};
use crate::engine::step::Breakpoints;
use crate::error::RunError;
use crate::state::Values;

pub(crate) async fn check_input<S: Values, C: GraphContext>(
    graph: &Program<S, C>,
    saver: &Saver,
    config: &Config,
    input: &Input<S>,
) -> Result<(), RunError> {
    Breakpoints::configured(&graph.plan, config)?;
    let reader = ThreadReader::of_config(graph, config)?;
    let check_name = || check_new_thread(reader.thread).map_err(|error| reader.failed(error));
    if matches!(input, Input::New(_) | Input::Whole(_)) {
        check_name()?;
    }
    match input {
        Input::New(_) if config.checkpoint.is_none() => Ok(()),
        Input::New(_) => stored(reader, saver, config).await.map(|_| ()),
        Input::Whole(_) if exists(reader, saver, config).await? => {
            Err(RunError::WholeState { graph: reader.graph_name(), thread: reader.thread.to_owned() })
        }
        Input::Whole(_) | Input::Enter => Ok(()),
        Input::Continue if exists(reader, saver, config).await? => Ok(()),
        Input::Continue => Err(RunError::EmptyInput { graph: graph.plan.graph().to_owned() }),
        Input::Command(command) => {
            let destinations = resolve::from_outside(&graph.plan, command.jumps.iter().cloned())?;
            for (node, arg) in destinations.sends.iter() {
                graph.sent_state(node, Some(&arg)).map_err(|error| RunError::Update {
                    graph: graph.plan.graph().to_owned(),
                    reason: error.to_string(),
                })?;
            }
            match &command.answers {
                Some(answers) => check_answers(reader, saver, config, answers).await,
                None if exists(reader, saver, config).await? => Ok(()),
                None if is_input(command) => check_name().and_then(|()| check_targets(graph, command)),
                None => Err(RunError::EmptyInput { graph: graph.plan.graph().to_owned() }),
            }
        }
    }
}

/// Returns true if a command without answers can start a run.
pub(in crate::engine) fn is_input<S: Values>(command: &Command<S>) -> bool {
    !command.writes.is_empty() || !command.jumps.is_empty()
}

/// Refuses targets in a command that starts a run, because a run enters its graph at START.
pub(in crate::engine) fn check_targets<S: Values, C>(
    graph: &Program<S, C>,
    command: &Command<S>,
) -> Result<(), RunError> {
    let Some(jump) = command.jumps.first() else { return Ok(()) };
    // LangGraph ignores the targets.
    if graph.lenient {
        return Ok(());
    }
    let node = jump.node.as_deref().unwrap_or(hier_spec::END);
    let reason = format!(
        "the command goes to `{node}`, and nothing has run yet: begin with an input, which enters the graph at START, and let a route decide"
    );
    Err(RunError::Update { graph: graph.plan.graph().to_owned(), reason })
}

async fn exists<S: Values, C>(
    reader: ThreadReader<'_, S, C>,
    saver: &Saver,
    config: &Config,
) -> Result<bool, RunError> {
    if config.checkpoint.is_some() {
        return Ok(stored(reader, saver, config).await?.is_some());
    }
    let query = ListQuery { namespace: Some(String::new()), limit: Some(1), ..ListQuery::thread(reader.thread) };
    Ok(!saver.list(query).await.map_err(|error| reader.failed(error))?.is_empty())
}

async fn stored<S: Values, C>(
    reader: ThreadReader<'_, S, C>,
    saver: &Saver,
    config: &Config,
) -> Result<Option<Saved>, RunError> {
    let found = saver.get(reader.thread, "", config.checkpoint).await.map_err(|error| reader.failed(error))?;
    match (found, config.checkpoint) {
        (None, Some(id)) => {
            Err(RunError::NoCheckpoint { thread: reader.thread.to_owned(), checkpoint: id.to_string() })
        }
        (found, _) => Ok(found),
    }
}

async fn check_answers<S: Values, C>(
    reader: ThreadReader<'_, S, C>,
    saver: &Saver,
    config: &Config,
    answers: &CommandAnswers,
) -> Result<(), RunError> {
    let Some(Saved { checkpoint, writes, .. }) = stored(reader, saver, config).await? else {
        return if reader.graph.lenient { Ok(()) } else { Err(answer::unknown_thread(reader)) };
    };
    let mut is_newest = true;
    if config.checkpoint.is_some() {
        let query = ListQuery { limit: Some(1), ..ListQuery::thread(reader.thread) };
        let listed = saver.list(query).await.map_err(|error| reader.failed(error))?;
        is_newest = listed.first().is_none_or(|listed| listed.checkpoint.id <= checkpoint.id);
    }
    let pending = Pending::new(writes, &reader.graph.renamed, None);
    if pending.has_command_of(config.author()).map_err(|error| reader.unfit(error))? {
        return Ok(());
    }
    AnswerRouter::new(reader, &pending, &checkpoint, is_newest)?.route(answers).map(|_| ())
}
