//! Collects the reports of background subagents, and passes their questions on to the operator.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures_util::future::join_all;
use serde_json::Value;
use tokio::time::Instant;

use super::{Answered, BackgroundTools, Chosen};
use crate::prompts;
use crate::react::agent::writing;
use crate::react::background_calls::collects;
use crate::react::background_set::SubagentEnd;
use crate::state::background::{BackgroundStatus, BackgroundSubagent};
use crate::state::base::BaseState;
use crate::state::labels::ConversationLabels;
use crate::state::progress::{CallCounts, Progress};
use hier_core::graph::Command;
use hier_core::state::{Contains, State, Values};
use hier_core::{NodeError, NodeErrorKind, Question};

/// Time after which this run tries again to continue a subagent that another run drives.
const AGAIN: Duration = Duration::from_secs(1);

/// The longest time to wait, in seconds: about 30 years, which every clock can add.
const LONGEST: f64 = 1e9;

#[derive(Default)]
struct Collected {
    texts: Vec<String>,
    /// The ends, by threads.
    ended: Vec<(Arc<str>, (String, BackgroundSubagent))>,
    labels: ConversationLabels,
}

/// The questions of subagents as questions of this task, by handle and id. Each question is asked once in an attempt.
/// If it were asked again, it would get another id.
type AskedQuestions = BTreeMap<(String, String), Asked>;

impl<'a, S, C> BackgroundTools<'a, S, C>
where
    S: Values + Contains<BaseState>,
    C: Send + Sync + 'static,
{
    /// Collects the reports of subagents that have ended. With `waits`, first waits for their ends.
    pub(super) async fn collect(&self, waits: bool) -> Result<Answered<S>, NodeError> {
        if self.follows_another() {
            return Ok(Err(prompts::ONE_WAIT.to_owned()));
        }
        let (chosen, limit) = match self.chosen().and_then(|chosen| Ok((chosen, self.limit()?))) {
            Ok(found) => found,
            Err(mistake) => return Ok(Err(mistake)),
        };
        if chosen.is_empty() {
            return Ok(Ok(self.answer(prompts::NO_SUBAGENTS.to_owned(), Vec::new())));
        }
        let running = self.keep_running(&chosen).await?;
        if waits {
            self.wait(&running, limit).await?;
        } else {
            self.learn_ends(&running).await;
        }
        let mut collected = Collected::default();
        for chosen in &chosen {
            self.add_to(&mut collected, chosen).await?;
        }
        Ok(Ok(self.report(collected).await?))
    }

    /// Returns true if an earlier call of the same reply collects reports. Each report is collected once. A call that was
    /// rejected, or whose handles are invalid, does not collect.
    fn follows_another(&self) -> bool {
        self.task.state().part().open_calls_before(self.call).any(collects)
    }

    fn limit(&self) -> Result<Option<Duration>, String> {
        let Some(seconds) = self.args.get("seconds").filter(|seconds| !seconds.is_null()) else { return Ok(None) };
        let seconds =
            seconds.as_f64().filter(|seconds| *seconds >= 0.0).ok_or("`seconds` must be a number from 0 on")?;
        Ok(Some(Duration::from_secs_f64(seconds.min(LONGEST))))
    }

    /// Continues the subagents whose ends this call records, and returns them.
    async fn keep_running<'b>(&self, chosen: &'b [Chosen<'a, S, C>]) -> Result<Vec<&'b Chosen<'a, S, C>>, NodeError> {
        let running = chosen.iter().filter(|it| it.record.status == BackgroundStatus::Running);
        let running: Vec<_> = running.filter(|it| self.ending.cancelling(it.handle).is_none()).collect();
        for chosen in &running {
            self.keep_one_running(chosen).await?;
        }
        Ok(running)
    }

    /// Continues a subagent. If another run drove the subagent, that run may have ended.
    async fn keep_one_running(&self, chosen: &Chosen<'a, S, C>) -> Result<(), NodeError> {
        if self.is_elsewhere(chosen) {
            self.task.run().background().paused(&chosen.thread).await;
        }
        chosen.runner.start(self.task, chosen.handle, chosen.record, Vec::new())
    }

    fn is_elsewhere(&self, chosen: &Chosen<'a, S, C>) -> bool {
        matches!(self.end_of(chosen).as_deref(), Some(SubagentEnd::Elsewhere))
    }

    /// Waits for the ends of subagents that ended in an earlier run. This run has just continued them, and they end at
    /// once.
    async fn learn_ends(&self, running: &[&Chosen<'a, S, C>]) {
        for chosen in running {
            if self.end_of(chosen).is_none() && chosen.runner.stands_still(self.task, &chosen.thread).await {
                self.task.run().background().end(&chosen.thread).await;
            }
        }
    }

    /// Waits until each of the subagents has ended or asks. Their questions become questions of this task, and the
    /// answers are passed to the subagents.
    async fn wait(&self, running: &[&Chosen<'a, S, C>], limit: Option<Duration>) -> Result<(), NodeError> {
        let end = limit.map(|limit| Instant::now() + limit);
        let is_over = || end.is_some_and(|end| end <= Instant::now());
        let over = async || match end {
            Some(end) => tokio::time::sleep_until(end).await,
            None => std::future::pending().await,
        };
        let mut asked = AskedQuestions::new();
        loop {
            let background = self.task.run().background();
            let ends = join_all(running.iter().map(|chosen| background.end(&chosen.thread)));
            tokio::select! {
                biased;
                _ = ends => {}
                () = over() => {}
            }
            if self.pass_on_answers(running, &mut asked).await? {
                continue;
            }
            let elsewhere: Vec<_> = running.iter().filter(|chosen| self.is_elsewhere(chosen)).collect();
            if elsewhere.is_empty() || is_over() {
                return Ok(());
            }
            tokio::select! {
                () = tokio::time::sleep(AGAIN) => {}
                () = over() => {}
            }
            for chosen in elsewhere {
                self.keep_one_running(chosen).await?;
            }
        }
    }

    /// Asks the open questions of subagents that have stopped, and continues the subagents with the answers. Returns false
    /// if there are no questions.
    async fn pass_on_answers(
        &self,
        running: &[&Chosen<'a, S, C>],
        asked: &mut AskedQuestions,
    ) -> Result<bool, NodeError> {
        let (mut open, mut answers) = (Vec::new(), Vec::new());
        for chosen in running {
            let mut given = Vec::new();
            for question in self.questions_of(chosen, asked)? {
                let own = match asked.entry((chosen.handle.to_owned(), question.id.clone())) {
                    Entry::Occupied(asked) => asked.into_mut(),
                    Entry::Vacant(new) => new.insert(self.ask(chosen, &question).await?),
                };
                match own {
                    Asked::Open(own) => open.push(own.clone()),
                    Asked::Answered(_, answer) => given.push((question.id, answer.clone())),
                }
            }
            answers.extend((!given.is_empty()).then_some((*chosen, given)));
        }
        // Subagents with answers continue first. The open questions of the other subagents are asked later.
        let is_answered = !answers.is_empty();
        for (chosen, given) in answers {
            self.task.run().background().paused(&chosen.thread).await;
            chosen.runner.start(self.task, chosen.handle, chosen.record, given)?;
        }
        match (is_answered, open.is_empty()) {
            (true, _) => Ok(true),
            (false, true) => Ok(false),
            (false, false) => Err(NodeError::from_kind(NodeErrorKind::Interrupt(open), false)),
        }
    }

    /// Returns the questions for which a subagent has stopped. Fails if the subagent cannot read an answer that it
    /// received in this attempt.
    fn questions_of(&self, chosen: &Chosen<'a, S, C>, asked: &AskedQuestions) -> Result<Vec<Question>, NodeError> {
        match self.end_of(chosen).as_deref() {
            Some(SubagentEnd::Asks(questions)) => Ok(questions.clone()),
            Some(SubagentEnd::WrongAnswer(question, reason)) => {
                match asked.get(&(chosen.handle.to_owned(), question.id.clone())) {
                    None | Some(Asked::Open(_)) => Ok(vec![(**question).clone()]),
                    Some(Asked::Answered(own, _)) => {
                        let (question, reason) = (Box::new(own.clone()), reason.clone());
                        Err(NodeError::from_kind(NodeErrorKind::WrongAnswer { question, reason }, false))
                    }
                }
            }
            _ => Ok(Vec::new()),
        }
    }

    /// Asks a question of a subagent as a question of this task.
    async fn ask(&self, chosen: &Chosen<'a, S, C>, question: &Question) -> Result<Asked, NodeError> {
        let key = format!("{}/{}", chosen.handle, question.id);
        let mut asked = self.task.run().interrupt::<Value>(&question.value).key(key);
        if let Some(schema) = &question.schema {
            asked = asked.with_schema(schema.clone());
        }
        let deadline = question.due.zip(question.default.clone());
        let is_deadline = AtomicBool::new(deadline.is_some());
        if let Some((due, default)) = deadline {
            asked = asked.until(due, default);
        }
        // The subagent checks the answer. The refusal here returns the question together with the answer.
        let answer = OnceLock::new();
        let refused = asked.check(|given| {
            if is_deadline.swap(false, Ordering::Relaxed) {
                return Ok(());
            }
            // The check is called once with the answer.
            let _ = answer.set(given.clone());
            Err(String::new())
        });
        let Err(error) = refused.await else {
            return Err(NodeError::permanent("a refused answer was accepted"));
        };
        let of_subagent = |own: &Question| {
            let path = [chosen.record.node.clone()].into_iter().chain(question.path.iter().cloned()).collect();
            let mut own = own.clone();
            (own.name, own.path) = (question.name.clone(), path);
            own
        };
        match error.kind() {
            NodeErrorKind::Interrupt(questions) if let [own] = &**questions => Ok(Asked::Open(of_subagent(own))),
            NodeErrorKind::WrongAnswer { question: own, .. } => {
                Ok(Asked::Answered(of_subagent(own), answer.into_inner().unwrap_or_default()))
            }
            _ => Err(error),
        }
    }

    /// Adds the report or the status of a subagent.
    async fn add_to(&self, collected: &mut Collected, chosen: &Chosen<'a, S, C>) -> Result<(), NodeError> {
        let Chosen { handle, record, .. } = chosen;
        if record.status != BackgroundStatus::Running {
            collected.texts.push(prompts::already_ended(handle, record.status.described()));
            return Ok(());
        }
        if self.ending.cancelling(handle).is_some() {
            collected.texts.push(prompts::was_stopped(handle));
            return Ok(());
        }
        let (steps, unread) = chosen.runner.progress(self.task, &chosen.thread).await?;
        let end = self.end_of(chosen);
        let text = match end.as_deref() {
            None | Some(SubagentEnd::Elsewhere) => prompts::is_running(handle, steps),
            Some(SubagentEnd::Stopped) => prompts::was_stopped(handle),
            Some(SubagentEnd::Asks(_) | SubagentEnd::WrongAnswer(..)) => prompts::asks_operator(handle),
            Some(SubagentEnd::Unstored(error)) => return Err(error.clone()),
            Some(SubagentEnd::Ended { report, is_success, labels }) => {
                let status = if *is_success { BackgroundStatus::Reported } else { BackgroundStatus::Failed };
                let end = ((*handle).to_owned(), record.with_status(status));
                collected.ended.push((chosen.thread.clone(), end));
                collected.labels.merge(*labels);
                prompts::reported(handle, *is_success, report, unread)
            }
        };
        collected.texts.push(text);
        Ok(())
    }

    /// Returns the result of the call: the reports, and the writes that they cause in the supervisor's state.
    async fn report(&self, collected: Collected) -> Result<Command<S>, NodeError> {
        let Collected { texts, ended, labels } = collected;
        let (state, channels) = (self.task.state(), BaseState::channels());
        let progress = self.finished(&ended);
        let mut writes = vec![channels.messages.write::<S>([prompts::answer(self.call, texts.join("\n\n"))])];
        writes.extend(labels.added_to(state));
        writes.extend((!progress.is_empty()).then(|| channels.progress.write::<S>(progress)));
        writes.extend(self.agent.background.record_ends(self.task, ended).await?);
        Ok(writing(writes))
    }

    /// Counts the calls that have ended.
    fn finished(&self, ended: &[(Arc<str>, (String, BackgroundSubagent))]) -> Progress {
        let known = &self.task.state().part().progress;
        let ended: Vec<&str> = ended.iter().map(|(_, (_, record))| &*record.agent).collect();
        let agents: BTreeSet<&str> = ended.iter().copied().collect();
        let counts = agents.into_iter().map(|agent| {
            let CallCounts { scheduled, finished } = known.get(agent);
            let more = ended.iter().filter(|other| **other == agent).count();
            let finished = finished.saturating_add(u64::try_from(more).unwrap_or(u64::MAX));
            (agent, CallCounts { scheduled: scheduled.max(finished), finished })
        });
        counts.collect()
    }
}

/// A question of a subagent as a question of this task.
enum Asked {
    Open(Question),
    Answered(Question, Value),
}
