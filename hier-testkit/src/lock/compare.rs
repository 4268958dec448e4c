use std::collections::BTreeSet;

use hier_core::channel::{ChannelSpec, Kind};
use hier_core::checkpoint::delta::{self, Rule};

use super::alternatives::rewritten;
use super::change::{Change, Verdict, kind_word};
use super::covers::covers;
use super::model::{GraphPath, Lock, LockedChannel, LockedGraph, LockedInner, LockedNode};
use super::reach::starving;
use super::schema::Typed;

/// A change between two locks, with the path of its graph.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// The path of the graph in the old lock. If only the new lock contains the graph, this is the path in the new
    /// lock.
    pub graph: GraphPath,
    /// The change.
    pub change: Change,
}

impl Finding {
    /// Returns true if the change breaks threads.
    pub fn breaks(&self) -> bool {
        self.change.verdict() == Verdict::Breaks
    }
}

/// Returns the changes from the lock of the deployed program to the lock of a new program. Changes that break threads
/// come first.
pub fn compare(old: &Lock, new: &Lock) -> Vec<Finding> {
    compare_rewritten(&rewritten(old), &rewritten(new))
}

/// Like [`compare`], for locks with rewritten schemas.
pub(super) fn compare_rewritten(old: &Lock, new: &Lock) -> Vec<Finding> {
    let mut comparison = Comparison { old, new, findings: BTreeSet::new() };
    comparison.roots();
    let mut findings: Vec<Finding> = comparison.findings.into_iter().collect();
    findings.sort_by_key(|finding| (finding.change.verdict(), finding.graph.clone()));
    findings
}

/// Returns the graph of a lock that can resume threads with this stored graph name.
pub(super) fn root_of<'a>(lock: &'a Lock, stored: &str) -> Option<(&'a GraphPath, &'a LockedGraph)> {
    let roots = || lock.graphs.iter().filter(|(path, _)| path.is_root());
    let named = roots().find(|(_, graph)| graph.name == stored);
    named.or_else(|| roots().find(|(_, graph)| reads(graph, stored)))
}

/// Returns true if a graph can resume threads with this stored graph name.
pub(super) fn reads(graph: &LockedGraph, stored: &str) -> bool {
    graph.name == stored || graph.renamed.get(stored) == Some(&graph.name)
}

/// Returns the options in which two policies differ, each with its two values.
pub(super) fn policy_options(old: &LockedInner, new: &LockedInner) -> Vec<String> {
    let keys: BTreeSet<&String> = old.policy.keys().chain(new.policy.keys()).collect();
    let differs = keys.into_iter().filter(|key| old.policy.get(*key) != new.policy.get(*key));
    let value = |inner: &LockedInner, key: &String| inner.policy.get(key).map_or("unset", String::as_str).to_owned();
    differs.map(|key| format!("{key}: {} → {}", value(old, key), value(new, key))).collect()
}

struct Comparison<'a> {
    old: &'a Lock,
    new: &'a Lock,
    findings: BTreeSet<Finding>,
}

/// A graph in both locks.
struct Pair<'a> {
    path: GraphPath,
    new_path: GraphPath,
    old: &'a LockedGraph,
    new: &'a LockedGraph,
}

impl<'a> Comparison<'a> {
    fn find(&mut self, graph: &GraphPath, change: Change) {
        self.findings.insert(Finding { graph: graph.clone(), change });
    }

    fn roots(&mut self) {
        let (before, after) = (self.old, self.new);
        let mut known = BTreeSet::new();
        for (path, graph) in before.graphs.iter().filter(|(path, _)| path.is_root()) {
            let names = std::iter::once(&graph.name);
            let earlier = graph.renamed.iter().filter(|(_, new)| **new == graph.name).map(|(old, _)| old);
            for name in names.chain(earlier) {
                if root_of(after, name).is_none() {
                    self.find(path, Change::GraphRemoved { name: name.clone() });
                }
            }
            let Some((new_path, new)) = root_of(after, &graph.name) else { continue };
            known.insert(new_path);
            if new.name != graph.name {
                self.find(path, Change::GraphRenamed { from: graph.name.clone(), to: new.name.clone() });
            }
            self.graph(&Pair { path: path.clone(), new_path: new_path.clone(), old: graph, new });
        }
        for (path, graph) in after.graphs.iter().filter(|(path, _)| path.is_root() && !known.contains(path)) {
            self.find(path, Change::GraphAdded { name: graph.name.clone() });
        }
    }

    fn graph(&mut self, pair: &Pair<'a>) {
        self.versions(pair);
        self.channels(pair);
        self.nodes(pair);
        self.joins(pair);
        self.questions(pair);
    }

    fn versions(&mut self, pair: &Pair<'_>) {
        let (old, new) = (pair.old, pair.new);
        if new.version < old.version {
            self.find(&pair.path, Change::VersionLowered { from: old.version, to: new.version });
            return;
        }
        if new.migrates_from > old.migrates_from {
            self.find(&pair.path, Change::MigrationMissing { from: old.migrates_from, to: new.migrates_from });
        }
        if new.version > old.version && new.migrates_from <= old.version {
            self.find(&pair.path, Change::VersionRaised { from: old.version, to: new.version });
        }
    }

    fn channels(&mut self, pair: &Pair<'_>) {
        for (name, old) in &pair.old.channels {
            match pair.new.channels.get(name) {
                None => self.channel_gone(pair, name, old),
                Some(new) => self.channel(pair, name, old, new),
            }
        }
        let added = pair.new.channels.keys().filter(|name| !pair.old.channels.contains_key(*name));
        for channel in added {
            self.find(&pair.path, Change::ChannelAdded { channel: channel.clone() });
        }
    }

    fn channel_gone(&mut self, pair: &Pair<'_>, channel: &str, old: &LockedChannel) {
        let channel = channel.to_owned();
        let is_migrated = pair.new.version > pair.old.version;
        if old.kind == Kind::Untracked {
            self.find(&pair.path, Change::ChannelNotStored { channel });
        } else if is_migrated && has_custom_parts(old) {
            let reducer = old.reducer.clone().unwrap_or_default();
            self.find(&pair.path, Change::PartsUnreadable { channel, reducer });
        } else if is_migrated {
            self.find(&pair.path, Change::ChannelMigrated { channel });
        } else {
            self.find(&pair.path, Change::ChannelRemoved { channel, version: pair.new.version + 1 });
        }
    }

    fn channel(&mut self, pair: &Pair<'_>, name: &str, old: &LockedChannel, new: &LockedChannel) {
        if old.kind == Kind::Untracked {
            return;
        }
        let channel = name.to_owned();
        if loses_value(old.kind, new.kind) {
            self.find(&pair.path, Change::ValueExpires { channel, kind: kind_word(new.kind) });
            return;
        }
        self.types(pair, name, old, new);
        self.secrecy(pair, name, old, new);
        let (before, after) = (spec(old), spec(new));
        let (from, to) = (before.rule().to_owned(), after.rule().to_owned());
        if has_custom_parts(old) && old.reducer != new.reducer {
            let reducer = old.reducer.clone().unwrap_or_default();
            self.find(&pair.path, Change::PartsUnreadable { channel: channel.clone(), reducer });
        }
        if from == to {
            if old.kind != new.kind {
                self.find(&pair.path, Change::ValueKept { channel, kind: kind_word(new.kind) });
            }
        } else if after.replaces(&from, false).is_none() {
            self.find(&pair.path, Change::ReducerChanged { channel, from, to });
        } else {
            self.find(&pair.path, Change::ReducerAdded { channel, to });
        }
    }

    fn types(&mut self, pair: &Pair<'_>, name: &str, old: &LockedChannel, new: &LockedChannel) {
        let channel = name.to_owned();
        let (Some(before), Some(after)) = (&old.schema, &new.schema) else {
            if old.schema.is_some() || new.schema.is_some() {
                self.find(&pair.path, Change::TypeUnknown { channel });
            }
            return;
        };
        let (before, after) =
            (Typed { schema: before, types: &self.old.types }, Typed { schema: after, types: &self.new.types });
        match covers(before, after) {
            Ok(()) if covers(after, before).is_ok() => {}
            Ok(()) => self.find(&pair.path, Change::TypeWidened { channel }),
            Err(_) if pair.new.version > pair.old.version => self.find(&pair.path, Change::ChannelMigrated { channel }),
            Err(reason) => {
                let version = pair.new.version + 1;
                self.find(&pair.path, Change::TypeChanged { channel, reason, version });
            }
        }
    }

    fn secrecy(&mut self, pair: &Pair<'_>, name: &str, old: &LockedChannel, new: &LockedChannel) {
        let channel = name.to_owned();
        match (old.secret, new.secret) {
            (false, true) => self.find(&pair.path, Change::SecretAdded { channel }),
            // The migration decides about the stored value, as for a changed type.
            (true, false) if pair.new.version > pair.old.version => {
                self.find(&pair.path, Change::ChannelMigrated { channel });
            }
            (true, false) => {
                let version = pair.new.version + 1;
                self.find(&pair.path, Change::SecretRemoved { channel, version });
            }
            _ => {}
        }
    }

    fn nodes(&mut self, pair: &Pair<'a>) {
        let (old, new) = (pair.old, pair.new);
        let mut known: BTreeSet<&str> = BTreeSet::new();
        let stored = old.nodes.keys().chain(old.renamed.keys().filter(|name| old.node(name).is_some()));
        for name in stored {
            let Some((current, node)) = new.node(name) else {
                let likely = new.likely_name(old, name).map(str::to_owned);
                self.find(&pair.path, Change::NodeRemoved { node: name.clone(), likely });
                continue;
            };
            known.insert(current);
            if current != name && old.nodes.contains_key(name) {
                let change = if new.nodes.contains_key(name) {
                    Change::NodeReplaced { node: name.clone(), by: current.to_owned() }
                } else {
                    Change::NodeRenamed { from: name.clone(), to: current.to_owned() }
                };
                self.find(&pair.path, change);
            }
            if let Some(before) = old.nodes.get(name) {
                self.node(pair, name, before, (current, node));
            }
        }
        let is_new = |name: &&String| !known.contains(name.as_str()) && !old.nodes.contains_key(*name);
        for node in new.nodes.keys().filter(is_new) {
            self.find(&pair.path, Change::NodeAdded { node: node.clone() });
        }
    }

    fn node(&mut self, pair: &Pair<'a>, name: &str, old: &LockedNode, (current, new): (&str, &LockedNode)) {
        let node = name.to_owned();
        if old.defer != new.defer {
            self.find(&pair.path, Change::DeferChanged { node: node.clone(), defer: new.defer });
        }
        let names = |next: &LockedNode, graph: &LockedGraph| -> BTreeSet<String> {
            next.exits.all().map(|name| graph.current(name).to_owned()).collect()
        };
        let (before, after) = (names(old, pair.new), names(new, pair.new));
        let added: Vec<String> = after.difference(&before).cloned().collect();
        let removed: Vec<String> = before.difference(&after).cloned().collect();
        if !added.is_empty() || !removed.is_empty() {
            self.find(&pair.path, Change::EdgesChanged { node: node.clone(), added, removed });
        }
        match (&old.inner, &new.inner) {
            (None, None) => {}
            (Some(_), None) => self.find(&pair.path, Change::InnerGraphRemoved { node }),
            (None, Some(_)) => self.find(&pair.path, Change::InnerGraphAdded { node }),
            (Some(before), Some(after)) => self.inner(pair, (name, before), (current, after)),
        }
    }

    fn inner(&mut self, pair: &Pair<'a>, (name, old): (&str, &LockedInner), (current, new): (&str, &LockedInner)) {
        let node = name.to_owned();
        if old.checkpoints != new.checkpoints {
            let (from, to) = (old.checkpoints.clone(), new.checkpoints.clone());
            self.find(&pair.path, Change::CheckpointsChanged { node: node.clone(), from, to });
        }
        if name != current && new.checkpoints == "per_call" {
            self.find(&pair.path, Change::InnerRenamed { node: node.clone(), to: current.to_owned() });
        }
        let options = policy_options(old, new);
        if !options.is_empty() {
            self.find(&pair.path, Change::PolicyChanged { node: node.clone(), options });
        }
        let (from, to) = (pair.old.version, pair.new.version);
        if from < to && old.takes_state && old.is_sent {
            self.find(&pair.path, Change::StatesSent { node: node.clone(), from, to });
        }
        let (path, new_path) = (pair.path.inside(name), pair.new_path.inside(current));
        let Some((before, after)) = self.old.graphs.get(&path).zip(self.new.graphs.get(&new_path)) else { return };
        if reads(after, &before.name) {
            self.graph(&Pair { path, new_path, old: before, new: after });
        } else if old.checkpoints != "none" {
            let (from, to) = (before.name.clone(), after.name.clone());
            self.find(&pair.path, Change::InnerGraphChanged { node, from, to });
        }
    }

    fn joins(&mut self, pair: &Pair<'_>) {
        let mut known = BTreeSet::new();
        for join in pair.old.joins.keys() {
            match pair.new.join(join) {
                Some((name, _)) => _ = known.insert(name),
                None => self.find(&pair.path, Change::JoinChanged { join: join.clone() }),
            }
        }
        for join in pair.new.joins.keys().filter(|join| !known.contains(join.as_str())) {
            self.find(&pair.path, Change::JoinAdded { join: join.clone() });
        }
        for (join, from) in starving(pair.old, pair.new) {
            self.find(&pair.path, Change::JoinStarves { join, from: from.into_iter().collect() });
        }
    }

    fn questions(&mut self, pair: &Pair<'_>) {
        for name in pair.old.questions.keys() {
            if let Some(change) = question_change(name, (pair.old, self.old), (pair.new, self.new)) {
                self.find(&pair.path, change);
            }
        }
        for question in pair.new.questions.keys().filter(|name| !pair.old.questions.contains_key(*name)) {
            self.find(&pair.path, Change::QuestionAdded { question: question.clone() });
        }
    }
}

/// Returns the change of a declared question that breaks threads in which the question is open. Each graph comes with
/// its lock.
pub(super) fn question_change(name: &str, old: (&LockedGraph, &Lock), new: (&LockedGraph, &Lock)) -> Option<Change> {
    let (before, question) = (old.0.questions.get(name)?, name.to_owned());
    let Some(after) = new.0.questions.get(name) else { return Some(Change::QuestionRemoved { question }) };
    let (old_types, new_types) = (&old.1.types, &new.1.types);
    let fit =
        |before, after| covers(Typed { schema: before, types: old_types }, Typed { schema: after, types: new_types });
    let fit = fit(&before.question, &after.question).and_then(|()| fit(&before.answer, &after.answer));
    fit.err().map(|reason| Change::QuestionChanged { question, reason })
}

/// Returns true if savers store the values of a channel in parts that only a reducer of the program can merge.
fn has_custom_parts(channel: &LockedChannel) -> bool {
    matches!(delta::grows(&spec(channel)), Some(Rule::Custom(_)))
}

/// Returns true if a stored value of the first kind is lost in a channel of the second kind.
pub(super) fn loses_value(old: Kind, new: Kind) -> bool {
    let is_kept = |kind: Kind| !kind.expires() && kind != Kind::Untracked;
    new == Kind::Untracked || (is_kept(old) && !is_kept(new))
}

/// Returns the spec of the channel, with an empty name.
pub(super) fn spec(channel: &LockedChannel) -> ChannelSpec {
    let reducer = channel.reducer.clone().map(Into::into);
    ChannelSpec { name: "".into(), kind: channel.kind, reducer, delta: channel.delta, secret: channel.secret }
}
