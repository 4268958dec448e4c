//! A turn: the piece of a run that a cluster does in one go. It ends once a superstep has been stored, and the next turn, on whatever
//! machine, goes on from there.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Mutex;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use uuid::Uuid;
use xxhash_rust::xxh3::Xxh3;

use crate::sync::lock;

/// What a run takes along from turn to turn, beside what is stored: for each graph that is running, by its namespace, the step that
/// it may not pass.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    stops: BTreeMap<String, i64>,
}

/// The tasks of a step that are to be done elsewhere.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spread {
    /// The namespace of their graph.
    pub namespace: String,
    /// Their places in the step.
    pub tasks: Vec<String>,
}

/// Which tasks of an open step a turn does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Part {
    /// This one, and nothing else: the step is not applied.
    Task {
        /// The namespace of its graph.
        namespace: String,
        /// Its place in the step.
        task: String,
    },
    /// What others have not done: then the step is applied. Tasks that have asked do not ask again.
    Rest {
        /// The namespace of their graph.
        namespace: String,
        /// The tasks that stopped at a breakpoint inside, by their places.
        stopped: Vec<String>,
    },
}

/// How a turn ended, beside what the run says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cut {
    /// A superstep was stored, and there is more to do.
    Stored,
    /// The next step is to be done elsewhere.
    Spread(Spread),
    /// The task that this turn was for has ended.
    Task,
}

/// From how many tasks on the tasks of a step are done elsewhere, and which stay.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FanOut {
    /// From so many on.
    pub from: usize,
    /// The tasks of these nodes alone; of all nodes if none.
    pub nodes: Option<BTreeSet<String>>,
}

/// A turn of a run. The engine asks it where the run stops.
pub struct Turn(Mutex<State>);

#[expect(clippy::struct_excessive_bools, reason = "independent facts of one turn, each read by itself")]
struct State {
    goes_on: bool,
    progress: Progress,
    fan_out: Option<FanOut>,
    part: Option<Part>,
    /// What the clock shows all the time, since 1970, and what tells this turn's ids from those of others.
    clock: Option<(Duration, Uuid)>,
    /// Whether it may end inside of graphs that nodes run: not where the run goes on from an older checkpoint, which the next turn
    /// could not find.
    inside: bool,
    /// How many steps of several tasks are running, each around the next.
    wide: usize,
    stored: bool,
    /// The step that is stored next was done elsewhere, and is only applied here.
    applies: bool,
    cut: Option<Cut>,
}

impl fmt::Debug for Turn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Turn").field("cut", &lock(&self.0).cut).finish_non_exhaustive()
    }
}

impl Turn {
    /// The first turn of a run.
    pub fn first() -> Self {
        Self::new(false, Progress::default())
    }

    /// A later turn of a run.
    pub fn later(progress: Progress) -> Self {
        Self::new(true, progress)
    }

    fn new(goes_on: bool, progress: Progress) -> Self {
        let (fan_out, part, clock, cut) = (None, None, None, None);
        let (inside, wide, stored, applies) = (true, 0, false, false);
        Self(Mutex::new(State { goes_on, progress, fan_out, part, clock, inside, wide, stored, applies, cut }))
    }

    /// Ends before a step that is to be done elsewhere.
    #[must_use]
    pub fn fan_out(self, fan_out: Option<FanOut>) -> Self {
        lock(&self.0).fan_out = fan_out;
        self
    }

    /// Does a part of an open step.
    #[must_use]
    pub fn part(self, part: Option<Part>) -> Self {
        lock(&self.0).part = part;
        self
    }

    /// Its clock shows this time since 1970 as long as it lasts, and its ids depend on that and the seed alone: the turn makes the same
    /// ids whenever it is done again.
    #[must_use]
    pub fn stopped_clock(self, since_1970: Duration, seed: Uuid) -> Self {
        lock(&self.0).clock = Some((since_1970, seed));
        self
    }

    /// Ends between steps of the root graph only.
    #[must_use]
    pub fn outside_only(self) -> Self {
        lock(&self.0).inside = false;
        self
    }

    /// Why the turn ended before its run; none if the run has ended by itself.
    pub fn cut(&self) -> Option<Cut> {
        lock(&self.0).cut.clone()
    }

    /// What the next turn needs.
    pub fn progress(&self) -> Progress {
        lock(&self.0).progress.clone()
    }

    /// The time, and what tells apart the ids of this namespace.
    pub(crate) fn clock(&self, namespace: &str) -> Option<(Duration, [u8; 6])> {
        let (since_1970, seed) = lock(&self.0).clock?;
        let mut hash = Xxh3::new();
        hash.update(seed.as_bytes());
        hash.update(namespace.as_bytes());
        let bytes = hash.digest().to_le_bytes();
        let mut node = [0; 6];
        node.copy_from_slice(&bytes[..6]);
        // The bit for addresses that no network card has.
        node[0] |= 1;
        Some((since_1970, node))
    }

    /// Whether the run has begun in an earlier turn.
    pub(crate) fn goes_on(&self) -> bool {
        lock(&self.0).goes_on
    }

    /// Whether the turn before has stored a step of the root graph, and no graph inside of it was running.
    pub(crate) fn begins_a_step(&self) -> bool {
        let state = lock(&self.0);
        state.goes_on && state.part.is_none() && state.progress.stops.keys().all(String::is_empty)
    }

    /// A graph is entered: it may not pass this step.
    pub(crate) fn enters(&self, namespace: &[String], stop: i64) {
        lock(&self.0).progress.stops.insert(namespace.join("|"), stop);
    }

    /// A graph is taken up: the step that it may not pass, which is this one if it was not entered in this run.
    pub(crate) fn takes_up(&self, namespace: &[String], stop: i64) -> i64 {
        let mut state = lock(&self.0);
        let name = namespace.join("|");
        if !state.goes_on {
            state.progress.stops.insert(name, stop);
            return stop;
        }
        *state.progress.stops.entry(name).or_insert(stop)
    }

    /// The step is applied, and none of its tasks runs in this turn: the step after it belongs to the turn, too.
    pub(crate) fn applies(&self) {
        lock(&self.0).applies = true;
    }

    /// A superstep was stored. What ran inside it is over.
    pub(crate) fn stored(&self, namespace: &[String]) {
        let mut state = lock(&self.0);
        state.stored |= !std::mem::take(&mut state.applies);
        let name = namespace.join("|");
        state.progress.stops.retain(|other, _| *other == name || !is_inside(other, &name));
    }

    /// Whether the turn ends before the next step of a graph.
    pub(crate) fn ends(&self, is_child: bool) -> bool {
        let state = lock(&self.0);
        state.stored && state.wide == 0 && (state.inside || !is_child)
    }

    /// The turn ends with what was stored, unless it ends for another reason.
    pub(crate) fn end(&self) {
        lock(&self.0).cut.get_or_insert(Cut::Stored);
    }

    /// The part of this graph's open step that the turn does, if it is this graph's.
    pub(crate) fn part_of(&self, namespace: &[String]) -> Option<Part> {
        let state = lock(&self.0);
        let (Part::Task { namespace: wanted, .. } | Part::Rest { namespace: wanted, .. }) = state.part.as_ref()?;
        (*wanted == namespace.join("|")).then(|| state.part.clone()).flatten()
    }

    /// The part has been dealt with: what comes after it is as ever.
    pub(crate) fn part_done(&self) {
        let mut state = lock(&self.0);
        if let Some(Part::Task { .. }) = state.part.take() {
            state.cut.get_or_insert(Cut::Task);
        }
    }

    /// Whether tasks of this node may be done elsewhere.
    pub(crate) fn sends_away(&self, node: &str) -> bool {
        let state = lock(&self.0);
        let nodes = state.fan_out.as_ref().map(|fan_out| &fan_out.nodes);
        nodes.is_some_and(|nodes| nodes.as_ref().is_none_or(|nodes| nodes.contains(node)))
    }

    /// Whether these tasks are to be done elsewhere. Then the turn ends.
    pub(crate) fn spreads(&self, namespace: &[String], tasks: Vec<String>) -> bool {
        let mut state = lock(&self.0);
        let is_enough = state.fan_out.as_ref().is_some_and(|fan_out| tasks.len() >= fan_out.from.max(1));
        let spreads = is_enough && state.part.is_none() && state.wide == 0 && state.inside;
        if spreads {
            state.cut = Some(Cut::Spread(Spread { namespace: namespace.join("|"), tasks }));
        }
        spreads
    }

    /// A step of several tasks runs until what is returned is dropped: the turn does not end inside of it.
    pub(crate) fn widens(&self) -> Wide<'_> {
        lock(&self.0).wide += 1;
        Wide(self)
    }
}

/// A step of several tasks that is running.
pub(crate) struct Wide<'a>(&'a Turn);

impl Drop for Wide<'_> {
    fn drop(&mut self) {
        lock(&self.0.0).wide -= 1;
    }
}

fn is_inside(namespace: &str, outer: &str) -> bool {
    if outer.is_empty() {
        return !namespace.is_empty();
    }
    namespace.strip_prefix(outer).is_some_and(|rest| rest.starts_with('|'))
}
