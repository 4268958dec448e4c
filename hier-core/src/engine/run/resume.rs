//! How a run of a durable thread begins: anew, or where it stopped.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use crate::checkpoint::{
    CodecError, DueChange, ListQuery, SaverError, SideEffects, Source, TaskWrites, WriteRecord, slot,
};
use crate::engine::attempt::stored::RoutingRecord;
use crate::engine::attempt::{resolve, stored};
use crate::engine::durable::answer::{Asked, Given};
use crate::engine::durable::journal::{Journal, StepMetadata};
use crate::engine::durable::kept::Place;
use crate::engine::durable::load::{Known, Loaded, Reader, load_with};
use crate::engine::durable::pending::Pending;
use crate::engine::durable::resumed::{Mode, Resumed};
use crate::engine::durable::{answer, check, input};
use crate::engine::log::committer::Committer;
use crate::engine::log::task_log::TaskLog;
use crate::engine::program::{Anyone, Command, Destinations, Input, Task, TaskKey};
use crate::engine::run::recall::Recalled;
use crate::engine::run::runner::Runner;
use crate::engine::step::Breakpoints;
use crate::error::RunError;
use crate::state::{Values, Writes};

/// Takes up a thread, or begins it, and applies what the run starts with.
pub(crate) async fn open<S, C>(
    runner: &mut Runner<S, C>,
    committer: &Arc<Committer>,
    given: Input<S>,
) -> Result<(), RunError>
where
    S: Values,
    C: Send + Sync + 'static,
{
    let graph = runner.task.graph.clone();
    let log =
        runner.task.run.shared.log.clone().unwrap_or_else(|| Arc::new(TaskLog::new(committer.clone(), "".into())));
    let config = runner.task.run.shared.config.clone();
    let thread = committer.lease.thread.clone();
    let fail = |error| RunError::Saver { graph: graph.plan.graph().to_owned(), error };
    let mut recalled = Recalled::of(&graph, &committer.saver, &thread, &config);
    let saved = recalled.read(&graph, &committer.saver, &thread, config.checkpoint).await.map_err(fail)?;
    let newest = newest(committer, config.checkpoint.is_some()).await.map_err(fail)?;
    let newest = newest.or(saved.as_ref().map(|saved| saved.checkpoint.id));
    let metadata = Arc::new(config.metadata.clone());
    let journal = |known| {
        Journal::new(&graph, log.clone(), metadata, Arc::new(BTreeMap::new()), known)
            .step_policy(config.step_policy.as_deref())
    };
    runner.breakpoints = Breakpoints::configured(&graph.plan, &config)?;
    runner.position.ledger.keep_notes(&graph.channels, &[]);
    let place = Place { graph: &*graph, saver: &committer.saver, thread: &thread, namespace: &[] };
    let stands = saved.as_ref().map(|saved| &saved.checkpoint);
    log.keep_all(place.opened(stands, config.checkpoint).await.map_err(fail)?);
    let Some(mut saved) = saved else {
        if let Some(id) = config.checkpoint {
            return Err(RunError::NoCheckpoint { thread: thread.to_string(), checkpoint: id.to_string() });
        }
        runner.journal = Some(Box::new(journal(Known { newest, ..Known::default() })));
        let given = first_input(&Reader { graph: &graph, thread: &thread }, given)?;
        return runner.begin_durably(given, -1).await;
    };
    if let Input::Whole(_) = given {
        return Err(RunError::WholeState { graph: graph.plan.graph().to_owned(), thread: thread.to_string() });
    }
    input::complete(&committer.saver, &thread, "", &mut saved).await.map_err(fail)?;
    let reader = Reader { graph: &graph, thread: &thread };
    let Loaded { checkpoint, state, position, pending, known } =
        load_with(&reader, (graph.initial)(), newest, (saved, recalled.conversations), false)?;
    let mut journal = journal(known);
    journal.recalled = recalled.since;
    runner.take_up(journal, state, position);
    let unfit = |error: CodecError| reader.unfit(error);
    if pending.waits().map_err(unfit)? {
        committer.waits();
    }
    let (writes, routes) = pending.null_writes(&reader, &runner.task.state).map_err(unfit)?;
    runner.apply_command(writes, routes)?;
    match given {
        Input::New(writes) | Input::Whole(writes) => {
            if newest.is_none_or(|newest| newest <= checkpoint.id) {
                runner.keep_begun(&pending, checkpoint.step).await?;
            }
            let open = pending.open().map_err(unfit)?.into_iter().flat_map(|(_, questions)| questions);
            runner.withdrawn =
                Some(open.filter(|question| !question.answered).map(|question| question.value).collect());
            runner.discard()?;
            runner.begin_durably(writes, checkpoint.step.saturating_add(1)).await
        }
        Input::Continue => go_on(runner, Command::default(), pending, &checkpoint).await,
        Input::Command(command) => go_on(runner, *command, pending, &checkpoint).await,
    }
}

/// The greatest id, where it is not that of the checkpoint which is loaded.
async fn newest(committer: &Committer, addressed: bool) -> Result<Option<uuid::Uuid>, SaverError> {
    if !addressed {
        return Ok(None);
    }
    let query = ListQuery { limit: Some(1), ..ListQuery::thread(&*committer.lease.thread) };
    Ok(committer.saver.list(query).await?.first().map(|listed| listed.checkpoint.id))
}

/// The input of a thread without checkpoints. A command's update is its input.
fn first_input<S: Values, C>(reader: &Reader<'_, S, C>, input: Input<S>) -> Result<Writes<S>, RunError> {
    match input {
        Input::New(writes) | Input::Whole(writes) => Ok(writes),
        Input::Command(command) if command.answers.is_some() && !reader.graph.lenient => {
            Err(answer::unknown_thread(reader))
        }
        Input::Command(command) if !command.writes.is_empty() || command.answers.is_some() => {
            check::goes_nowhere(reader.graph, &command)?;
            Ok(command.writes)
        }
        Input::Continue | Input::Command(_) => {
            Err(RunError::EmptyInput { graph: reader.graph.plan.graph().to_owned() })
        }
    }
}

/// Goes on where the thread stopped, with answers, an update or another direction.
async fn go_on<S, C>(
    runner: &mut Runner<S, C>,
    command: Command<S>,
    mut pending: Pending,
    checkpoint: &crate::checkpoint::Checkpoint,
) -> Result<(), RunError>
where
    S: Values,
    C: Send + Sync + 'static,
{
    let config = runner.task.run.shared.config.clone();
    let is_newest = runner.journal.as_ref().is_none_or(|journal| journal.is_newest(checkpoint.id));
    let replays = config.checkpoint.is_some() && command.answers.is_none();
    let forks = replays && !(is_newest && matches!(checkpoint.source, Source::Update | Source::Fork));
    let Command { writes, jumps, answers, .. } = command;
    let given = match &answers {
        Some(answers) => {
            let thread = config.thread_id().unwrap_or_default();
            let reader = Reader { graph: &*runner.task.graph, thread };
            Asked::new(reader, &pending, checkpoint, is_newest)?.give(answers)?
        }
        None => Given::default(),
    };
    let destinations = resolve::from_outside(&runner.task.graph.plan, jumps)?;
    let commands = !writes.is_empty() || !destinations.go.is_empty() || !destinations.sends.is_empty();
    let (mut records, mut also): (Vec<WriteRecord>, _) = (Vec::new(), SideEffects::default());
    if let Some(journal) = &runner.journal {
        for (namespace, writes) in given.writes {
            if *namespace == *journal.log.namespace {
                pending.absorb(writes.clone());
            }
            records.push(WriteRecord::Writes { namespace, writes });
        }
    }
    if config.checkpoint.is_none() {
        records.extend(wake(runner, &mut pending).await?);
        also.due = driven(runner);
    }
    if !records.is_empty() && !replays {
        // A program that cannot use the answer must not accept it.
        let thread = config.thread_id().unwrap_or_default();
        pending.check(&Reader { graph: &*runner.task.graph, thread }, &*runner.task.state)?;
    }
    let command = (commands && !forks).then_some((&writes, &destinations));
    records.extend(caller_record(runner, &pending, checkpoint.id, given.anyone.as_ref(), command)?);
    runner.apply_command(writes, vec![destinations])?;
    store_now(runner, records, also).await?;
    runner.resume_at(checkpoint.step.saturating_add(1));
    if forks {
        runner.fork().await?;
    }
    let unreadable = |error| runner.unreadable(&error);
    let resumed = if forks {
        None
    } else if replays {
        runner.void_pending(&mut pending).await?;
        Some(Resumed { pending, mode: Mode::Afresh, anyone: None, open: None })
    } else {
        runner.keep_begun(&pending, checkpoint.step).await?;
        let mode = if config.checkpoint.is_none() || is_newest { Mode::GoOn } else { Mode::Again };
        let anyone = match (given.anyone, answers) {
            (None, None) => pending.anyone().map_err(unreadable)?,
            (anyone, _) => anyone,
        };
        let anyone = anyone.map(|answer| Arc::new(Anyone::new(answer, "".into(), checkpoint.id)));
        let open = pending.open_beside_answered().map_err(unreadable)?;
        // A turn that begins where a step was stored begins the next as a run in one go does: of its tasks nothing can be known.
        let begins = runner.step_policy().is_some_and(|policy| policy.resumes_between_steps())
            && pending.is_empty()
            && anyone.is_none();
        (!begins).then_some(Resumed { pending, mode, anyone, open })
    };
    runner.resume(resumed, if forks { Source::Fork } else { checkpoint.source });
    runner.enter_stored().await
}

/// Answers what is due, and what waits for a signal that has come.
async fn wake<S, C>(runner: &Runner<S, C>, pending: &mut Pending) -> Result<Vec<WriteRecord>, RunError>
where
    S: Values,
    C: Send + Sync + 'static,
{
    let Some(journal) = &runner.journal else { return Ok(Vec::new()) };
    let committer = &journal.log.committer;
    if !committer.has_waited() {
        return Ok(Vec::new());
    }
    let mail = committer.mail().await.map_err(|error| journal.saver(error))?;
    let woken = pending.woken(runner.task.run.shared.config.now(), &mail).map_err(|error| runner.unsaved(&error))?;
    let mut records = Vec::with_capacity(woken.len());
    for (namespace, writes) in woken {
        if *namespace == *journal.log.namespace {
            pending.absorb(writes.clone());
        }
        records.push(WriteRecord::Writes { namespace, writes });
    }
    Ok(records)
}

/// Stores what came from the caller: it is not to be lost, whatever the run's durability.
async fn store_now<S: Values, C: Send + Sync + 'static>(
    runner: &Runner<S, C>,
    records: Vec<WriteRecord>,
    also: SideEffects,
) -> Result<(), RunError> {
    let Some(journal) = &runner.journal else { return Ok(()) };
    let committer = &journal.log.committer;
    let stored =
        if also.is_empty() { committer.commit_now(records).await } else { committer.commit_also(records, also).await };
    stored.map_err(|error| journal.saver(error))
}

/// Keeps a thread due until the run has ended if a task waits or has waited. If the run's process is killed after it was woken, the
/// thread is found again.
fn driven<S: Values, C: Send + Sync + 'static>(runner: &Runner<S, C>) -> Option<DueChange> {
    let committer = &runner.journal.as_ref()?.log.committer;
    let until = runner.task.run.shared.config.now().checked_add(committer.lease.lasts)?;
    committer.has_waited().then(|| DueChange::Driven { until, graph: committer.graph.clone() })
}

/// What a caller gave that is no task's, to be stored beside the checkpoint, which stays as it is: a command, and an answer
/// for the first task that asks.
fn caller_record<S, C>(
    runner: &Runner<S, C>,
    pending: &Pending,
    checkpoint: uuid::Uuid,
    anyone: Option<&Value>,
    command: Option<(&Writes<S>, &Destinations)>,
) -> Result<Option<WriteRecord>, RunError>
where
    S: Values,
    C: Send + Sync + 'static,
{
    let Some(journal) = &runner.journal else { return Ok(None) };
    let entries = || {
        let mut list = Vec::new();
        if let Some(answer) = anyone {
            list.push(stored::entry(slot::RESUME, stored::RESUME, answer)?);
        }
        if let Some((writes, destinations)) = command {
            let first = pending.null_slot();
            list.append(&mut stored::writes(first, writes)?);
            let end = first.saturating_add(i32::try_from(writes.len()).unwrap_or(i32::MAX));
            list.push(stored::entry(
                end,
                stored::ROUTING,
                &RoutingRecord::of(&runner.task.graph, writes, destinations, false)?,
            )?);
        }
        Ok(list)
    };
    let writes = entries().map_err(|error| runner.unsaved(&error))?;
    let writes = TaskWrites { checkpoint, task: uuid::Uuid::nil(), path: "~".into(), writes };
    Ok((!writes.writes.is_empty()).then(|| journal.log.record(writes)))
}

impl<S: Values, C: Send + Sync + 'static> Runner<S, C> {
    /// Applies what callers' commands wrote, and follows where they led. What is to run next stays.
    fn apply_command(&mut self, writes: Writes<S>, destinations: Vec<Destinations>) -> Result<(), RunError> {
        let Task { graph, state, .. } = &mut self.task;
        self.position.apply_outside(graph, Arc::make_mut(state), writes)?;
        for destinations in destinations {
            self.position.follow(&graph.plan, destinations);
        }
        Ok(())
    }

    /// A new input follows step `step − 1`: it is stored, then applied.
    pub(in crate::engine) async fn begin_durably(&mut self, input: Writes<S>, step: i64) -> Result<(), RunError> {
        self.enter_at(step);
        let input = self.entered(input).await?;
        let mut agenda = self.position.agenda(&self.task.graph)?;
        agenda.start = true;
        let metadata = StepMetadata { step, source: Source::Input, agenda };
        let (Some(journal), Some(changes)) = (&mut self.journal, &mut self.position.ledger.changes) else {
            return Ok(());
        };
        let record = journal.input(&input, &*self.task.state, changes, metadata)?;
        self.position.set_input(Some(input));
        self.emit_checkpoint(step, Source::Input);
        self.step = self.step.saturating_add(1);
        self.apply_start(record).await
    }

    /// Follows START, and stores the input before and the step after in one go.
    pub(in crate::engine) async fn apply_start(&mut self, record: Option<WriteRecord>) -> Result<(), RunError> {
        let mut applied = self.begin_step();
        if applied.is_ok() {
            applied = self.leave_if_over().await;
        }
        let mut records: Vec<WriteRecord> = record.into_iter().collect();
        let (mut taken, mut refused) = (Vec::new(), None);
        if applied.is_ok() && self.task.graph.inbox.is_some() {
            match Box::pin(self.drain()).await {
                Ok(letters) => taken = letters,
                // The input is stored and applied even if the mailbox has a bad message.
                Err(error) => refused = Some(error),
            }
        }
        if applied.is_ok()
            && let Some(step) = self.step_record(Source::Loop)?
        {
            for input in &mut records {
                input::shorten(input, &step);
            }
            records.push(step);
        }
        self.commit_drained(records, taken).await?;
        applied?;
        self.emit_checkpoint(self.step, Source::Loop);
        self.step = self.step.saturating_add(1);
        refused.map_or(Ok(()), Err)
    }

    /// What calls of the open step have done, which follows this step, belongs to what the graph's subgraphs keep.
    pub(in crate::engine) async fn keep_begun(&self, pending: &Pending, step: i64) -> Result<(), RunError> {
        let Some(journal) = &self.journal else { return Ok(()) };
        let Committer { saver, lease, .. } = &*journal.log.committer;
        let namespace = &*self.task.run.shared.namespace;
        let place = Place { graph: &*self.task.graph, saver, thread: &lease.thread, namespace };
        let keys: Vec<TaskKey> = self.position.tasks(step.saturating_add(1)).collect();
        let (mut kept, base) = (journal.log.kept(), journal.base.unwrap_or_default());
        let begun = place.begun(&mut kept, pending, keys.into_iter(), base).await;
        begun.map_err(|error| journal.saver(error))?;
        journal.log.keep_all(kept);
        Ok(())
    }

    /// Branches off.
    async fn fork(&mut self) -> Result<(), RunError> {
        let record = self.step_record(Source::Fork)?;
        self.commit(record.into_iter().collect()).await?;
        self.step = self.step.saturating_add(1);
        Ok(())
    }

    /// A checkpoint is run again under its own id: what its tasks stored there is void, answers too.
    async fn void_pending(&self, pending: &mut Pending) -> Result<(), RunError> {
        let Some(journal) = &self.journal else { return Ok(()) };
        let void = pending.void().map_err(|error| self.unsaved(&error))?;
        if void.is_empty() {
            return Ok(());
        }
        let records = void.iter().cloned().map(|writes| journal.log.record(writes)).collect();
        store_now(self, records, SideEffects::default()).await?;
        void.into_iter().filter(|writes| !writes.task.is_nil()).for_each(|writes| pending.absorb(writes));
        Ok(())
    }

    fn unreadable(&self, error: &CodecError) -> RunError {
        let thread = self.task.run.shared.config.thread_id().unwrap_or_default();
        Reader { graph: &*self.task.graph, thread }.unfit(error)
    }

    fn unsaved(&self, error: &crate::error::NodeError) -> RunError {
        RunError::Encode {
            graph: self.graph_name(),
            what: "what was given to the thread".to_owned(),
            reason: error.to_string(),
        }
    }
}
