//! Reads the position of a stored thread, without the types of its program.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use hier_core::Question;
use hier_core::checkpoint::{
    Checkpointer, CodecError, ListQuery, PendingWrite, Saved, SaverError, SendRecord, TaskWrites, codec, slot,
};
use serde::Deserialize;
use uuid::Uuid;

const ROUTING: &str = "__routing__";
/// The metadata key of a graph that keeps its state. Its value is the call that made the checkpoint.
const CALL: &str = "__call__";

/// A thread, or a call of a graph within it, at its latest checkpoint.
#[derive(Debug)]
pub(super) struct StoredCall {
    pub(super) saved: Saved,
    pub(super) tasks: Vec<StoredTask>,
    /// The calls of inner graphs that a run may continue.
    pub(super) inner: Vec<InnerCall>,
}

/// A call of a graph at a node.
#[derive(Debug)]
pub(super) struct InnerCall {
    /// The stored name of the node.
    pub(super) node: String,
    /// True if the graph keeps its state between calls.
    pub(super) is_per_thread: bool,
    /// True if the task that runs the graph has not ended.
    pub(super) is_open: bool,
    /// True if the task that runs the graph has stored records. The records name the call.
    pub(super) has_record: bool,
    pub(super) call: StoredCall,
}

/// The records of a task of the current superstep, or of a command that a caller sent.
#[derive(Debug)]
pub(super) struct StoredTask {
    /// The stored name of the node. `None` for a command.
    pub(super) node: Option<String>,
    pub(super) is_done: bool,
    pub(super) has_failed: bool,
    /// True if the task has asked a question that is not answered.
    pub(super) asks: bool,
    /// The declared questions that are not answered.
    questions: Vec<AskedQuestion>,
    pub(super) routing: RoutingRecord,
    /// The writes of the task that the engine has not applied yet.
    pub(super) writes: Vec<PendingWrite>,
    id: Uuid,
}

/// A declared question.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct AskedQuestion {
    /// The stored names of the nodes from the graph to the node that asks.
    pub(super) path: Vec<String>,
    pub(super) name: String,
}

/// The destinations of a task and the reducers of its writes, as the engine stores them.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct RoutingRecord {
    pub(super) go: Vec<Arc<str>>,
    pub(super) sends: Vec<SendRecord>,
    pub(super) version: Option<u32>,
    pub(super) rules: Vec<(Arc<str>, Arc<str>)>,
}

/// The failure of a task, as the engine stores it.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct FailureRecord {
    message: String,
    void: Option<i32>,
}

impl AskedQuestion {
    fn declared(question: Question) -> Option<Self> {
        Some(Self { path: question.path, name: question.name? })
    }
}

impl StoredTask {
    fn read(record: &TaskWrites, saved: &Saved) -> Result<Self, CodecError> {
        let entry = |slot: i32| record.writes.iter().find(|write| write.slot == slot);
        let failure = entry(slot::ERROR).map(|write| codec::decode(&write.value)).transpose()?;
        let failure: FailureRecord = failure.unwrap_or_default();
        let asked = entry(slot::INTERRUPT).map(|write| codec::decode::<Vec<Question>>(&write.value)).transpose()?;
        let valid: Vec<&PendingWrite> =
            record.writes.iter().filter(|write| write.slot >= failure.void.unwrap_or(0)).collect();
        let mut routing = RoutingRecord::default();
        let mut is_done = false;
        for write in valid.iter().filter(|write| &*write.channel == ROUTING) {
            let RoutingRecord { go, sends, version, rules } = codec::decode(&write.value)?;
            routing.go.extend(go);
            routing.sends.extend(sends);
            routing.rules.extend(rules);
            routing.version = version.or(routing.version);
            is_done = true;
        }
        let writes = valid.into_iter().filter(|write| !write.channel.starts_with("__")).cloned();
        let node = if record.task.is_nil() { None } else { saved.checkpoint.agenda.node_of(&record.path) };
        let is_open = |question: &Question| !question.answered && !is_done;
        let open: Vec<Question> = asked.unwrap_or_default().into_iter().filter(is_open).collect();
        Ok(Self {
            node: node.map(str::to_owned),
            is_done,
            has_failed: !failure.message.is_empty() && !is_done,
            asks: !open.is_empty(),
            questions: open.into_iter().filter_map(AskedQuestion::declared).collect(),
            routing,
            writes: if is_done { writes.collect() } else { Vec::new() },
            id: record.task,
        })
    }

    /// Returns the rule with which the task wrote a channel.
    pub(super) fn rule_of(&self, channel: &str) -> &str {
        let rule = self.routing.rules.iter().find(|(name, _)| &**name == channel);
        rule.map_or(hier_core::channel::LAST, |(_, rule)| rule)
    }
}

impl StoredCall {
    pub(super) fn next(&self) -> BTreeSet<&str> {
        let agenda = &self.saved.checkpoint.agenda;
        let sent = agenda.sends.iter().map(|send| &*send.node);
        agenda.ready.iter().map(|node| &**node).chain(sent).collect()
    }

    /// Returns the declared questions that are open in this call and in the calls inside it.
    pub(super) fn questions(&self) -> BTreeSet<AskedQuestion> {
        let mut found: BTreeSet<_> = self.tasks.iter().flat_map(|task| &task.questions).cloned().collect();
        for inner in self.inner.iter().filter(|inner| inner.is_open) {
            for AskedQuestion { path, name } in inner.call.questions() {
                found.insert(AskedQuestion { path: [inner.node.clone()].into_iter().chain(path).collect(), name });
            }
        }
        found
    }

    /// Returns true if a task of the thread or of an open call in it matches.
    pub(super) fn any_task(&self, matches: &dyn Fn(&StoredTask) -> bool) -> bool {
        let inner = self.inner.iter().filter(|inner| inner.is_open);
        self.tasks.iter().any(matches) || inner.into_iter().any(|inner| inner.call.any_task(matches))
    }
}

/// Reads a thread. Returns `None` if it has no checkpoint.
pub(super) async fn read_thread(saver: &dyn Checkpointer, thread: &str) -> Result<Option<StoredCall>, SaverError> {
    let Some(newest) = saver.get(thread, "", None).await? else { return Ok(None) };
    let query = ListQuery { namespace: None, ..ListQuery::thread(thread) };
    let mut inner_calls: BTreeMap<String, Option<Uuid>> = BTreeMap::new();
    for listed in saver.list(query).await? {
        inner_calls.entry(listed.namespace.to_string()).or_insert(Some(listed.checkpoint.id));
    }
    inner_calls.remove("");
    let names: Vec<String> = inner_calls.into_keys().collect();
    read_call(saver, thread, "", newest, &names).await.map(Some)
}

async fn read_call(
    saver: &dyn Checkpointer,
    thread: &str,
    namespace: &str,
    newest: Saved,
    inner_calls: &[String],
) -> Result<StoredCall, SaverError> {
    let damaged = |error: CodecError| SaverError::Invalid(format!("thread `{thread}` cannot be read: {error}"));
    let tasks = newest.writes.iter().map(|record| StoredTask::read(record, &newest)).collect::<Result<Vec<_>, _>>();
    let tasks = tasks.map_err(damaged)?;
    let mut inner = Vec::new();
    let prefix = if namespace.is_empty() { String::new() } else { format!("{namespace}|") };
    for name in inner_calls {
        let Some(segment) = name.strip_prefix(&*prefix).filter(|segment| !segment.contains('|')) else { continue };
        let Some(stored) = Box::pin(saver.get(thread, name, None)).await? else { continue };
        let (node, task) = match segment.rsplit_once(':').map(|(node, task)| (node, Uuid::try_parse(task))) {
            Some((node, Ok(task))) => (node, Some(task)),
            _ => (segment, None),
        };
        let call_id = stored.checkpoint.metadata.get(CALL).and_then(|call| Uuid::try_parse(call.as_str()?).ok());
        let record = tasks.iter().find(|record| Some(record.id) == task.or(call_id));
        let is_of_step = stored.checkpoint.parents.get(namespace) == Some(&newest.checkpoint.id);
        let is_open = is_of_step && record.is_none_or(|record| !record.is_done);
        if !is_open && task.is_some() {
            continue;
        }
        let (node, is_per_thread, has_record) = (node.to_owned(), task.is_none(), record.is_some());
        let call = Box::pin(read_call(saver, thread, name, stored, inner_calls)).await?;
        inner.push(InnerCall { node, is_per_thread, is_open, has_record, call });
    }
    Ok(StoredCall { saved: newest, tasks, inner })
}
