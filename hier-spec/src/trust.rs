//! Trust: the kinds of text that an agent reads, and its ability to send data out.
//!
//! If an agent reads private data and untrusted text, and can also send data, the author of the text can make the agent
//! send the private data. [`TrustSource`] describes a part of an agent, [`leaks`] finds the parts that make such a leak
//! possible, and [`GraphTrust::of`] summarizes an agent for the agent above it.
//!
//! Text flows down with the task of a subagent and up with its report. A report whose type cannot carry text carries no
//! untrusted text. It may still carry private data, such as an amount.

use std::fmt;

use crate::const_text::ConstText;

/// The name of the channel with the conversation of an agent.
pub const CONVERSATION: &str = "messages";

/// The name of the channel with the labels of a conversation.
pub const CHANNEL: &str = "trust_labels";

/// A set of trust labels of a tool, a graph or a conversation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TrustLabels(u8);

/// The labels with their names, in the order in which they are listed.
const NAMES: [(TrustLabels, &str); 3] =
    [(TrustLabels::PRIVATE, "private"), (TrustLabels::UNTRUSTED, "untrusted"), (TrustLabels::SENDS, "sends")];

impl TrustLabels {
    /// No label.
    pub const NONE: Self = Self(0);
    /// The label of a tool that returns data which must not leave the program.
    pub const PRIVATE: Self = Self(1);
    /// The label of a tool that returns text which an attacker may have written.
    pub const UNTRUSTED: Self = Self(2);
    /// The label of a tool that sends data out of the program.
    pub const SENDS: Self = Self(4);
    /// The labels that concern data in a conversation: private and untrusted.
    const READ: Self = Self(3);

    /// Returns the union of the two sets.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns the labels of this set that are not in the other set.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Returns the labels of this set that concern data in a conversation: private and untrusted.
    #[must_use]
    pub const fn read(self) -> Self {
        Self(self.0 & Self::READ.0)
    }

    /// Returns true if this set has all labels of the other set.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Returns true if there are no labels.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns true if the set has the label private.
    pub const fn is_private(self) -> bool {
        self.contains(Self::PRIVATE)
    }

    /// Returns true if the set has the label untrusted.
    pub const fn is_untrusted(self) -> bool {
        self.contains(Self::UNTRUSTED)
    }

    /// Returns true if the set has the label for sending.
    pub const fn sends(self) -> bool {
        self.contains(Self::SENDS)
    }

    /// Returns the names of the labels in this set.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        NAMES.into_iter().filter(move |(label, _)| self.contains(*label)).map(|(_, name)| name)
    }

    /// Returns the label with this name, or `None` if no label has the name.
    pub fn named(name: &str) -> Option<Self> {
        NAMES.into_iter().find(|(_, other)| *other == name).map(|(label, _)| label)
    }
}

impl fmt::Display for TrustLabels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.names().collect::<Vec<_>>().join(", "))
    }
}

/// The labels of a tool, and whether a person must approve its calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ToolTrust {
    /// The labels.
    pub labels: TrustLabels,
    /// True if a person must approve the calls of the tool, always or under a condition.
    pub is_approved: bool,
}

impl ToolTrust {
    /// The trust of a tool without labels and without approval.
    pub const NONE: Self = Self { labels: TrustLabels::NONE, is_approved: false };

    /// Creates the trust of a tool.
    pub const fn new(labels: TrustLabels, is_approved: bool) -> Self {
        Self { labels, is_approved }
    }

    /// If `is_approved` is true, records that a person must approve the calls of the tool. Otherwise, does not change
    /// the value.
    #[must_use]
    pub const fn approved(self, is_approved: bool) -> Self {
        Self { is_approved: self.is_approved || is_approved, ..self }
    }
}

/// A set of tool calls that send data without approval. The set distinguishes the calls only by the labels of the data
/// that their conversation reads. It has a bit for each combination of private and untrusted: bit *n* stands for calls
/// in conversations with the labels *n*.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Senders(u8);

impl Senders {
    /// No call.
    pub const NONE: Self = Self(0);

    /// Creates the set with one call, in a conversation that reads data with these labels.
    pub const fn within(read: TrustLabels) -> Self {
        Self(1 << read.read().0)
    }

    /// Returns the union of the two sets.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Adds the labels `more` to the labels of the data that the conversation of each call reads. Returns the new set.
    #[must_use]
    pub const fn reading(self, more: TrustLabels) -> Self {
        let (mut found, mut at) = (Self::NONE, 0);
        while at <= TrustLabels::READ.0 {
            if self.0 & (1 << at) != 0 {
                found = found.with(Self::within(TrustLabels(at).with(more)));
            }
            at += 1;
        }
        found
    }

    /// Returns the calls that cannot leak.
    #[must_use]
    const fn safe(self) -> Self {
        Self(self.0 & !Self::within(TrustLabels::READ).0)
    }

    /// Returns true if an attacker can make one of the calls send private data.
    pub const fn leak(self) -> bool {
        self.0 != self.safe().0
    }
}

/// The trust of a graph, which follows from the labels of its tools.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GraphTrust {
    /// The labels of the data that the graph's conversation reads.
    pub read: TrustLabels,
    /// The calls of the graph that send data without approval.
    pub senders: Senders,
    /// True if the report of the graph cannot carry text.
    pub is_text_free: bool,
}

impl GraphTrust {
    /// The trust of a graph whose tools have no labels.
    pub const NONE: Self = Self { read: TrustLabels::NONE, senders: Senders::NONE, is_text_free: false };

    /// Creates the trust of a graph from its tools, subagents and stages. `is_text_free` is true if the report of the
    /// graph cannot carry text. If `allowed` is true, the leaks within this graph are accepted, and the agents above it
    /// inherit only the calls that do not leak.
    pub const fn of(sources: &[TrustSource<'_>], allowed: bool, is_text_free: bool) -> Self {
        let read = conversation(sources);
        let (mut senders, mut at) = (Senders::NONE, 0);
        while at < sources.len() {
            senders = senders.with(sources[at].senders.reading(read));
            at += 1;
        }
        Self { read, senders: if allowed { senders.safe() } else { senders }, is_text_free }
    }

    /// Returns the labels of the data that the graph passes to its supervisor. If the graph passes only its report
    /// (`only_report`) and the report cannot carry text, the label untrusted is left out.
    pub const fn carries(self, only_report: bool) -> TrustLabels {
        if only_report && self.is_text_free { self.read.without(TrustLabels::UNTRUSTED) } else { self.read }
    }

    /// Returns the labels of the data that the graph's conversation reads. Adds the label for sending if the graph has
    /// calls that send data without approval.
    #[must_use]
    pub const fn labels(self) -> TrustLabels {
        if self.senders.0 == 0 { self.read } else { self.read.with(TrustLabels::SENDS) }
    }
}

/// A part of an agent: a tool, a toolset, a subagent, a stage or the untrusted input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrustSource<'a> {
    /// The name of the part, for error messages.
    pub name: &'a str,
    /// The labels of the data that the part adds to the conversation.
    pub read: TrustLabels,
    /// The calls of the part that send data without approval.
    pub senders: Senders,
}

impl<'a> TrustSource<'a> {
    /// Describes a tool or a toolset.
    pub const fn tool(name: &'a str, trust: ToolTrust) -> Self {
        let sends = trust.labels.sends() && !trust.is_approved;
        let senders = if sends { Senders::within(TrustLabels::NONE) } else { Senders::NONE };
        Self { name, read: trust.labels.read(), senders }
    }

    /// Describes a subagent or a stage. `only_report` is true if the graph passes neither a conversation nor a channel
    /// with text to the agent.
    pub const fn graph(name: &'a str, trust: GraphTrust, only_report: bool) -> Self {
        Self { name, read: trust.carries(only_report), senders: trust.senders }
    }

    /// Describes the input messages of an agent with `input: untrusted`.
    pub const fn input() -> Self {
        Self { name: "input", read: TrustLabels::UNTRUSTED, senders: Senders::NONE }
    }
}

/// Returns the labels of the data that an agent's conversation reads. `sources` contains all parts of the agent. The
/// result is the union of their [`read`](TrustSource::read) labels.
pub const fn conversation(sources: &[TrustSource<'_>]) -> TrustLabels {
    let (mut read, mut at) = (TrustLabels::NONE, 0);
    while at < sources.len() {
        read = read.with(sources[at].read);
        at += 1;
    }
    read
}

/// Returns true if an attacker can make the part `sources[place]` of an agent send private data. `sources` contains all
/// parts of the agent.
pub const fn leaks(sources: &[TrustSource<'_>], place: usize) -> bool {
    sources[place].senders.reading(conversation(sources)).leak()
}

/// Returns the name of the first part that brings data with this label into the conversation, or `""` if no part does.
const fn giver<'a>(sources: &[TrustSource<'a>], label: TrustLabels) -> &'a str {
    let mut at = 0;
    while at < sources.len() {
        if sources[at].read.contains(label) {
            return sources[at].name;
        }
        at += 1;
    }
    ""
}

/// Returns the error message for a leak through `sources[place]`. The message describes the leak and ways to close it.
pub const fn leak_message(sources: &[TrustSource<'_>], place: usize) -> ConstText {
    let sender = sources[place].name;
    let (private, untrusted) = (giver(sources, TrustLabels::PRIVATE), giver(sources, TrustLabels::UNTRUSTED));
    // If no part brings the data into the conversation, the sending part itself reads the data.
    let private = if private.is_empty() { sender } else { private };
    let untrusted = if untrusted.is_empty() { sender } else { untrusted };
    ConstText::new()
        .quoted(sender)
        .text(" can be talked into leaking: ")
        .quoted(private)
        .text(" reads private data, ")
        .quoted(untrusted)
        .text(" reads untrusted text, and ")
        .quoted(sender)
        .text(" sends without approval; let a person approve what sends (`approve: tainted`), read the untrusted text in a \
               subagent with a text-free answer, or write why it is safe: `allow: trifecta(\"…\")`")
}

#[cfg(test)]
mod tests;
