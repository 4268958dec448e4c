//! Counts the threads of a database that a change breaks.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use hier_core::checkpoint::{Checkpointer, SaverError, ThreadInfo};

use super::alternatives::rewritten;
use super::compare::{Finding, compare_rewritten};
use super::meets::{Deploy, breaks_of};
use super::model::{GraphPath, Lock};
use super::stored::{StoredCall, read_thread};

/// A comparison of two locks: the changes and, with a database, the threads that each change breaks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LockReport {
    /// The changes. Those that break threads come first.
    pub findings: Vec<LockFinding>,
    /// The numbers of threads in the database. `None` if the report was made without a database.
    pub threads: Option<ThreadTotals>,
    /// For each graph, the channels that nodes write but that no part of the new program reads. Such channels do not
    /// break threads.
    pub unread: BTreeMap<GraphPath, Vec<String>>,
}

/// The numbers of threads in a database.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ThreadTotals {
    /// The number of threads that the saver can read and whose graph is in one of the two locks.
    pub read: usize,
    /// The number of threads that at least one change breaks. The field `read` includes these threads.
    pub broken: usize,
    /// The number of threads of other programs, whose graphs are in neither lock.
    pub foreign: usize,
    /// The ids of the threads that the saver cannot read, each with the reason.
    pub unreadable: Vec<(String, String)>,
}

/// A change, and the threads that the change breaks.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LockFinding {
    /// The change and its graph.
    pub finding: Finding,
    /// The number of threads that the change breaks, for each position in the graph. Empty if the report was made
    /// without a database.
    pub threads: BTreeMap<ThreadPosition, usize>,
}

/// The position of a thread in its graph: the next nodes and the status of the thread.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ThreadPosition {
    /// The names of the nodes that the thread runs next. Empty if the thread has finished.
    pub nodes: Vec<String>,
    /// The status of the thread.
    pub status: ThreadStatus,
}

/// The status of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ThreadStatus {
    /// A run of the thread is in progress.
    Running,
    /// The thread waits for an answer, a timer or a signal.
    Waiting,
    /// A task of the last run has failed.
    Failed,
    /// The last run of the thread stopped before the thread had finished, for example because its process died.
    Stopped,
    /// The thread has finished. The next input starts from the stored state.
    Finished,
}

impl fmt::Display for ThreadStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Running => "running",
            Self::Waiting => "waiting",
            Self::Failed => "failed",
            Self::Stopped => "stopped",
            Self::Finished => "finished",
        })
    }
}

impl ThreadPosition {
    fn new(info: &ThreadInfo, thread: &StoredCall) -> Self {
        let agenda = &thread.saved.checkpoint.agenda;
        let status = if info.holder.is_some() {
            ThreadStatus::Running
        } else if thread.any_task(&|task| task.asks) {
            ThreadStatus::Waiting
        } else if thread.any_task(&|task| task.has_failed) {
            ThreadStatus::Failed
        } else if agenda.start || !agenda.waiting.is_empty() || !thread.next().is_empty() {
            ThreadStatus::Stopped
        } else {
            ThreadStatus::Finished
        };
        let waiting = agenda.waiting.iter().map(|node| &**node);
        let nodes: BTreeSet<&str> = thread.next().into_iter().chain(waiting).collect();
        Self { nodes: nodes.into_iter().map(str::to_owned).collect(), status }
    }
}

impl LockFinding {
    fn new(finding: Finding) -> Self {
        Self { finding, threads: BTreeMap::new() }
    }

    /// Returns the number of threads that the change breaks. Returns 0 if the report was made without a database.
    pub fn count(&self) -> usize {
        self.threads.values().sum()
    }

    /// Returns true if this is the same change of the same part, even if the versions or reasons differ.
    fn is_same(&self, other: &Finding) -> bool {
        let (own, change) = (&self.finding, &other.change);
        own.graph == other.graph && own.change.code() == change.code() && own.change.subject() == change.subject()
    }
}

impl LockReport {
    /// Compares two locks, without a database.
    pub fn new(old: &Lock, new: &Lock) -> Self {
        Self::of_rewritten(&rewritten(old), &rewritten(new))
    }

    fn of_rewritten(old: &Lock, new: &Lock) -> Self {
        let findings = compare_rewritten(old, new).into_iter().map(LockFinding::new).collect();
        Self { findings, threads: None, unread: unread(new) }
    }

    /// Compares two locks, and counts the threads of a database that each change breaks. The graph of a thread may have
    /// changed before the old lock was written. The report contains only those of these changes that the thread
    /// itself shows, such as a removed node or channel. It does not contain a changed type.
    ///
    /// # Errors
    ///
    /// Fails if the saver cannot list threads. If the saver cannot read a single thread, the report contains its error
    /// in [`ThreadTotals::unreadable`].
    pub async fn with_threads(old: &Lock, new: &Lock, saver: &dyn Checkpointer) -> Result<Self, SaverError> {
        let (old, new) = (&rewritten(old), &rewritten(new));
        let mut report = Self::of_rewritten(old, new);
        let mut totals = ThreadTotals::default();
        let deploy = Deploy { old, new, protects_values: saver.capabilities().protects_values };
        for info in saver.admin()?.threads(None).await? {
            match read_thread(saver, &info.thread).await {
                Ok(Some(thread)) => report.add(&info, &thread, &mut totals, &deploy),
                Ok(None) => {}
                Err(error) => totals.unreadable.push((info.thread.to_string(), error.to_string())),
            }
        }
        report.findings.sort_by_key(|found| (found.finding.change.verdict(), found.finding.graph.clone()));
        report.threads = Some(totals);
        Ok(report)
    }

    fn add(&mut self, info: &ThreadInfo, thread: &StoredCall, totals: &mut ThreadTotals, deploy: &Deploy<'_>) {
        let Some(breaks) = breaks_of(thread, deploy) else {
            totals.foreign += 1;
            return;
        };
        totals.read += 1;
        totals.broken += usize::from(!breaks.is_empty());
        let position = ThreadPosition::new(info, thread);
        for finding in breaks {
            let known = self.findings.iter().position(|found| found.is_same(&finding));
            let index = known.unwrap_or_else(|| {
                self.findings.push(LockFinding::new(finding));
                self.findings.len() - 1
            });
            *self.findings[index].threads.entry(position.clone()).or_default() += 1;
        }
    }

    /// Returns the changes that break threads.
    pub fn breaks(&self) -> impl Iterator<Item = &LockFinding> {
        self.findings.iter().filter(|found| found.finding.breaks())
    }

    /// Returns true if the new program can be deployed. Without a database, this means that no change breaks threads.
    /// With a database, this means that no change breaks a thread of the database. The method ignores threads that the
    /// saver cannot read.
    pub fn passes(&self) -> bool {
        match &self.threads {
            Some(totals) => totals.broken == 0,
            None => self.breaks().next().is_none(),
        }
    }
}

impl fmt::Display for LockReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (breaking, harmless): (Vec<_>, Vec<_>) = self.findings.iter().partition(|found| found.finding.breaks());
        for found in &breaking {
            self.write_break(f, found)?;
        }
        if !harmless.is_empty() {
            writeln!(f, "{}breaks nothing:", if breaking.is_empty() { "" } else { "\n" })?;
        }
        for found in &harmless {
            writeln!(f, "  {}: {}", found.finding.graph, found.finding.change.describe())?;
        }
        if self.findings.is_empty() {
            writeln!(f, "nothing has changed that stored threads depend on")?;
        }
        self.write_totals(f)?;
        for (graph, channels) in &self.unread {
            let channels = channels.join("`, `");
            writeln!(f, "\nnote: {graph}: no node, route or `output:` reads `{channels}`, which nodes write")?;
        }
        Ok(())
    }
}

fn unread(lock: &Lock) -> BTreeMap<GraphPath, Vec<String>> {
    let of_graphs = lock.graphs.iter().map(|(path, graph)| {
        let unread = graph.channels.iter().filter(|(_, channel)| channel.is_unread);
        (path.clone(), unread.map(|(name, _)| name.clone()).collect::<Vec<_>>())
    });
    of_graphs.filter(|(_, unread)| !unread.is_empty()).collect()
}

impl LockReport {
    fn write_break(&self, f: &mut fmt::Formatter<'_>, found: &LockFinding) -> fmt::Result {
        let change = &found.finding.change;
        writeln!(f, "breaks {}: {}", found.finding.graph, change.describe())?;
        writeln!(f, "  fix: {}", change.fix().unwrap_or_default())?;
        if self.threads.is_some() && found.threads.is_empty() {
            writeln!(f, "  no thread is affected")?;
        }
        for (position, count) in &found.threads {
            let threads = if *count == 1 { "thread" } else { "threads" };
            let at = if position.nodes.is_empty() {
                String::new()
            } else {
                format!(" at `{}`", position.nodes.join("`, `"))
            };
            writeln!(f, "  {count} {threads} {}{at}", position.status)?;
        }
        Ok(())
    }

    fn write_totals(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(totals) = &self.threads else { return Ok(()) };
        writeln!(f, "\n{} of {} threads break", totals.broken, totals.read)?;
        if totals.foreign > 0 {
            writeln!(f, "{} threads belong to graphs of other programs", totals.foreign)?;
        }
        totals
            .unreadable
            .iter()
            .try_for_each(|(thread, reason)| writeln!(f, "thread `{thread}` cannot be read: {reason}"))
    }
}
