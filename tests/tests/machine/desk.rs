//! Random sequences of operations on an agent under layers, with messages of others at any time.
//!
//! Under random inputs, approvals, kills, moves to another process and messages:
//! * nothing that is stored or sent has a secret;
//! * each request to a model is a valid conversation, and each call has one result at the end;
//! * the limits of a run hold;
//! * an approval is used once, and nothing is paid without one;
//! * each message of the inbox is in the conversation or waits, once.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use hier_agents::prelude::*;
use hier_agents::{Approval, ApprovalRequest};
use hier_core::checkpoint::{Checkpointer, Delivered, ListQuery, MemorySaver, Prune, Strategy as Keeping, WhenRunning};
use hier_core::{Durability, StateSnapshot};
use proptest::prelude::*;
use serde_json::json;

use crate::machine::{Law, check};
use crate::office::{
    Desk, Filing, Inside, Kind, MODEL_CALLS, Office, Outside, Post, Reporting, SECRET, Say, TOOL_CALLS, Tool, USERS,
    Unlimited, Unredacted, leaks, post, say,
};
use crate::processes::polled;
use crate::program_of::Saver;

/// The run is dropped after this many polls.
type Lives = Option<u8>;

#[derive(Clone, Copy, Debug)]
pub(crate) enum Decision {
    Approve,
    /// With other arguments.
    Edit,
    Reject,
}

#[derive(Clone, Debug)]
pub(crate) enum Operation {
    /// A message of the user, also to an agent that waits or was cut off; the model has this to say.
    Ask(Vec<Say>, Lives),
    GoOn(Lives),
    /// Decides one of the open questions.
    Decide(usize, Decision, Lives),
    /// Repeats the last decision.
    DecideAgain,
    /// Another writes to the inbox.
    Post(Post),
    /// Continues in another process.
    Other,
    Prune(usize),
    /// Continues a copy.
    Fork,
}

fn operation() -> impl Strategy<Value = Operation> {
    let lives = || prop_oneof![2 => Just(None), 1 => (0..60_u8).prop_map(Some)];
    let decision = prop_oneof![2 => Just(Decision::Approve), 1 => Just(Decision::Edit), 1 => Just(Decision::Reject)];
    prop_oneof![
        4 => (proptest::collection::vec(say(), 0..8), lives()).prop_map(|(plan, lives)| Operation::Ask(plan, lives)),
        3 => lives().prop_map(Operation::GoOn),
        6 => (0..4_usize, decision, lives()).prop_map(|(which, decision, lives)| Operation::Decide(which, decision, lives)),
        2 => Just(Operation::DecideAgain),
        3 => post().prop_map(Operation::Post),
        2 => Just(Operation::Other),
        1 => (1..4_usize).prop_map(Operation::Prune),
        1 => Just(Operation::Fork),
    ]
}

struct Machine {
    savers: [Saver; 2],
    at: usize,
    kind: Kind,
    desk: Desk,
    office: Office,
    thread: String,
    durability: Durability,
    turns: u32,
    decided: Option<String>,
}

static THREADS: AtomicUsize = AtomicUsize::new(0);

fn new_thread() -> String {
    format!("desk {}", THREADS.fetch_add(1, Ordering::Relaxed))
}

fn error_text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

impl Machine {
    fn new(savers: &[Saver; 2], kind: Kind, durability: Durability) -> Self {
        let thread = new_thread();
        let desk = compile(kind, &savers[0]);
        let office = Office::new();
        office.world.writes_to(desk.clone(), &thread);
        Self { savers: savers.clone(), at: 0, kind, desk, office, thread, durability, turns: 0, decided: None }
    }

    fn config(&self) -> Config {
        Config::new()
            .thread(&self.thread)
            .durability(self.durability)
            .when_running(WhenRunning::Wait(Duration::from_secs(20)))
    }

    async fn state(&self) -> Result<StateSnapshot<Filing>, String> {
        self.desk.state(self.config()).await.map_err(|error| format!("the thread cannot be read: {error}"))
    }

    async fn run(mut self, operations: &[Operation]) -> Law {
        for (number, operation) in operations.iter().enumerate() {
            let mut done = self.apply(operation).await;
            if done.is_ok() {
                done = self.look().await;
            }
            done.map_err(|broken| format!("operation {number}, {operation:?}: {broken}"))?;
        }
        let ended = match self.end().await {
            Ok(()) => self.nothing_leaks().await,
            broken => broken,
        };
        ended.map_err(|broken| format!("at the end: {broken}"))
    }

    async fn apply(&mut self, operation: &Operation) -> Law {
        let state = self.state().await?;
        match operation {
            Operation::Ask(plan, lives) => {
                self.turns += 1;
                self.office.world.plan(self.turns, plan);
                let id = format!("turn {}", self.turns);
                let message = Message::user(format!("{id} {USERS}")).with_id(id);
                self.drive(Filing::update().messages(message), *lives).await
            }
            Operation::GoOn(lives) if !is_finished(&state) => self.drive((), *lives).await,
            Operation::Decide(which, decision, lives) => self.decide(&state, *which, *decision, *lives).await,
            Operation::DecideAgain => {
                let Some(id) = self.decided.clone() else { return Ok(()) };
                let again = Command::answers([(id, Approval::Approve)]);
                let again = self.desk.invoke(again).config(self.config()).context(self.office.clone()).await;
                check(again.is_err(), || "a second decision was taken".to_owned())?;
                let after = self.state().await?;
                check(after.checkpoint == state.checkpoint, || "a second decision has changed the thread".to_owned())
            }
            Operation::Post(post) if state.checkpoint.is_some() => {
                self.office.world.post(*post).await.map_err(error_text)
            }
            Operation::Other => {
                self.at = 1 - self.at;
                self.desk = compile(self.kind, &self.savers[self.at]);
                self.office.world.writes_to(self.desk.clone(), &self.thread);
                Ok(())
            }
            Operation::Prune(count) => {
                let (threads, strategy) = (Some(vec![self.thread.clone()]), Keeping::Keep(*count));
                let prune = Prune { threads, strategy, ..Prune::default() };
                self.savers[self.at].admin().unwrap().prune(prune).await.map(drop).map_err(error_text)
            }
            Operation::Fork => {
                // The inbox is not copied.
                if !self.savers[self.at].inbox().unwrap().messages(&self.thread).await.map_err(error_text)?.is_empty() {
                    return Ok(());
                }
                let copy = new_thread();
                self.savers[self.at].admin().unwrap().copy_thread(&self.thread, &copy).await.map_err(error_text)?;
                self.thread = copy;
                self.office.world.writes_to(self.desk.clone(), &self.thread);
                let after = self.state().await?;
                let same = |one: &StateSnapshot<Filing>| serde_json::to_string(&one.values).map_err(error_text);
                check(same(&state)? == same(&after)?, || "copying has changed the thread".to_owned())
            }
            _ => Ok(()),
        }
    }

    async fn drive(
        &mut self,
        input: impl hier_core::graph::GraphInput<Filing, hier_core::graph::FullState> + 'static,
        lives: Lives,
    ) -> Law {
        let mut run = self.desk.invoke(input).config(self.config()).context(self.office.clone()).into_future();
        let ended = match lives {
            None => Some(run.await),
            Some(polls) => polled(Pin::new(&mut run), polls).await,
        };
        match ended {
            // The next run waits until the killed one has let go of the thread.
            None | Some(Ok(_)) => Ok(()),
            // Each of its models has failed.
            Some(Err(error)) if error.to_string().contains("the model `") => {
                let text = format!("{error} {error:?}");
                check(leaks(&text, &[SECRET, USERS]).is_none(), || format!("an error has a secret: {text}"))
            }
            Some(Err(error)) => Err(format!("the run failed: {error}")),
        }
    }

    async fn decide(&mut self, state: &StateSnapshot<Filing>, which: usize, decision: Decision, lives: Lives) -> Law {
        let open: Vec<_> = state.questions.iter().filter(|question| !question.answered).collect();
        let Some(place) = which.checked_rem(open.len()) else { return Ok(()) };
        let id = open[place].id.clone();
        let asked: ApprovalRequest = open[place].parse().map_err(error_text)?;
        let name = asked.call.args["what"].as_str().unwrap_or_default().to_owned();
        let answer = match decision {
            Decision::Approve => {
                self.office.world.approves(name);
                Approval::Approve
            }
            Decision::Edit => {
                let name = format!("{name} edited");
                self.office.world.approves(name.clone());
                Approval::Edit { args: json!({ "what": name, "why": "a person said so" }) }
            }
            Decision::Reject => Approval::Reject { reason: "no".to_owned() },
        };
        self.drive_answer(id.clone(), answer, lives).await?;
        if !self.state().await?.questions.iter().any(|open| open.id == id && !open.answered) {
            self.decided = Some(id);
        }
        Ok(())
    }

    async fn drive_answer(&mut self, id: String, answer: Approval, lives: Lives) -> Law {
        self.drive(Command::answers([(id, answer)]), lives).await
    }

    /// The laws that hold at any time, and those that hold when the agent has ended.
    async fn look(&self) -> Law {
        if let Some(broken) = self.office.world.broken() {
            return Err(broken);
        }
        let (state, mail) = self.state_and_mail().await?;
        let filing = &state.values;
        let mut results: BTreeMap<&str, usize> = BTreeMap::new();
        for message in &filing.base.messages {
            message.tool_calls().iter().for_each(|call| _ = results.entry(&call.id).or_default());
            if let Some(id) = message.tool_call_id() {
                let Some(count) = results.get_mut(id) else { return Err(format!("a result of `{id}` without a call")) };
                *count += 1;
            }
        }
        let most = results.values().max().copied().unwrap_or_default();
        check(most <= 1, || format!("a call has several results: {results:?}"))?;
        let mut done = filing.done.clone();
        done.sort();
        done.dedup();
        check(done.len() == filing.done.len(), || format!("a call was made twice: {:?}", filing.done))?;
        self.limits_hold(filing)?;
        self.posts_are_kept(&state, &mail)?;
        if !is_finished(&state) {
            return Ok(());
        }
        let fewest = results.values().min().copied().unwrap_or(1);
        check(fewest == 1, || format!("a call has no result: {results:?}"))?;
        self.nothing_leaks().await?;
        // The user's text is redacted with the model's next answer.
        let messages: Vec<String> = filing.base.messages.iter().map(Message::text).collect();
        let last = messages.iter().rposition(|text| text.starts_with("said: ")).unwrap_or_default();
        check(leaks(&messages[..last].concat(), &[USERS]).is_none(), || format!("it is kept: {messages:?}"))
    }

    fn limits_hold(&self, filing: &Filing) -> Law {
        let mut said: BTreeMap<usize, usize> = BTreeMap::new();
        let mut turn = 0;
        for message in &filing.base.messages {
            if message.id.as_deref().is_some_and(|id| id.starts_with("turn ")) {
                turn += 1;
            }
            *said.entry(turn).or_default() += usize::from(message.text().starts_with("said: "));
        }
        let most = said.values().max().copied().unwrap_or_default();
        check(most <= MODEL_CALLS, || format!("a model was asked {most} times in a run"))?;
        for turn in 0..=self.turns {
            let of_turn = |done: &&String| done.split(' ').nth(1).is_some_and(|it| it.starts_with(&format!("{turn}.")));
            let made = filing.done.iter().filter(of_turn).count();
            check(made <= TOOL_CALLS, || format!("{made} calls were made in a run: {:?}", filing.done))?;
        }
        Ok(())
    }

    /// The state and the waiting messages at one moment, because a commit of a dropped run may still be in flight.
    async fn state_and_mail(&self) -> Result<(StateSnapshot<Filing>, Vec<Delivered>), String> {
        let mail = async || self.savers[self.at].inbox().unwrap().messages(&self.thread).await.map_err(error_text);
        let mut before = mail().await?;
        loop {
            let state = self.state().await?;
            let after = mail().await?;
            if before == after {
                return Ok((state, after));
            }
            before = after;
        }
    }

    fn posts_are_kept(&self, state: &StateSnapshot<Filing>, mail: &[Delivered]) -> Law {
        for text in self.office.world.posts() {
            let read = state.values.base.messages.iter().filter(|message| message.text().starts_with(&text)).count();
            let waits =
                mail.iter().filter(|posted| String::from_utf8_lossy(&posted.message.value).contains(&text)).count();
            check(read + waits == 1, || {
                format!("`{text}` is {read} times in the conversation and {waits} times in the mailbox")
            })?;
        }
        Ok(())
    }

    /// No stored byte is a secret's.
    async fn nothing_leaks(&self) -> Law {
        let saver = &self.savers[self.at];
        let all = ListQuery { namespace: None, ..ListQuery::thread(&*self.thread) };
        for listed in saver.list(all).await.map_err(error_text)? {
            let found =
                saver.get(&self.thread, &listed.namespace, Some(listed.checkpoint.id)).await.map_err(error_text)?;
            let Some(found) = found else { continue };
            let values = found.values.iter().flat_map(|(_, chain)| chain.full.iter().chain(&chain.deltas));
            let writes = found.writes.iter().flat_map(|task| &task.writes).map(|write| &write.value);
            let sends = found.checkpoint.agenda.sends.iter().map(|send| &send.payload);
            for bytes in values.chain(writes).chain(sends) {
                let text = String::from_utf8_lossy(bytes);
                check(leaks(&text, &[SECRET]).is_none(), || format!("a secret is stored: {text}"))?;
            }
        }
        Ok(())
    }

    /// After any operations, the agent can be run to its end.
    async fn end(&mut self) -> Law {
        self.office.world.plan(self.turns, &[]);
        for _ in 0..30 {
            let state = self.state().await?;
            if is_finished(&state) {
                return Ok(());
            }
            let is_asked = state.questions.iter().any(|question| !question.answered);
            let next = if is_asked { Operation::Decide(0, Decision::Approve, None) } else { Operation::GoOn(None) };
            self.apply(&next).await?;
            self.look().await?;
        }
        Err(format!("it does not end: {:?}", self.state().await?))
    }
}

fn is_finished(state: &StateSnapshot<Filing>) -> bool {
    state.next.is_empty() && state.tasks.is_empty()
}

fn compile(kind: Kind, saver: &Saver) -> Desk {
    match kind {
        Kind::Inside => Inside::compile().checkpointer(saver.clone()),
        Kind::Outside => Outside::compile().checkpointer(saver.clone()),
        Kind::Reporting => Reporting::compile_as_root().checkpointer(saver.clone()),
        Kind::Unlimited => Unlimited::compile().checkpointer(saver.clone()),
        Kind::Unredacted => Unredacted::compile().checkpointer(saver.clone()),
    }
}

fn sequences(default_cases: u32, saver: impl AsyncFn() -> Saver) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let savers = runtime.block_on(async { [saver().await, saver().await] });
    let durability = prop_oneof![Just(Durability::Sync), Just(Durability::Async), Just(Durability::Exit)];
    let kind = prop_oneof![Just(Kind::Inside), Just(Kind::Outside), Just(Kind::Reporting)];
    let input = (kind, durability, proptest::collection::vec(operation(), 1..16));
    crate::check((default_cases, 400), &input, |(kind, durability, operations)| {
        runtime.block_on(Machine::new(&savers, kind, durability).run(&operations))
    });
}

#[test]
fn agents_in_memory() {
    let saver = MemorySaver::new();
    sequences(150, async || Arc::new(saver.clone()) as Saver);
}

#[test]
fn agents_in_sqlite() {
    let folder = tempfile::tempdir().expect("a folder");
    sequences(30, async || crate::sqlite(folder.path()).await);
}

#[test]
#[ignore = "needs Postgres: run ./scripts/test.sh"]
fn agents_in_postgres() {
    let url = crate::postgres_url();
    sequences(15, async || crate::postgres(&url).await);
}

fn found(kind: Kind, plan: Vec<Say>) -> String {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let saver = Arc::new(MemorySaver::new()) as Saver;
    let machine = Machine::new(&[saver.clone(), saver], kind, Durability::Sync);
    runtime.block_on(machine.run(&[Operation::Ask(plan, None)])).unwrap_err()
}

#[test]
fn machine_detects_an_agent_without_layers() {
    let broken = found(Kind::Unredacted, vec![Say::Text]);
    assert!(broken.contains("a model is sent"), "{broken}");
    let looks = || (0..8).map(|_| Say::Calls(vec![Tool::Look])).collect();
    let broken = found(Kind::Unlimited, looks());
    assert!(broken.contains("a model was asked 9 times in a run"), "{broken}");
    let broken = found(Kind::Unlimited, vec![Say::Calls(vec![Tool::Look; 6])]);
    assert!(broken.contains("6 calls were made in a run"), "{broken}");
}
