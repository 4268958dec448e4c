//! What is done with a thread, in random order.

use std::pin::pin;
use std::task::Poll;

use proptest::prelude::*;

use crate::world::Kind;

/// What is done with the thread. What makes no sense at the moment is left out.
#[derive(Clone, Debug)]
pub(crate) enum Operation {
    /// A new turn with these items; goes on with the one that is open.
    Run(Vec<Kind>, Lives),
    /// Answers one of the open questions by its id.
    Answer(usize, Lives),
    /// Answers without an id: taken if one question is open, refused otherwise.
    AnswerPlainly(Lives),
    /// Answers again what was answered last.
    AnswerTwice,
    /// So many checkpoints of each namespace stay.
    Prune(usize),
    /// Goes on with a copy of the thread.
    Fork,
    /// Goes on with a copy of the latest checkpoint: its step begins anew.
    BranchOff,
    /// Writes to a finished thread from outside.
    Update,
    /// From now on with the second version of the state.
    Migrate,
    /// Runs a turn again, from its input: so many turns back.
    Replay(usize),
    /// Goes back to a copy of the input of a turn.
    GoBack(usize),
    /// Changes the subgraph that asks: its question is withdrawn.
    ChangeAsker,
    /// Changes what the subgraph keeps that keeps its state.
    Visit,
    /// Two hours later drives what is due.
    Sweep(Lives),
    /// Sends a signal that tasks wait for.
    Signal,
    /// Sends it through the handle of another graph.
    Stray,
}

impl Operation {
    /// Whether it changes what is stored of the past, or how that is read.
    pub(crate) fn touches_the_past(&self) -> bool {
        matches!(self, Self::Prune(_) | Self::Fork | Self::BranchOff | Self::Migrate | Self::Visit | Self::ChangeAsker)
    }
}

/// After how many polls the run is dropped.
pub(crate) type Lives = Option<u8>;

pub(crate) fn operation() -> impl Strategy<Value = Operation> {
    let kind = prop_oneof![
        Just(Kind::Plain),
        Just(Kind::Asks),
        Just(Kind::AsksTwice),
        Just(Kind::Fails),
        Just(Kind::Sleeps),
        Just(Kind::Expires),
        Just(Kind::Waits),
        Just(Kind::Steps),
    ];
    let lives = || prop_oneof![2 => Just(None), 1 => (0..40_u8).prop_map(Some)];
    prop_oneof![
        6 => (proptest::collection::vec(kind, 1..5), lives()).prop_map(|(items, lives)| Operation::Run(items, lives)),
        6 => (0..4_usize, lives()).prop_map(|(which, lives)| Operation::Answer(which, lives)),
        3 => lives().prop_map(Operation::AnswerPlainly),
        2 => Just(Operation::AnswerTwice),
        1 => (1..6_usize).prop_map(Operation::Prune),
        1 => Just(Operation::Fork),
        1 => Just(Operation::Update),
        1 => Just(Operation::Migrate),
        1 => Just(Operation::BranchOff),
        1 => (0..3_usize).prop_map(Operation::Replay),
        1 => (0..3_usize).prop_map(Operation::GoBack),
        1 => Just(Operation::ChangeAsker),
        1 => Just(Operation::Visit),
        4 => lives().prop_map(Operation::Sweep),
        2 => Just(Operation::Signal),
        1 => Just(Operation::Stray),
    ]
}

/// How a run ended; none if it was dropped after so many polls.
pub(crate) async fn alive<T>(run: impl Future<Output = T>, lives: Lives) -> Option<T> {
    let mut run = pin!(run);
    let Some(polls) = lives else { return Some(run.await) };
    for _ in 0..polls {
        let polled = std::future::poll_fn(|context| Poll::Ready(run.as_mut().poll(context))).await;
        if let Poll::Ready(ended) = polled {
            return Some(ended);
        }
        tokio::task::yield_now().await;
    }
    None
}
