//! Collects the reports of background subagents, and passes their questions on to the operator.

use std::collections::BTreeSet;
use std::pin::pin;
use std::time::Duration;

use futures_util::future::join_all;
use hier_spec::agent::{CHECK_SUBAGENTS, WAIT_FOR_SUBAGENTS};
use serde_json::Value;

use super::{Answered, BackgroundTools, Chosen, SubagentEnd};
use crate::prompts;
use crate::react::agent::writing;
use crate::state::background::{BackgroundStatus, BackgroundSubagent, BackgroundSubagents};
use crate::state::base::BaseState;
use crate::state::counts::{self, LayerCounts};
use crate::state::labels::ConversationLabels;
use crate::state::progress::{CallCounts, Progress};
use hier_checkpoint::message::Message;
use hier_core::graph::Command;
use hier_core::state::{Contains, State, Values};
use hier_core::{NodeError, NodeErrorKind, Question};

/// The longest time to wait, in seconds: about 30 years, which every clock can add.
const LONGEST: f64 = 1e9;

/// The reports that a call has collected.
#[derive(Default)]
struct Collected {
    texts: Vec<String>,
    ended: Vec<(String, BackgroundSubagent)>,
    labels: ConversationLabels,
    counts: LayerCounts,
}

/// The questions of subagents that have been answered in this task, by handle and id.
type AnsweredQuestions = BTreeSet<(String, String)>;

impl<'a, S, C> BackgroundTools<'a, S, C>
where
    S: Values + Contains<BaseState>,
    C: Send + Sync + 'static,
{
    /// Collects the reports of subagents that have ended, after a wait for them if `waits`.
    pub(super) async fn collect(&self, waits: bool) -> Result<Answered<S>, NodeError> {
        if self.follows_another() {
            return Ok(Err(prompts::ONE_WAIT.to_owned()));
        }
        let (chosen, limit) = match self.chosen().and_then(|chosen| Ok((chosen, self.limit()?))) {
            Ok(found) => found,
            Err(mistake) => return Ok(Err(mistake)),
        };
        if chosen.is_empty() {
            return Ok(Ok(self.answer(prompts::NO_SUBAGENTS.to_owned(), BackgroundSubagents::default())));
        }
        if waits {
            self.wait(&chosen, limit).await?;
        }
        let mut collected = Collected::default();
        for chosen in &chosen {
            self.add_to(&mut collected, chosen).await?;
        }
        Ok(Ok(self.report(collected)))
    }

    /// Returns true if an earlier call of the same answer collects reports. Each report is collected once.
    fn follows_another(&self) -> bool {
        let answer = self.task.state().part().messages.caller_of(&self.call.id);
        let calls = answer.map(Message::tool_calls).unwrap_or_default();
        let mut before = calls.iter().take_while(|other| other.id != self.call.id);
        before.any(|other| [CHECK_SUBAGENTS, WAIT_FOR_SUBAGENTS].contains(&&*other.name))
    }

    fn limit(&self) -> Result<Option<Duration>, String> {
        let Some(seconds) = self.args.get("seconds").filter(|seconds| !seconds.is_null()) else { return Ok(None) };
        let seconds =
            seconds.as_f64().filter(|seconds| *seconds >= 0.0).ok_or("`seconds` must be a number from 0 on")?;
        Ok(Some(Duration::from_secs_f64(seconds.min(LONGEST))))
    }

    /// Waits until each of the subagents has ended or asks. The questions become questions of this task, and their
    /// answers those of the subagents.
    async fn wait(&self, chosen: &[Chosen<'a, S, C>], limit: Option<Duration>) -> Result<(), NodeError> {
        let mut over = pin!(async {
            match limit {
                Some(limit) => tokio::time::sleep(limit).await,
                None => std::future::pending().await,
            }
        });
        let running: Vec<_> = chosen.iter().filter(|it| it.record.status == BackgroundStatus::Running).collect();
        let mut answered = AnsweredQuestions::new();
        loop {
            let background = self.task.run().background();
            let ends = join_all(running.iter().map(|chosen| background.end(&chosen.thread)));
            tokio::select! {
                biased;
                _ = ends => {}
                () = &mut over => {}
            }
            if !self.pass_on_answers(&running, &mut answered).await? {
                return Ok(());
            }
        }
    }

    /// Asks the open questions of subagents that have stopped, and continues the subagents with the answers. Returns false
    /// if there are no questions.
    async fn pass_on_answers(
        &self,
        running: &[&Chosen<'a, S, C>],
        answered: &mut AnsweredQuestions,
    ) -> Result<bool, NodeError> {
        let (mut open, mut answers) = (Vec::new(), Vec::new());
        for chosen in running {
            let mut given = Vec::new();
            for question in self.questions_of(chosen, answered).await? {
                match self.ask(chosen, &question).await {
                    Ok(answer) => given.push((question.id, answer)),
                    Err(error) => match error.kind() {
                        NodeErrorKind::Interrupt(asked) => open.extend(asked.iter().cloned()),
                        _ => return Err(error),
                    },
                }
            }
            answers.extend((!given.is_empty()).then_some((*chosen, given)));
        }
        // An answered subagent works on while the operator is asked for the others.
        let is_answered = !answers.is_empty();
        for (chosen, given) in answers {
            answered.extend(given.iter().map(|(id, _)| (chosen.handle.to_owned(), id.clone())));
            self.task.run().background().stopped(&chosen.thread).await;
            chosen.runner.start(self.task, chosen.handle, chosen.record, given)?;
        }
        match (is_answered, open.is_empty()) {
            (true, _) => Ok(true),
            (false, true) => Ok(false),
            (false, false) => Err(NodeError::from_kind(NodeErrorKind::Interrupt(open), false)),
        }
    }

    /// Returns the questions for which a subagent has stopped.
    async fn questions_of(
        &self,
        chosen: &Chosen<'a, S, C>,
        answered: &AnsweredQuestions,
    ) -> Result<Vec<Question>, NodeError> {
        match self.end_of(chosen).as_deref() {
            Some(SubagentEnd::Asks(questions)) => Ok(questions.clone()),
            Some(SubagentEnd::WrongAnswer(question, reason)) => {
                let key = (chosen.handle.to_owned(), question.id.clone());
                if answered.contains(&key) {
                    // The answer was read now, and not in an earlier run: it is refused where the operator gave it.
                    let reason = reason.clone();
                    let asked = self.task.run().interrupt::<Value>(&question.value).key(question_key(chosen, question));
                    asked.check(move |_| Err(reason.clone())).await?;
                }
                Ok(vec![(**question).clone()])
            }
            _ => Ok(Vec::new()),
        }
    }

    /// Asks a question of a subagent, or returns its answer.
    async fn ask(&self, chosen: &Chosen<'a, S, C>, question: &Question) -> Result<Value, NodeError> {
        let mut asked = self.task.run().interrupt::<Value>(&question.value).key(question_key(chosen, question));
        if let Some(schema) = &question.schema {
            asked = asked.with_schema(schema.clone());
        }
        if let (Some(due), Some(default)) = (question.due, &question.default) {
            asked = asked.until(due, default.clone());
        }
        let error = match asked.await {
            Ok(answer) => return Ok(answer),
            Err(error) => error,
        };
        let NodeErrorKind::Interrupt(questions) = error.kind() else { return Err(error) };
        let mut questions = questions.clone();
        for own in &mut questions {
            own.name.clone_from(&question.name);
            own.path = [chosen.record.node.clone()].into_iter().chain(question.path.iter().cloned()).collect();
        }
        Err(NodeError::from_kind(NodeErrorKind::Interrupt(questions), false))
    }

    /// Adds what is known of a subagent.
    async fn add_to(&self, collected: &mut Collected, chosen: &Chosen<'a, S, C>) -> Result<(), NodeError> {
        let Chosen { handle, record, .. } = chosen;
        if record.status != BackgroundStatus::Running {
            collected.texts.push(prompts::already_ended(handle, record.status));
            return Ok(());
        }
        let (steps, unread) = chosen.runner.progress(self.task, &chosen.thread).await?;
        let end = self.end_of(chosen);
        let text = match end.as_deref() {
            None => prompts::is_running(handle, steps),
            Some(SubagentEnd::Asks(_) | SubagentEnd::WrongAnswer(..)) => prompts::asks_operator(handle),
            Some(SubagentEnd::Stopped) => prompts::was_stopped(handle),
            Some(SubagentEnd::Unstored(error)) => return Err(error.clone()),
            Some(SubagentEnd::Ended { report, is_success, labels, counts }) => {
                let status = if *is_success { BackgroundStatus::Reported } else { BackgroundStatus::Failed };
                collected.ended.push(((*handle).to_owned(), record.with_status(status)));
                collected.labels.merge(*labels);
                counts::merge(&mut collected.counts, counts.clone());
                prompts::reported(handle, *is_success, report, unread)
            }
        };
        collected.texts.push(text);
        Ok(())
    }

    /// Returns the result of the call: the reports, and what they change in the supervisor's state.
    fn report(&self, collected: Collected) -> Command<S> {
        let Collected { texts, ended, labels, counts } = collected;
        let (state, channels) = (self.task.state(), BaseState::channels());
        let progress = self.finished(&ended);
        let mut writes = vec![channels.messages.write::<S>([prompts::answer(self.call, texts.join("\n\n"))])];
        writes.extend(labels.added_to(state));
        writes.extend((!counts.is_empty()).then(|| channels.layer_counts.write::<S>(counts)));
        writes.extend((!progress.is_empty()).then(|| channels.progress.write::<S>(progress)));
        let ended: BackgroundSubagents = ended.into_iter().collect();
        writes.extend((!ended.is_empty()).then(|| channels.background_subagents.write::<S>(ended)));
        writing(writes)
    }

    /// Counts the calls that have ended.
    fn finished(&self, ended: &[(String, BackgroundSubagent)]) -> Progress {
        let known = &self.task.state().part().progress;
        let agents: BTreeSet<&str> = ended.iter().map(|(_, record)| &*record.agent).collect();
        let counts = agents.into_iter().map(|agent| {
            let CallCounts { scheduled, finished } = known.get(agent);
            let more = ended.iter().filter(|(_, record)| record.agent == agent).count();
            let finished = finished.saturating_add(u64::try_from(more).unwrap_or(u64::MAX));
            (agent, CallCounts { scheduled: scheduled.max(finished), finished })
        });
        counts.collect()
    }
}

/// Identifies a question among those of the task.
fn question_key<S: Values, C>(chosen: &Chosen<'_, S, C>, question: &Question) -> String {
    format!("{}/{}", chosen.handle, question.id)
}
