//! Finds the changes that break a stored thread when the new program resumes the thread.

use std::collections::BTreeSet;

use hier_core::channel::Kind;
use hier_core::checkpoint::delta::{self, Rule};
use hier_core::checkpoint::{DeltaChain, chain_json, codec};

use super::change::{Change, kind_word};
use super::compare::{Finding, loses_value, policy_options, question_change, reads, root_of, spec};
use super::covers::{covers, fits};
use super::model::{GraphPath, Lock, LockedGraph};
use super::reach::Position;
use super::schema::Typed;
use super::stored::{AskedQuestion, InnerCall, StoredCall};

/// The two programs of a deploy, and their database.
pub(super) struct Deploy<'a> {
    pub(super) old: &'a Lock,
    pub(super) new: &'a Lock,
    /// False for a database that stores values as plain text.
    pub(super) protects_values: bool,
}

/// Returns the changes that break a thread. Returns `None` if neither lock has the graph of the thread.
pub(super) fn breaks_of(thread: &StoredCall, deploy: &Deploy<'_>) -> Option<BTreeSet<Finding>> {
    let Deploy { old, new, protects_values } = *deploy;
    let name = &thread.saved.checkpoint.schema.graph;
    let before = root_of(old, name);
    let Some((new_path, graph)) = root_of(new, name) else {
        let (path, _) = before?;
        return Some(BTreeSet::from([Finding {
            graph: path.clone(),
            change: Change::GraphRemoved { name: name.clone() },
        }]));
    };
    let (path, before) = before.unwrap_or((new_path, graph));
    let mut check = ThreadCheck { old, new, found: BTreeSet::new() };
    let place = Place { path: path.clone(), new_path: new_path.clone(), old: before, new: graph };
    if let Some(channel) = secret_below(new, new_path).filter(|_| !protects_values) {
        check.find(&place, Change::Unencrypted { channel: channel.to_owned() });
    }
    check.graph(thread, &place);
    Some(check.found)
}

/// Returns a secret channel of a graph or of the graphs in it.
fn secret_below<'a>(lock: &'a Lock, root: &GraphPath) -> Option<&'a str> {
    let graphs = lock.graphs.iter().filter(|(path, _)| path.0.starts_with(&root.0));
    let mut channels = graphs.flat_map(|(_, graph)| &graph.channels);
    channels.find(|(_, channel)| channel.secret).map(|(name, _)| name.as_str())
}

struct ThreadCheck<'a> {
    old: &'a Lock,
    new: &'a Lock,
    found: BTreeSet<Finding>,
}

/// A graph of the thread, in both locks.
#[derive(Clone)]
struct Place<'a> {
    path: GraphPath,
    new_path: GraphPath,
    old: &'a LockedGraph,
    new: &'a LockedGraph,
}

/// A stored write that the engine has not applied yet.
struct Unapplied<'a> {
    channel: &'a str,
    rule: &'a str,
    bytes: &'a [u8],
    version: u32,
}

impl<'a> ThreadCheck<'a> {
    fn find(&mut self, place: &Place<'_>, change: Change) {
        self.found.insert(Finding { graph: place.path.clone(), change });
    }

    fn graph(&mut self, call: &StoredCall, place: &Place<'a>) {
        let (stored, new) = (call.saved.checkpoint.schema.version, place.new);
        if stored > new.version {
            return self.find(place, Change::VersionLowered { from: stored, to: new.version });
        }
        if stored < new.migrates_from {
            return self.find(place, Change::MigrationMissing { from: stored, to: new.migrates_from });
        }
        self.values(call, place);
        self.writes(call, place);
        self.position(call, place);
        // A thread that waits for a removed join cannot be read at all.
        let agenda = &call.saved.checkpoint.agenda;
        if agenda.joins.iter().all(|record| place.new.join(&record.join).is_some()) {
            self.starving(call, place);
        }
        self.open_tasks(call, place);
        if place.path.is_root() {
            self.questions(call, place);
        }
        call.inner.iter().for_each(|inner| self.inner(inner, place));
    }

    /// Checks the open questions of a thread. A question belongs to the innermost graph on its path that declares it,
    /// because an outer graph may declare another question of the same name.
    fn questions(&mut self, call: &StoredCall, root: &Place<'a>) {
        for AskedQuestion { path, name } in call.questions() {
            let (mut asker, mut at) = (root.clone(), root.clone());
            for node in &path {
                let Some(inner) = self.inside(&at, node) else { break };
                at = inner;
                if at.old.questions.contains_key(&name) {
                    asker = at.clone();
                }
            }
            if let Some(change) = question_change(&name, (asker.old, self.old), (asker.new, self.new)) {
                self.find(&asker, change);
            }
        }
    }

    /// Returns the graph at this node, if both locks have it.
    fn inside(&self, place: &Place<'a>, node: &str) -> Option<Place<'a>> {
        let ((old_name, _), (current, _)) = (place.old.node(node)?, place.new.node(node)?);
        let (path, new_path) = (place.path.inside(old_name), place.new_path.inside(current));
        Some(Place { old: self.old.graphs.get(&path)?, new: self.new.graphs.get(&new_path)?, path, new_path })
    }

    fn values(&mut self, call: &StoredCall, place: &Place<'_>) {
        let checkpoint = &call.saved.checkpoint;
        let is_current = checkpoint.schema.version == place.new.version;
        for (index, chain) in &call.saved.values {
            let Some(name) = checkpoint.channels.get(*index).filter(|name| !name.starts_with("__")) else { continue };
            let channel = name.to_string();
            if self.parts(chain, &channel, is_current, place) {
                continue;
            }
            let Some(new) = place.new.channels.get(&channel) else {
                if is_current {
                    self.find(place, Change::ChannelRemoved { channel, version: place.new.version + 1 });
                }
                continue;
            };
            self.secrecy(call, &channel, is_current, place);
            if let Some(old) = place.old.channels.get(&channel)
                && loses_value(old.kind, new.kind)
            {
                self.find(place, Change::ValueExpires { channel, kind: kind_word(new.kind) });
            } else if is_current && self.may_not_fit(&channel, place) {
                let value = chain_json(chain).ok();
                self.value(channel, value.as_ref(), place);
            }
        }
    }

    /// Reports a stored value that was secret when it was written, if its channel is not secret any more.
    fn secrecy(&mut self, call: &StoredCall, channel: &str, is_current: bool, place: &Place<'_>) {
        let was_secret = call.saved.checkpoint.schema.hides(channel);
        let is_shown = place.new.channels.get(channel).is_some_and(|channel| !channel.secret);
        if was_secret && is_shown && is_current {
            let version = place.new.version + 1;
            self.find(place, Change::SecretRemoved { channel: channel.to_owned(), version });
        }
    }

    /// Reports a value that is stored in parts that the new program cannot merge. Returns true if it has found this.
    fn parts(&mut self, chain: &DeltaChain, channel: &str, is_current: bool, place: &Place<'_>) -> bool {
        let Ok(Some((Rule::Custom(reducer), _))) = delta::parts(chain) else { return false };
        let new = place.new.channels.get(channel).map(spec);
        let merges = new
            .as_ref()
            .is_some_and(|new| delta::rule(new) == Some(Rule::Custom(reducer.clone())) && (is_current || new.delta));
        let is_gone = new.is_none() && is_current;
        if !merges && !is_gone {
            let (channel, reducer) = (channel.to_owned(), reducer.to_string());
            self.find(place, Change::PartsUnreadable { channel, reducer });
        }
        !merges && !is_gone
    }

    /// Returns true if the new type of a channel may reject a value of the old type.
    fn may_not_fit(&self, channel: &str, place: &Place<'_>) -> bool {
        let old = place.old.channels.get(channel).and_then(|channel| channel.schema.as_ref());
        let new = place.new.channels.get(channel).and_then(|channel| channel.schema.as_ref());
        old.zip(new).is_some_and(|(old, new)| {
            let (old, new) =
                (Typed { schema: old, types: &self.old.types }, Typed { schema: new, types: &self.new.types });
            covers(old, new).is_err()
        })
    }

    fn value(&mut self, channel: String, value: Option<&serde_json::Value>, place: &Place<'_>) {
        let schema = place.new.channels.get(&channel).and_then(|channel| channel.schema.as_ref());
        let Some(schema) = schema else { return };
        let schema = Typed { schema, types: &self.new.types };
        let fit = value.map_or_else(
            || Err("its parts cannot be merged without the program".to_owned()),
            |value| fits(schema, value, ""),
        );
        if let Err(reason) = fit {
            let version = place.new.version + 1;
            self.find(place, Change::TypeChanged { channel, reason, version });
        }
    }

    fn writes(&mut self, call: &StoredCall, place: &Place<'_>) {
        let version = call.saved.checkpoint.schema.version;
        for task in &call.tasks {
            for write in &task.writes {
                let version = task.routing.version.unwrap_or(version);
                let rule = task.rule_of(&write.channel);
                self.secrecy(call, &write.channel, version == place.new.version, place);
                self.write(&Unapplied { channel: &write.channel, rule, bytes: &write.value, version }, place);
            }
        }
        let own = call.saved.values.iter().filter(|(index, _)| {
            call.saved
                .checkpoint
                .channels
                .get(*index)
                .is_some_and(|name| matches!(&**name, "__start__" | "__returned__"))
        });
        for packed in own.flat_map(|(_, chain)| chain.full.iter().chain(&chain.deltas)) {
            let parts = delta::unpack_writes(packed).unwrap_or_default();
            for [channel, rule, bytes] in parts.as_chunks::<3>().0 {
                if let (Ok(channel), Ok(rule)) = (std::str::from_utf8(channel), std::str::from_utf8(rule)) {
                    self.secrecy(call, channel, version == place.new.version, place);
                    self.write(&Unapplied { channel, rule, bytes, version }, place);
                }
            }
        }
    }

    fn write(&mut self, write: &Unapplied<'_>, place: &Place<'_>) {
        let is_current = write.version == place.new.version;
        let channel = write.channel.to_owned();
        let Some(new) = place.new.channels.get(write.channel) else {
            if is_current {
                self.find(place, Change::ChannelRemoved { channel, version: place.new.version + 1 });
            }
            return;
        };
        let spec = spec(new);
        if spec.replaces(write.rule, codec::is_overwrite(write.bytes)).is_none() {
            let (from, to) = (write.rule.to_owned(), spec.rule().to_owned());
            self.find(place, Change::ReducerChanged { channel, from, to });
        } else if is_current && new.kind == Kind::Last && self.may_not_fit(&channel, place) {
            let value = codec::decode_json(write.bytes).ok();
            self.value(channel, value.as_ref(), place);
        }
    }

    fn position(&mut self, call: &StoredCall, place: &Place<'_>) {
        let agenda = &call.saved.checkpoint.agenda;
        let sends = call.tasks.iter().flat_map(|task| &task.routing.sends).chain(&agenda.sends);
        let commanded = call.tasks.iter().flat_map(|task| &task.routing.go);
        let waiting = agenda.waiting.iter().chain(&agenda.released).chain(&agenda.tied);
        let sent = sends.map(|send| &send.node);
        let names: BTreeSet<&str> =
            agenda.ready.iter().chain(waiting).chain(sent).chain(commanded).map(|name| &**name).collect();
        for name in names {
            self.node(name, place);
        }
        for record in &agenda.joins {
            if place.new.join(&record.join).is_none() {
                self.find(place, Change::JoinChanged { join: record.join.to_string() });
            } else {
                record
                    .seen
                    .iter()
                    .filter(|name| place.new.node(name).is_none())
                    .for_each(|name| self.node(name, place));
            }
        }
    }

    /// Checks a node that runs next.
    fn node(&mut self, name: &str, place: &Place<'_>) {
        let node = name.to_owned();
        match place.new.node(name) {
            None => {
                let likely = place.new.likely_name(place.old, name).map(str::to_owned);
                self.find(place, Change::NodeRemoved { node, likely });
            }
            Some((by, _)) if by != name && place.new.nodes.contains_key(name) => {
                self.find(place, Change::NodeReplaced { node, by: by.to_owned() });
            }
            Some(_) => {}
        }
    }

    fn starving(&mut self, call: &StoredCall, place: &Place<'_>) {
        let agenda = &call.saved.checkpoint.agenda;
        // An input that waits to be applied may lead to any node.
        if agenda.start {
            return;
        }
        let routing = call.tasks.iter().map(|task| &task.routing);
        let commanded =
            routing.flat_map(|routing| routing.go.iter().chain(routing.sends.iter().map(|send| &send.node)));
        let next: BTreeSet<&str> = call
            .next()
            .into_iter()
            .chain(agenda.waiting.iter().map(|name| &**name))
            .chain(commanded.map(|name| &**name))
            .collect();
        let position = Position::new(place.old, place.new, &next.iter().copied());
        for join in place.new.joins.keys() {
            let is_of_join = |stored: &str| place.new.join(stored).is_some_and(|(name, _)| name == join);
            let seen = agenda.joins.iter().filter(|record| is_of_join(&record.join)).flat_map(|record| &record.seen);
            if let Some(from) = position.starves(join, &seen.map(|name| &**name).collect()) {
                self.find(place, Change::JoinStarves { join: join.clone(), from });
            }
        }
    }

    /// Checks the tasks of the open superstep whose nodes have become graphs or now keep checkpoints, and the states
    /// that were sent to graphs.
    fn open_tasks(&mut self, call: &StoredCall, place: &Place<'_>) {
        let sends = &call.saved.checkpoint.agenda.sends;
        for name in call.next() {
            let (Some((_, old)), Some((_, new))) = (place.old.node(name), place.new.node(name)) else { continue };
            let asks = call.tasks.iter().any(|task| task.asks && task.node.as_deref() == Some(name));
            let is_sent = sends.iter().any(|send| &*send.node == name);
            let node = name.to_owned();
            match (&old.inner, &new.inner) {
                (None, Some(_)) if asks || is_sent => self.find(place, Change::InnerGraphAdded { node }),
                (Some(before), Some(after)) if before.checkpoints == "none" && after.checkpoints != "none" && asks => {
                    let (from, to) = (before.checkpoints.clone(), after.checkpoints.clone());
                    self.find(place, Change::CheckpointsChanged { node, from, to });
                }
                (Some(_), Some(after)) if is_sent && after.takes_state => {
                    let (from, to) = (call.saved.checkpoint.schema.version, place.new.version);
                    if from != to {
                        self.find(place, Change::StatesSent { node, from, to });
                    }
                }
                _ => {}
            }
        }
    }

    fn inner(&mut self, inner: &InnerCall, place: &Place<'a>) {
        let (Some((old_name, old)), Some((current, new))) = (place.old.node(&inner.node), place.new.node(&inner.node))
        else {
            return;
        };
        let node = inner.node.clone();
        let Some(after) = &new.inner else {
            if inner.is_open {
                self.find(place, Change::InnerGraphRemoved { node });
            }
            return;
        };
        if let Some(before) = &old.inner {
            let options = policy_options(before, after);
            if inner.is_open && !options.is_empty() {
                self.find(place, Change::PolicyChanged { node: node.clone(), options });
            }
        }
        let stored = if inner.is_per_thread { "per_thread" } else { "per_call" };
        if after.checkpoints != stored {
            let (from, to) = (stored.to_owned(), after.checkpoints.clone());
            return self.find(place, Change::CheckpointsChanged { node, from, to });
        }
        if current != node && inner.is_open && !inner.is_per_thread && !inner.has_record {
            return self.find(place, Change::InnerRenamed { node, to: current.to_owned() });
        }
        let (path, new_path) = (place.path.inside(old_name), place.new_path.inside(current));
        let Some(graph) = self.new.graphs.get(&new_path) else { return };
        let name = &inner.call.saved.checkpoint.schema.graph;
        if !reads(graph, name) {
            let (from, to) = (name.clone(), graph.name.clone());
            return self.find(place, Change::InnerGraphChanged { node, from, to });
        }
        let before = self.old.graphs.get(&path).unwrap_or(graph);
        self.graph(&inner.call, &Place { path, new_path, old: before, new: graph });
    }
}
