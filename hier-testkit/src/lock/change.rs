//! The kinds of changes between two locks, each with a verdict and a fix.

use hier_core::channel::Kind;

/// A change between two locks of a graph. For an explanation of each kind, see the text that
/// [`describe`](Self::describe) returns.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
#[allow(missing_docs)] // see the texts of `describe`
pub enum Change {
    GraphRemoved { name: String },
    VersionLowered { from: u32, to: u32 },
    MigrationMissing { from: u32, to: u32 },
    ChannelRemoved { channel: String, version: u32 },
    TypeChanged { channel: String, reason: String, version: u32 },
    ReducerChanged { channel: String, from: String, to: String },
    PartsUnreadable { channel: String, reducer: String },
    ValueExpires { channel: String, kind: &'static str },
    SecretRemoved { channel: String, version: u32 },
    Unencrypted { channel: String },
    NodeRemoved { node: String, likely: Option<String> },
    NodeReplaced { node: String, by: String },
    JoinChanged { join: String },
    JoinStarves { join: String, from: Vec<String> },
    InnerGraphChanged { node: String, from: String, to: String },
    InnerGraphRemoved { node: String },
    InnerGraphAdded { node: String },
    InnerRenamed { node: String, to: String },
    CheckpointsChanged { node: String, from: String, to: String },
    StatesSent { node: String, from: u32, to: u32 },
    PolicyChanged { node: String, options: Vec<String> },
    QuestionRemoved { question: String },
    QuestionChanged { question: String, reason: String },
    GraphAdded { name: String },
    GraphRenamed { from: String, to: String },
    VersionRaised { from: u32, to: u32 },
    ChannelAdded { channel: String },
    ChannelMigrated { channel: String },
    ChannelNotStored { channel: String },
    TypeWidened { channel: String },
    TypeUnknown { channel: String },
    ReducerAdded { channel: String, to: String },
    ValueKept { channel: String, kind: &'static str },
    SecretAdded { channel: String },
    NodeAdded { node: String },
    NodeRenamed { from: String, to: String },
    DeferChanged { node: String, defer: bool },
    EdgesChanged { node: String, added: Vec<String>, removed: Vec<String> },
    JoinAdded { join: String },
    QuestionAdded { question: String },
}

/// The effect of a change on stored threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// The new program cannot resume some threads, loses some of their work, or ends them in a different way.
    Breaks,
    /// The new program resumes every thread.
    Harmless,
}

struct Texts {
    /// The kind of change, as a word.
    code: &'static str,
    /// The node, channel or other part that changed.
    subject: String,
    what: String,
    /// `None` for a harmless change.
    fix: Option<String>,
}

fn breaks(code: &'static str, subject: &str, what: String, fix: impl Into<String>) -> Texts {
    Texts { code, subject: subject.to_owned(), what, fix: Some(fix.into()) }
}

fn harmless(code: &'static str, subject: &str, what: String) -> Texts {
    Texts { code, subject: subject.to_owned(), what, fix: None }
}

const FINISH: &str = "let the old program finish the superstep of these threads before the deploy";
const LEAVE: &str = "let the old program finish the open calls before the deploy";

impl Change {
    /// Returns the effect of the change on stored threads.
    pub fn verdict(&self) -> Verdict {
        if self.texts().fix.is_some() { Verdict::Breaks } else { Verdict::Harmless }
    }

    /// Returns the name of the kind of change, such as `node-removed`.
    pub fn code(&self) -> &'static str {
        self.texts().code
    }

    /// Returns the name of the node, channel or other part that changed.
    pub fn subject(&self) -> String {
        self.texts().subject
    }

    /// Returns a sentence that describes the change and its effect.
    pub fn describe(&self) -> String {
        self.texts().what
    }

    /// Returns instructions with which a developer can avoid the break. Returns `None` for a harmless change.
    pub fn fix(&self) -> Option<String> {
        self.texts().fix
    }

    fn texts(&self) -> Texts {
        let of_state = || self.of_channel().or_else(|| self.of_secret());
        self.of_graph().or_else(of_state).or_else(|| self.of_node()).unwrap_or_else(|| self.of_question())
    }

    fn of_graph(&self) -> Option<Texts> {
        Some(match self {
            Self::GraphRemoved { name } => breaks(
                "graph-removed",
                name,
                format!("no graph has the stored name `{name}` any more, so the threads of `{name}` cannot be resumed"),
                format!(
                    "keep the stored name with `name: \"{name}\"`, or add `.renamed(\"{name}\", …)` to the compiled graph"
                ),
            ),
            Self::VersionLowered { from, to } => breaks(
                "version-lowered",
                "state",
                format!(
                    "the version of the state fell from {from} to {to}, and a program cannot read states of later versions"
                ),
                format!("set `#[state(version = {from})]` or more"),
            ),
            Self::MigrationMissing { from, to } => breaks(
                "migration-missing",
                "state",
                format!("states of version {from} cannot be read, because the migrations start at version {to}"),
                format!("add the migration from version {from} to `#[state(migrate = […])]`"),
            ),
            Self::GraphAdded { name } => harmless("graph-added", name, format!("graph `{name}` is new")),
            Self::GraphRenamed { from, to } => harmless(
                "graph-renamed",
                from,
                format!("graph `{from}` is `{to}` now, and its threads are read under both names"),
            ),
            Self::VersionRaised { from, to } => {
                harmless("version-raised", "state", format!("migrations convert the state from version {from} to {to}"))
            }
            _ => return None,
        })
    }

    fn of_channel(&self) -> Option<Texts> {
        Some(match self {
            Self::ChannelRemoved { channel, version } => breaks(
                "channel-removed",
                channel,
                format!("channel `{channel}` is gone, so threads with a value in it cannot be read"),
                format!(
                    "raise `#[state(version = {version})]` with a migration that removes or renames the channel, or keep the name with `#[state(rename = \"{channel}\")]`"
                ),
            ),
            Self::TypeChanged { channel, reason, version } => breaks(
                "type-changed",
                channel,
                format!("the type of channel `{channel}` does not accept every stored value: {reason}"),
                format!(
                    "raise `#[state(version = {version})]` with a migration, or let the type accept the old form (`#[serde(default)]`, `#[serde(alias = …)]`)"
                ),
            ),
            Self::ReducerChanged { channel, from, to } => breaks(
                "reducer-changed",
                channel,
                format!(
                    "the reducer of channel `{channel}` was `{from}` and is `{to}`, which cannot merge writes that wait to be applied"
                ),
                format!("{FINISH}, or give the new reducer a new channel"),
            ),
            Self::PartsUnreadable { channel, reducer } => breaks(
                "parts-unreadable",
                channel,
                format!("channel `{channel}` is stored in parts that only the reducer `{reducer}` can merge"),
                "keep that reducer, without `#[channel(delta)]`, until each thread has run once, or use a new channel"
                    .to_owned(),
            ),
            Self::ValueExpires { channel, kind } => breaks(
                "value-expires",
                channel,
                format!("channel `{channel}` is {kind} now, so stored values are lost when a thread continues"),
                "keep the kind of the channel, or use a new channel",
            ),
            Self::ChannelAdded { channel } => harmless("channel-added", channel, format!("channel `{channel}` is new")),
            Self::ChannelMigrated { channel } => harmless(
                "channel-migrated",
                channel,
                format!("channel `{channel}` has changed with the version, so the migration must convert its values"),
            ),
            Self::ChannelNotStored { channel } => {
                harmless("channel-not-stored", channel, format!("channel `{channel}` is gone, and was never stored"))
            }
            Self::TypeWidened { channel } => harmless(
                "type-widened",
                channel,
                format!("the type of channel `{channel}` has changed, and accepts every stored value"),
            ),
            Self::TypeUnknown { channel } => harmless(
                "type-unknown",
                channel,
                format!("the types of channel `{channel}` cannot be compared: derive `JsonSchema`"),
            ),
            Self::ReducerAdded { channel, to } => harmless(
                "reducer-added",
                channel,
                format!("channel `{channel}` has the reducer `{to}`, and stored writes replace its value"),
            ),
            Self::ValueKept { channel, kind } => harmless(
                "kind-changed",
                channel,
                format!("channel `{channel}` is {kind} now, and keeps its stored value"),
            ),
            _ => return None,
        })
    }

    fn of_secret(&self) -> Option<Texts> {
        Some(match self {
            Self::SecretRemoved { channel, version } => breaks(
                "secret-removed",
                channel,
                format!("channel `{channel}` is not secret any more, so its stored values become visible"),
                format!(
                    "keep `#[channel(secret)]`, use a new channel, or raise `#[state(version = {version})]` with a migration that removes the value"
                ),
            ),
            Self::Unencrypted { channel } => breaks(
                "unencrypted",
                channel,
                format!("channel `{channel}` is secret, and this database stores plain text, so no run can begin"),
                "open a new database with a key (`encrypt`), and begin the threads there from their values: a database with a key does not read plain text",
            ),
            Self::SecretAdded { channel } => harmless(
                "secret-added",
                channel,
                format!(
                    "channel `{channel}` is secret now, and is hidden in older checkpoints, too: a database without a key contains the values as plain text, so move the threads to a database with a key and delete the old one"
                ),
            ),
            _ => return None,
        })
    }

    #[allow(clippy::too_many_lines, reason = "a table with one arm for each change")]
    fn of_node(&self) -> Option<Texts> {
        Some(match self {
            Self::NodeRemoved { node, likely } => {
                let new = likely.as_deref().unwrap_or("…");
                breaks(
                    "node-removed",
                    node,
                    format!("node `{node}` is gone, so threads that stand at it cannot be resumed"),
                    format!(
                        "add `.renamed(\"{node}\", \"{new}\")` to the compiled graph, or keep the name: `{node} = function` in `nodes`"
                    ),
                )
            }
            Self::NodeReplaced { node, by } => breaks(
                "node-replaced",
                node,
                format!("threads that stand at node `{node}` continue at `{by}`, although `{node}` still exists"),
                format!("remove `.renamed(\"{node}\", \"{by}\")`, or give the node another name"),
            ),
            Self::JoinChanged { join } => breaks(
                "join-changed",
                join,
                format!("`{join}` is gone, so threads that wait for it cannot be resumed"),
                format!("restore the join with its nodes in the same order, or {FINISH}"),
            ),
            Self::JoinStarves { join, from } => breaks(
                "join-starves",
                join,
                format!(
                    "some threads that wait for `{join}` can no longer reach {}, so the join never fires",
                    list(from)
                ),
                format!("keep the edges that lead there, or {FINISH}"),
            ),
            Self::InnerGraphChanged { node, from, to } => breaks(
                "inner-graph-changed",
                node,
                format!("node `{node}` runs graph `{to}` instead of `{from}`, which cannot continue open calls"),
                format!("keep the stored name with `name: \"{from}\"`, use a new node, or {LEAVE}"),
            ),
            Self::InnerGraphRemoved { node } => breaks(
                "inner-graph-removed",
                node,
                format!("node `{node}` is not a graph any more, so open calls lose their work"),
                format!("use a new node, or {LEAVE}"),
            ),
            Self::InnerGraphAdded { node } => breaks(
                "inner-graph-added",
                node,
                format!("node `{node}` is a graph now, which does not know the questions and payloads of the function"),
                format!("use a new node, or {FINISH}"),
            ),
            Self::InnerRenamed { node, to } => breaks(
                "inner-renamed",
                node,
                format!(
                    "the graph at node `{node}` is `{to}` now, so a call that a crash cut off before its first question starts again"
                ),
                format!("keep the name: `{node} = Graph` in `nodes`, or {LEAVE}"),
            ),
            Self::CheckpointsChanged { node, from, to } => breaks(
                "checkpoints-changed",
                node,
                format!(
                    "the checkpoints of node `{node}` were `{from}` and are `{to}`, so stored calls lose their state"
                ),
                format!("keep `checkpoints: {from}`, or {LEAVE}"),
            ),
            Self::StatesSent { node, from, to } => breaks(
                "states-sent",
                node,
                format!("states of version {from} that were sent to node `{node}` are not migrated to version {to}"),
                FINISH,
            ),
            Self::PolicyChanged { node, options } => breaks(
                "policy-changed",
                node,
                format!(
                    "the policy of `{node}` has changed ({}): open calls began under the old one and end under the new one",
                    options.join(", ")
                ),
                format!("keep the policy, or {LEAVE}"),
            ),
            Self::NodeAdded { node } => harmless("node-added", node, format!("node `{node}` is new")),
            Self::NodeRenamed { from, to } => harmless(
                "node-renamed",
                from,
                format!("node `{from}` is `{to}` now, and threads find it under both names"),
            ),
            Self::DeferChanged { node, defer } => {
                let now = if *defer {
                    "is deferred now: it waits for the other tasks"
                } else {
                    "is no longer deferred: it does not wait for the other tasks"
                };
                harmless("defer-changed", node, format!("node `{node}` {now}"))
            }
            Self::EdgesChanged { node, added, removed } => {
                let with =
                    |word: &str, nodes: &[String]| (!nodes.is_empty()).then(|| format!("{word} {}", list(nodes)));
                let both: Vec<String> =
                    [with("leads to", added), with("no longer leads to", removed)].into_iter().flatten().collect();
                harmless("edges-changed", node, format!("`{node}` {}", both.join(", and ")))
            }
            Self::JoinAdded { join } => harmless("join-added", join, format!("`{join}` is new")),
            _ => return None,
        })
    }

    fn of_question(&self) -> Texts {
        match self {
            Self::QuestionRemoved { question } => breaks(
                "question-removed",
                question,
                format!("question `{question}` is gone, so an open question of this type cannot be answered"),
                "keep the type until no such question is open",
            ),
            Self::QuestionChanged { question, reason } => breaks(
                "question-changed",
                question,
                format!("question `{question}` has changed, although threads may wait for its answer: {reason}"),
                "let the type accept the old form, or ask a new question",
            ),
            Self::QuestionAdded { question } => {
                harmless("question-added", question, format!("question `{question}` is new"))
            }
            _ => harmless("changed", "graph", "the graph has changed".to_owned()),
        }
    }
}

/// Returns the words for a kind of channel in a sentence.
pub(super) fn kind_word(kind: Kind) -> &'static str {
    match kind {
        Kind::Last => "a plain channel",
        Kind::Reduced => "a channel with a reducer",
        Kind::Ephemeral => "ephemeral",
        Kind::Untracked => "untracked",
        Kind::Topic => "a topic",
        Kind::TopicAccumulate => "a topic that accumulates",
    }
}

fn list(names: &[String]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    quoted.join(", ")
}
