//! A slice of a run. A slice ends when a superstep is stored. The next slice continues from there, on any worker.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hier_core::drive::{GraphEntry, PartialStep, PartialStepEnd, PausedRun, PlannedTask, StepPolicy, StoppedClock};
use serde::{Deserialize, Serialize};
use uuid::Uuid;
use xxhash_rust::xxh3::Xxh3;

/// The data that a run passes to its next slice in addition to the thread. The keys are the namespaces of the running
/// graphs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SliceProgress {
    /// The number of the last allowed superstep.
    last_steps: BTreeMap<String, i64>,
    /// The number of supersteps since the run entered the graph, including the input and START.
    #[serde(default)]
    steps: BTreeMap<String, i64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RemoteTasks {
    /// The namespace of the graph.
    pub namespace: String,
    /// The places of the tasks in the superstep. A place identifies a task within its superstep.
    pub tasks: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SliceEnd {
    /// A superstep was stored, and there is more to do.
    Stored,
    /// The next superstep has tasks that run elsewhere.
    Remote(RemoteTasks),
    Task,
}

/// The rule that selects the tasks of a superstep that run elsewhere.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RemoteRule {
    /// The minimum number of tasks of a superstep that the rule selects. If the superstep has fewer such tasks, the
    /// worker runs them itself.
    pub from: usize,
    /// Restricts the rule to tasks of these nodes. Defaults to all nodes.
    pub nodes: Option<BTreeSet<String>>,
}

/// A slice of a run, as the policy that decides when the engine pauses.
#[must_use]
pub(crate) struct Slice(Mutex<SliceState>);

#[expect(clippy::struct_excessive_bools, reason = "independent facts of one slice, each read by itself")]
struct SliceState {
    resumes: bool,
    /// The graphs that were running when the previous slice ended.
    paused: BTreeSet<String>,
    /// The graphs with supersteps that an earlier attempt of this slice has stored.
    advanced: BTreeSet<String>,
    /// The number of checkpoints of the root graph that earlier attempts of the first slice have stored.
    lost: i64,
    progress: SliceProgress,
    fan_out: Option<RemoteRule>,
    part: Option<PartialStep>,
    /// The time since 1970 at which the clock stands, and the id of the run or update.
    clock: Option<(Duration, Uuid)>,
    /// True if the slice may end inside a subgraph. False for a run that continues from an older checkpoint, because
    /// the next slice could not find the subgraph.
    inside: bool,
    /// The number of nested supersteps with several tasks that are running.
    wide: usize,
    stored: bool,
    /// True if the next stored superstep ran elsewhere, and this slice only applies its writes.
    applies: bool,
    /// True if the only task of this slice waits. The slice that runs the rest of the superstep reports this.
    waits: bool,
    end: Option<SliceEnd>,
}

impl fmt::Debug for Slice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Slice").field("end", &self.state().end).finish_non_exhaustive()
    }
}

impl Slice {
    pub(crate) fn first() -> Self {
        Self::new(false, SliceProgress::default())
    }

    pub(crate) fn later(progress: SliceProgress) -> Self {
        Self::new(true, progress)
    }

    /// Continues the first slice of a run after attempts that have stored this number of checkpoints.
    pub(crate) fn repeated(lost: usize) -> Self {
        let slice = Self::later(SliceProgress::default());
        let mut state = slice.state();
        state.lost = i64::try_from(lost).unwrap_or(i64::MAX);
        state.paused.insert(String::new());
        drop(state);
        slice
    }

    fn new(resumes: bool, progress: SliceProgress) -> Self {
        Self(Mutex::new(SliceState {
            resumes,
            paused: progress.last_steps.keys().cloned().collect(),
            advanced: BTreeSet::new(),
            lost: 0,
            progress,
            fan_out: None,
            part: None,
            clock: None,
            inside: true,
            wide: 0,
            stored: false,
            applies: false,
            waits: false,
            end: None,
        }))
    }

    fn state(&self) -> MutexGuard<'_, SliceState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes the slice end before a superstep with tasks that run elsewhere by this rule.
    pub(crate) fn fan_out(self, fan_out: Option<RemoteRule>) -> Self {
        self.state().fan_out = fan_out;
        self
    }

    /// Makes the slice execute only this part of a superstep.
    pub(crate) fn part(self, part: Option<PartialStep>) -> Self {
        self.state().part = part;
        self
    }

    /// Stops the clock of the slice at this time since 1970. Ids depend only on the time and on the run or update.
    pub(crate) fn stopped_clock(self, since_1970: Duration, work: Uuid) -> Self {
        self.state().clock = Some((since_1970, work));
        self
    }

    /// Makes the slice end only between supersteps of the root graph.
    pub(crate) fn outside_only(self) -> Self {
        self.state().inside = false;
        self
    }

    /// Returns the reason why the slice ended before its run, or `None` if the run has ended.
    pub(crate) fn end(&self) -> Option<SliceEnd> {
        self.state().end.clone()
    }

    pub(crate) fn progress(&self) -> SliceProgress {
        self.state().progress.clone()
    }
}

impl StepPolicy for Slice {
    fn clock(&self, namespace: &str) -> Option<StoppedClock> {
        let (since_1970, work) = self.state().clock?;
        Some(StoppedClock { since_1970, node: node_of(work, namespace) })
    }

    fn continues(&self, namespace: &[String]) -> PausedRun {
        let (state, graph) = (self.state(), namespace.join("|"));
        let part = state.part.as_ref().map(namespace_of);
        // The subgraphs ended with a superstep that an earlier attempt has stored.
        let is_over = state.advanced.contains(&graph);
        let runs_inside = !is_over && state.progress.last_steps.keys().any(|name| is_inside(name, &graph));
        let has_part = part.is_some_and(|part| part == graph || is_inside(part, &graph));
        match (state.resumes, runs_inside || has_part) {
            (true, true) => PausedRun::InsideStep,
            (true, false) if state.paused.contains(&graph) => PausedRun::BetweenSteps,
            _ => PausedRun::None,
        }
    }

    fn last_step(&self, namespace: &[String], entry: GraphEntry, last_step: i64) -> i64 {
        let mut state = self.state();
        let name = namespace.join("|");
        if entry == GraphEntry::Start || !state.resumes {
            // The input and START come before the first superstep.
            state.progress.steps.insert(name.clone(), if entry == GraphEntry::Start { 2 } else { 0 });
            state.progress.last_steps.insert(name, last_step);
            return last_step;
        }
        let lost = if namespace.is_empty() { state.lost } else { 0 };
        let allowed = *state.progress.last_steps.entry(name.clone()).or_insert(last_step - lost);
        // Both numbers follow from the same limit, so their difference is the number of supersteps.
        let steps = last_step - allowed;
        if state.progress.steps.insert(name.clone(), steps).is_some_and(|expected| expected < steps) {
            state.advanced.insert(name);
        }
        allowed
    }

    fn step_stored(&self, namespace: &[String]) {
        let mut state = self.state();
        state.stored |= !std::mem::take(&mut state.applies);
        let name = namespace.join("|");
        // The subgraphs of the stored step have ended.
        state.progress.last_steps.retain(|other, _| *other == name || !is_inside(other, &name));
        state.progress.steps.retain(|other, _| *other == name || !is_inside(other, &name));
        *state.progress.steps.entry(name).or_default() += 1;
    }

    fn pause(&self, is_subgraph: bool) -> bool {
        let mut state = self.state();
        let pauses = state.stored && state.wide == 0 && (state.inside || !is_subgraph);
        if pauses {
            state.end.get_or_insert(SliceEnd::Stored);
        }
        pauses
    }

    fn is_paused(&self) -> bool {
        let state = self.state();
        state.waits || state.end.is_some()
    }

    fn run_elsewhere(&self, namespace: &[String], tasks: Vec<PlannedTask>) -> bool {
        let mut state = self.state();
        let Some(RemoteRule { from, nodes }) = &state.fan_out else { return false };
        let is_remote = |node: &String| nodes.as_ref().is_none_or(|nodes| nodes.contains(node));
        let tasks = tasks.into_iter().filter(|task| is_remote(&task.node)).map(|task| task.place);
        let tasks: Vec<String> = tasks.collect();
        let run_elsewhere = tasks.len() >= *from.max(&1) && state.part.is_none() && state.wide == 0 && state.inside;
        if run_elsewhere {
            state.end = Some(SliceEnd::Remote(RemoteTasks { namespace: namespace.join("|"), tasks }));
        }
        run_elsewhere
    }

    fn partial_step(&self, namespace: &[String]) -> Option<PartialStep> {
        let state = self.state();
        let part = state.part.as_ref()?;
        (namespace_of(part) == namespace.join("|")).then(|| part.clone())
    }

    fn end_partial_step(&self, end: PartialStepEnd) {
        let mut state = self.state();
        state.part = None;
        match end {
            PartialStepEnd::TaskStored => {
                state.end.get_or_insert(SliceEnd::Task);
            }
            PartialStepEnd::TaskWaits => state.waits = true,
            PartialStepEnd::StepRan => {}
            PartialStepEnd::StepOnlyApplied => state.applies = true,
        }
    }

    fn parallel_step_begins(&self) {
        self.state().wide += 1;
    }

    fn parallel_step_ends(&self) {
        self.state().wide -= 1;
    }
}

/// Returns true if a slice of this run, or an attempt of this update, has made the checkpoint.
pub(crate) fn has_made(work: Uuid, namespace: &str, checkpoint: Uuid) -> bool {
    checkpoint.as_bytes()[10..] == node_of(work, namespace)
}

/// Returns the node field of the ids that a run or an update makes.
pub(crate) fn node_of(work: Uuid, namespace: &str) -> [u8; 6] {
    let mut hash = Xxh3::new();
    hash.update(work.as_bytes());
    hash.update(namespace.as_bytes());
    let bytes = hash.digest().to_le_bytes();
    let mut node = [0; 6];
    node.copy_from_slice(&bytes[..6]);
    // Sets the multicast bit, because no network card has an address with this bit.
    node[0] |= 1;
    node
}

fn namespace_of(part: &PartialStep) -> &str {
    let (PartialStep::Task { namespace, .. } | PartialStep::Rest { namespace, .. }) = part;
    namespace
}

fn is_inside(namespace: &str, outer: &str) -> bool {
    if outer.is_empty() {
        return !namespace.is_empty();
    }
    namespace.strip_prefix(outer).is_some_and(|rest| rest.starts_with('|'))
}
