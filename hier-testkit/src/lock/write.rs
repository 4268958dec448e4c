//! Writes a lock file: one fact per line, sorted, so that a difference shows what has changed.

use std::fmt::{self, Display, Formatter};

use hier_core::channel::Kind;
use serde_json::Value;

use super::model::{GraphPath, Lock, LockedChannel, LockedExits, LockedGraph, LockedNode};

pub(super) const FORMAT: u32 = 1;
pub(super) const ANY: &str = "*";
pub(super) const START: &str = "START";

const HEAD: &str = "\
# What stored threads of this program depend on. `hier lock` writes this file: commit it.
# `hier check` compares it with the program, and reports changes that break threads.
";

/// The word for each kind of channel.
pub(super) const KINDS: [(&str, Kind); 6] = [
    ("last", Kind::Last),
    ("reduced", Kind::Reduced),
    ("ephemeral", Kind::Ephemeral),
    ("untracked", Kind::Untracked),
    ("topic", Kind::Topic),
    ("accumulate", Kind::TopicAccumulate),
];

impl Display for Lock {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "{HEAD}lock {FORMAT}")?;
        for (path, graph) in &self.graphs {
            write_graph(f, path, graph)?;
        }
        for (name, schema) in &self.types {
            writeln!(f, "\ntype {}", Name(name))?;
            let pretty = serde_json::to_string_pretty(schema).map_err(|_| fmt::Error)?;
            pretty.lines().try_for_each(|line| writeln!(f, "    {line}"))?;
        }
        Ok(())
    }
}

fn write_graph(f: &mut Formatter<'_>, path: &GraphPath, graph: &LockedGraph) -> fmt::Result {
    let names: Vec<String> = path.0.iter().map(|name| Name(name).to_string()).collect();
    writeln!(f, "\ngraph {}", names.join("/"))?;
    writeln!(f, "  stored name={} version={} migrates_from={}", Name(&graph.name), graph.version, graph.migrates_from)?;
    for (old, new) in &graph.renamed {
        writeln!(f, "  renamed {} {}", Name(old), Name(new))?;
    }
    for (name, channel) in &graph.channels {
        write_channel(f, name, channel)?;
    }
    for (name, node) in &graph.nodes {
        write_node(f, name, node)?;
    }
    write_exits(f, &START, &graph.entry)?;
    for (name, node) in &graph.nodes {
        write_exits(f, &Name(name), &node.exits)?;
    }
    for (name, join) in &graph.joins {
        writeln!(f, "  join {} from={} to={}", Name(name), Value::from(join.from.clone()), Name(&join.to))?;
    }
    for (name, question) in &graph.questions {
        writeln!(f, "  question {} asks={} answer={}", Name(name), question.question, question.answer)?;
    }
    Ok(())
}

fn write_channel(f: &mut Formatter<'_>, name: &str, channel: &LockedChannel) -> fmt::Result {
    let kind = KINDS.iter().find(|(_, kind)| *kind == channel.kind).map_or("last", |(word, _)| word);
    write!(f, "  channel {} {kind}", Name(name))?;
    if let Some(reducer) = &channel.reducer {
        write!(f, " reducer={}", Name(reducer))?;
    }
    if channel.delta {
        f.write_str(" delta=true")?;
    }
    if channel.secret {
        f.write_str(" secret=true")?;
    }
    if channel.is_unread {
        f.write_str(" unread=true")?;
    }
    match &channel.schema {
        Some(schema) => writeln!(f, " type={schema}"),
        None => writeln!(f, " type=unknown"),
    }
}

fn write_exits(f: &mut Formatter<'_>, from: &dyn Display, exits: &LockedExits) -> fmt::Result {
    exits.always.iter().try_for_each(|to| writeln!(f, "  edge {from} {}", Name(to)))?;
    match &exits.chosen {
        Some(chosen) => chosen.iter().try_for_each(|to| writeln!(f, "  choice {from} {}", Name(to))),
        None => writeln!(f, "  choice {from} {ANY}"),
    }
}

fn write_node(f: &mut Formatter<'_>, name: &str, node: &LockedNode) -> fmt::Result {
    write!(f, "  node {}", Name(name))?;
    if node.defer {
        f.write_str(" defer=true")?;
    }
    if let Some(inner) = &node.inner {
        write!(f, " checkpoints={}", Name(&inner.checkpoints))?;
        if inner.takes_state {
            f.write_str(" takes_state=true")?;
        }
        if inner.is_sent {
            f.write_str(" is_sent=true")?;
        }
        for (option, value) in &inner.policy {
            write!(f, " {option}={}", Name(value))?;
        }
    }
    writeln!(f)
}

/// A name. It is written in quotes if it contains characters that identifiers and paths do not have.
struct Name<'a>(&'a str);

impl Display for Name<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if is_bare(self.0) { f.write_str(self.0) } else { write!(f, "{}", Value::from(self.0)) }
    }
}

fn is_bare(name: &str) -> bool {
    let fits = |letter: char| letter.is_alphanumeric() || matches!(letter, '_' | ':' | '+' | ',' | '.' | '-' | '#');
    !name.is_empty() && name != START && name.chars().all(fits) && !name.starts_with('#')
}
