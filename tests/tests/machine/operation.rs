//! The operations on a thread, in random order.

use proptest::prelude::*;

use crate::talk::Talk;
use crate::world::Kind;

/// An operation on the thread. Impossible ones are skipped.
#[derive(Clone, Debug)]
pub(crate) enum Operation {
    /// A new turn with these items. Continues an open one.
    Run(Vec<Kind>, Lives),
    /// Answers one of the open questions by its id.
    Answer(usize, Lives),
    /// Answers without an id: taken if one question is open, refused otherwise.
    AnswerPlainly(Lives),
    /// Repeats the last answer.
    AnswerTwice,
    /// This many checkpoints of each namespace stay.
    Prune(usize),
    /// Continues a copy of the thread, and leaves the thread for later.
    Fork,
    /// Continues a thread that was left, and leaves this one.
    Return(usize),
    /// Continues a copy of the latest checkpoint, whose step begins anew.
    BranchOff,
    /// Writes to a finished thread from outside.
    Update(Talk),
    /// From now on with the second version of the state.
    Migrate,
    /// Runs an earlier turn again, from its input: this many turns back.
    Replay(usize),
    /// Goes back to a copy of the input of a turn.
    GoBack(usize),
    /// Changes the subgraph that asks: its question is withdrawn.
    ChangeAsker,
    /// Changes the state of the subgraph that keeps its state.
    Visit,
    /// Drives due threads two hours later.
    Sweep(Lives),
    /// Sends a signal that tasks wait for.
    Signal,
    /// Sends it through the handle of another graph.
    Stray,
    /// Continues in the other process.
    Other,
    /// Two processes run the thread at once; the bits say which is polled.
    Race(Policy, u64),
    /// A suspended process continues after another took its thread over.
    Wake,
    /// A process that still has the first version of the state meets the thread.
    Older,
}

/// The option of processes that find the thread held.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Policy {
    TakeOver,
    Reject,
    Wait,
}

impl Operation {
    /// Returns true if it changes the stored past, or the way it is read.
    pub(crate) fn touches_the_past(&self) -> bool {
        matches!(
            self,
            Self::Prune(_)
                | Self::Fork
                | Self::Wake
                | Self::BranchOff
                | Self::Migrate
                | Self::Visit
                | Self::ChangeAsker
        )
    }
}

/// The death of a process, after this many polls of its run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Death {
    pub(crate) polls: u8,
    /// True if it is only suspended, and may continue after its thread was taken over.
    pub(crate) stalls: bool,
}

/// None if the process lives until its run has ended.
pub(crate) type Lives = Option<Death>;

pub(crate) fn operation() -> impl Strategy<Value = Operation> {
    let talk = || prop_oneof![3 => (0..4_u8).prop_map(Talk::Writes), 2 => (0..4_u8).prop_map(Talk::Removes), 1 => Just(Talk::Clears)];
    let kind = prop_oneof![
        Just(Kind::Plain),
        Just(Kind::Asks),
        Just(Kind::AsksTwice),
        Just(Kind::Fails),
        Just(Kind::Sleeps),
        Just(Kind::Expires),
        Just(Kind::Waits),
        Just(Kind::Steps),
        talk().prop_map(Kind::Says),
        Just(Kind::Keeps),
    ];
    let death = (0..40_u8, any::<bool>()).prop_map(|(polls, stalls)| Some(Death { polls, stalls }));
    let lives = move || prop_oneof![2 => Just(None), 1 => death.clone()];
    let policy = prop_oneof![Just(Policy::TakeOver), Just(Policy::Reject), Just(Policy::Wait)];
    prop_oneof![
        6 => (proptest::collection::vec(kind, 1..5), lives()).prop_map(|(items, lives)| Operation::Run(items, lives)),
        6 => (0..4_usize, lives()).prop_map(|(which, lives)| Operation::Answer(which, lives)),
        3 => lives().prop_map(Operation::AnswerPlainly),
        2 => Just(Operation::AnswerTwice),
        1 => (1..6_usize).prop_map(Operation::Prune),
        2 => Just(Operation::Fork),
        2 => (0..4_usize).prop_map(Operation::Return),
        2 => talk().prop_map(Operation::Update),
        1 => Just(Operation::Migrate),
        1 => Just(Operation::BranchOff),
        1 => (0..3_usize).prop_map(Operation::Replay),
        1 => (0..3_usize).prop_map(Operation::GoBack),
        1 => Just(Operation::ChangeAsker),
        1 => Just(Operation::Visit),
        4 => lives().prop_map(Operation::Sweep),
        2 => Just(Operation::Signal),
        1 => Just(Operation::Stray),
        2 => Just(Operation::Other),
        2 => (policy, any::<u64>()).prop_map(|(policy, order)| Operation::Race(policy, order)),
        2 => Just(Operation::Wake),
        1 => Just(Operation::Older),
    ]
}
