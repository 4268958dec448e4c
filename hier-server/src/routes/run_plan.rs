//! Turns the body of a request into a run: finds the assistant, checks the fields, and adds the run to its thread.

use hier_core::checkpoint::Checkpointer;
use hier_core::runs::{
    Assistant, MultitaskStrategy, NewRun, NewThread, OnDisconnect, Request, Run, StreamMode, ThreadIs, ThreadRow,
};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::answers::Answers;
use super::disconnect::{DisconnectGuard, create_guarded};
use super::{answers, inbox};
use crate::app::{Caller, matches};
use crate::auth::{Action, Resource, User};
use crate::body::id;
use crate::error::{ApiError, ApiResult};
use crate::fault::{refused, saver};
use crate::graphs::ServedGraph;
use crate::reserved;
use crate::stream::translate::recorded;
use crate::wire::connector;
use crate::wire::run::{CommandBody, IfNotExists, Multitask, OnCompletion, OneOrMany, RunCreate};

/// The way in which a client of the runs API receives the result of its run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ResponseMode {
    /// At once, as the row of the run.
    Background,
    /// At the end of the run, as its output.
    Wait,
    /// As a stream of events.
    Stream,
}

/// The events that a run records.
#[derive(Clone, Debug)]
pub(crate) struct Recording {
    pub(crate) modes: Vec<StreamMode>,
    pub(crate) subgraphs: bool,
}

/// A run that a client requests.
pub(crate) struct RunPlan<'a> {
    /// `None` for a run on a new thread.
    thread: Option<&'a str>,
    body: &'a RunCreate,
    recording: Recording,
    /// True if the thread is deleted when the run ends.
    temporary: bool,
}

/// The parts of a run that do not depend on its thread.
pub(crate) struct ResolvedRun {
    pub(crate) assistant: Assistant,
    pub(crate) request: Request,
    pub(crate) strategy: MultitaskStrategy,
    /// Fields that the metadata of the thread must contain.
    pub(crate) filter: Map<String, Value>,
}

impl<'a> RunPlan<'a> {
    /// Plans a run that records the events for which the client asks.
    pub(crate) fn for_client(thread: Option<&'a str>, body: &'a RunCreate, response: ResponseMode) -> Self {
        let temporary = thread.is_none() && body.on_completion.unwrap_or_default() == OnCompletion::Delete;
        let options = body.options();
        // No other client knows the thread, and this client reads only the output.
        let needs_no_events = temporary && response == ResponseMode::Wait;
        let modes = if needs_no_events { Vec::new() } else { recorded(&options.stream_mode) };
        Self { thread, body, recording: Recording { modes, subgraphs: options.stream_subgraphs }, temporary }
    }

    /// Plans a run that records the events that another protocol needs.
    pub(crate) fn recording(thread: &'a str, body: &'a RunCreate, recording: Recording) -> Self {
        Self { thread: Some(thread), body, recording, temporary: false }
    }

    /// Adds the run, or sends its input to the run that is in progress.
    pub(crate) async fn start(&self, caller: &Caller) -> ApiResult<Run> {
        let new = self.check(caller).await?;
        match self.inject(caller, &new, OnDisconnect::Continue).await? {
            Some((run, _)) => Ok(run),
            None => caller.app.create_run(new).await.map_err(refused),
        }
    }

    /// Adds the run like [`start`](Self::start), for a client that stays connected.
    pub(crate) async fn start_guarded(&self, caller: &Caller) -> ApiResult<(Run, DisconnectGuard)> {
        let new = self.check(caller).await?;
        match self.inject(caller, &new, new.on_disconnect).await? {
            Some(receiver) => Ok(receiver),
            None => create_guarded(&caller.app, new).await,
        }
    }

    /// With the strategy `inject`, sends the input to the run that is in progress. Returns `None` with other
    /// strategies, or if no run is in progress. See [`inbox::inject`] for `on_disconnect`.
    pub(super) async fn inject(
        &self,
        caller: &Caller,
        new: &NewRun,
        on_disconnect: OnDisconnect,
    ) -> ApiResult<Option<(Run, DisconnectGuard)>> {
        if self.body.multitask_strategy != Some(Multitask::Inject) || self.thread.is_none() {
            return Ok(None);
        }
        inbox::inject(caller, &new.thread, new.on.clone().unwrap_or_default(), &new.request, on_disconnect).await
    }

    /// Checks everything except the thread. A cron stores the result, from which its runs are made later.
    pub(super) async fn resolve(&self, caller: &Caller) -> ApiResult<ResolvedRun> {
        let name = self.body.assistant_id.0.as_deref();
        let missing = || ApiError::invalid("`assistant_id` is missing: give an assistant's id or a graph's name");
        let assistant = caller.assistant_or_graph(name.ok_or_else(missing)?).await?;
        let graph = caller.app.graph(&assistant.graph)?;
        let request = self.request(caller, &assistant, graph)?;
        let filter = caller.may(Resource::Threads, Action::CreateRun).await?;
        let strategy = strategy(self.body.multitask_strategy.unwrap_or_default());
        Ok(ResolvedRun { assistant, request, strategy, filter })
    }

    pub(super) async fn check(&self, caller: &Caller) -> ApiResult<NewRun> {
        let body = self.body;
        let ResolvedRun { assistant, request, strategy, filter } = self.resolve(caller).await?;
        let thread = self.thread.map_or_else(|| Ok(Uuid::now_v7()), |thread| id("thread", thread))?;
        let mut new = NewRun::new(thread.to_string(), assistant.graph.clone(), request);
        self.check_thread(caller, thread, filter, &mut new).await?;
        check_checkpoint(caller, &new).await?;
        new.multitask_strategy = strategy;
        let answers = answers::check(caller, body, &mut new).await?;
        new.id = Some(body.run_id.unwrap_or_else(Uuid::now_v7));
        new.assistant = Some(assistant.id.clone());
        new.metadata = metadata(body, &assistant);
        if answers == Answers::OnlyResults && !strategy.spares_others() {
            // The strategy would stop the running run, which may be storing the result of another tool. Clients send
            // each result only once.
            new.multitask_strategy = MultitaskStrategy::Enqueue;
        }
        new.on_disconnect = body.on_disconnect.unwrap_or_default();
        new.after = body.delay().map_err(ApiError::invalid)?;
        new.temporary = self.temporary;
        Ok(new)
    }

    /// Checks that the thread exists or may be created. Writes the conditions into the new run, because the store
    /// checks them again.
    async fn check_thread(
        &self,
        caller: &Caller,
        thread: Uuid,
        filter: Map<String, Value>,
        new: &mut NewRun,
    ) -> ApiResult<()> {
        let is_new = self.thread.is_none() || self.body.if_not_exists == Some(IfNotExists::Create);
        let create = if is_new { Some(caller.may(Resource::Threads, Action::Create).await) } else { None };
        let is_derived = reserved::is_derived(thread);
        let is_open = !is_derived
            && filter.is_empty()
            && create.as_ref().is_some_and(|may| may.as_ref().is_ok_and(Map::is_empty));
        // The store creates a missing thread. An existing thread must be read to find out if it belongs to another
        // user.
        let known: Option<ThreadRow> = if self.thread.is_some() && !is_open {
            caller.app.runs.thread(&new.thread).await.map_err(refused)?
        } else {
            None
        };
        // The store checks this again when the run is added, because the thread may have been created or deleted
        // meanwhile.
        if known.is_some() || !filter.is_empty() {
            let created = known.as_ref().map(|row| row.created);
            new.on = Some(ThreadIs { created, metadata: filter.clone() });
        }
        match (&known, create) {
            (Some(row), _) if matches(&row.metadata, &filter) => {}
            (None, Some(may)) => {
                let mut made = NewThread::new(new.thread.clone());
                made.metadata.extend(filter.into_iter().chain(may?));
                new.new_thread = Some(made);
            }
            _ => return Err(ApiError::not_found("Thread or assistant not found.")),
        }
        // Only the route for AG-UI sets the ids of runs. Only this route may create threads with derived ids.
        if new.new_thread.is_some() && self.body.run_id.is_none() && is_derived {
            return Err(ApiError::invalid(reserved::REFUSED));
        }
        Ok(())
    }

    /// Combines the body with the assistant's configuration. Values of the body take precedence.
    fn request(&self, caller: &Caller, assistant: &Assistant, graph: &ServedGraph) -> ApiResult<Request> {
        let body = self.body;
        let mut request = Request::default();
        request.input = body.input.clone().unwrap_or_default();
        graph.without_connector_fields(&mut request.input);
        request.command = body.command.as_ref().map(command).transpose().map_err(ApiError::invalid)?;
        graph.check(&request).map_err(ApiError::invalid)?;
        request.config = config(body, assistant);
        check_limit(&request.config).map_err(ApiError::invalid)?;
        request.context = context(body, assistant, &request.config);
        add_user(&mut request.config, &caller.user);
        request.stream_modes.clone_from(&self.recording.modes);
        request.stream_subgraphs = self.recording.subgraphs;
        request.interrupt_before = nodes(graph, "interrupt_before", body.interrupt_before.as_ref())?;
        request.interrupt_after = nodes(graph, "interrupt_after", body.interrupt_after.as_ref())?;
        request.durability = body.durability();
        let start = body.start().map_err(ApiError::invalid)?;
        (request.checkpoint, request.checkpoint_ns) = (start.checkpoint, start.namespace.unwrap_or_default());
        if let Some(address) = &body.webhook {
            caller.app.webhooks.check(address).map_err(ApiError::invalid)?;
            request.webhook = Some(address.clone());
        }
        request.options = body.options();
        let secrets = graph.graph.secret_channels();
        request.secrets = secrets.into_iter().map(|secret| secret.channel).collect();
        Ok(request)
    }
}

/// Refuses a checkpoint that the thread does not have, because the run would fail and change the status of the thread.
/// The engine finds the checkpoints of subgraphs.
async fn check_checkpoint(caller: &Caller, new: &NewRun) -> ApiResult<()> {
    let root = new.request.checkpoint.filter(|_| new.request.checkpoint_ns.is_empty());
    let Some(checkpoint) = root else { return Ok(()) };
    let is_elsewhere = caller.app.graph(&new.graph)?.graph.runs_elsewhere();
    if is_elsewhere
        || caller.app.runs.get(&new.thread, "", Some(checkpoint)).await.map_err(|error| saver(&error))?.is_some()
    {
        return Ok(());
    }
    Err(ApiError::invalid(format!(
        "`checkpoint`: thread {} has no checkpoint {checkpoint}: `GET /threads/{{thread_id}}/history` lists the checkpoints",
        new.thread
    )))
}

/// Translates a command for the engine. This includes answers in the form of a connector, which nodes cannot read.
fn command(body: &CommandBody) -> Result<Value, String> {
    let mut body = body.clone();
    if let Some(resume) = &mut body.resume {
        let answers = connector::answers(resume).map_err(|reason| format!("`command.resume`: {reason}"))?;
        *resume = answers.unwrap_or_else(|| resume.take());
    }
    Ok(json!(body))
}

fn strategy(word: Multitask) -> MultitaskStrategy {
    match word {
        Multitask::Reject => MultitaskStrategy::Reject,
        // If no run can receive the input, a new one starts.
        Multitask::Enqueue | Multitask::Inject => MultitaskStrategy::Enqueue,
        Multitask::Interrupt => MultitaskStrategy::Interrupt,
        Multitask::Rollback => MultitaskStrategy::Rollback,
    }
}

fn metadata(body: &RunCreate, assistant: &Assistant) -> Map<String, Value> {
    let mut metadata = assistant.metadata.clone();
    metadata.extend(body.metadata.clone().unwrap_or_default());
    metadata.insert("graph_id".to_owned(), assistant.graph.as_str().into());
    metadata.insert("assistant_id".to_owned(), assistant.id.as_str().into());
    metadata
}

/// Merges the body's configuration into the assistant's. Removes the fields that only the server sets, such as the
/// thread, which the route names, and the user, whom the credentials name.
pub(crate) fn config(body: &RunCreate, assistant: &Assistant) -> Map<String, Value> {
    let mut config = assistant.config.clone();
    let given = body.config.as_ref().and_then(|config| match json!(config) {
        Value::Object(config) => Some(config),
        _ => None,
    });
    for (name, value) in given.unwrap_or_default() {
        match (config.get_mut(&name).and_then(Value::as_object_mut), value) {
            (Some(old), Value::Object(new)) => old.extend(new),
            (_, value) => drop(config.insert(name, value)),
        }
    }
    match config.get_mut("configurable") {
        Some(Value::Object(fields)) => fields.retain(|name, _| !reserved::is_own(name)),
        Some(_) => drop(config.remove("configurable")),
        None => {}
    }
    config
}

/// Refuses a limit with which the run would fail, because a failed run changes the status of its thread.
pub(super) fn check_limit(config: &Map<String, Value>) -> Result<(), &'static str> {
    match config.get("recursion_limit") {
        None | Some(Value::Null) => Ok(()),
        Some(limit) if limit.as_u64().is_some_and(|limit| limit > 0) => Ok(()),
        Some(_) => Err("`config.recursion_limit` is not a whole number of 1 or more"),
    }
}

/// Returns the context of the run. This is the `context` of the body, or else the `configurable` of the body, or else
/// the context of the assistant.
pub(crate) fn context(body: &RunCreate, assistant: &Assistant, config: &Map<String, Value>) -> Value {
    let configurable = config.get("configurable").filter(|value| value.as_object().is_some_and(|map| !map.is_empty()));
    match (&body.context, &assistant.context) {
        (Some(context), _) if !context.is_null() => context.clone(),
        (_, Value::Null) => configurable.cloned().unwrap_or_default(),
        (_, context) if configurable.is_none() || body.config.is_none() => context.clone(),
        _ => configurable.cloned().unwrap_or_default(),
    }
}

/// Returns the configuration of another user's run for a run of this user.
pub(crate) fn config_for(user: &User, config: &Map<String, Value>) -> Map<String, Value> {
    let mut config = config.clone();
    if let Some(configurable) = config.get_mut("configurable").and_then(Value::as_object_mut) {
        configurable.retain(|name, _| !name.starts_with(reserved::USER));
    }
    add_user(&mut config, user);
    config
}

fn add_user(config: &mut Map<String, Value>, user: &User) {
    if user.identity.is_empty() {
        return;
    }
    let User { identity, permissions, claims } = user;
    let user = json!({ "identity": identity, "permissions": permissions, "claims": claims });
    let configurable = config.entry("configurable").or_insert_with(|| json!({}));
    configurable[reserved::USER] = user;
}

fn nodes(graph: &ServedGraph, field: &str, named: Option<&OneOrMany<String>>) -> ApiResult<Option<Vec<String>>> {
    let nodes = named.cloned().map(OneOrMany::into_vec);
    let spec = graph.graph.spec();
    match nodes.iter().flatten().find(|node| *node != "*" && spec.node(node).is_none()) {
        Some(unknown) => Err(ApiError::invalid(format!("`{field}`: {}", spec.unknown_node(unknown)))),
        None => Ok(nodes),
    }
}
