use std::collections::BTreeMap;

use serde_json::Value;

use super::model::{
    GraphPath, Lock, LockedChannel, LockedExits, LockedGraph, LockedInner, LockedJoin, LockedNode, LockedQuestion,
};
use super::write::{ANY, FORMAT, KINDS, START};

/// The error for a text that is not a lock file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line} of the lock file: {reason}; write it again with `hier lock`")]
pub struct LockError {
    /// The number of the invalid line. The first line has the number 1.
    pub line: usize,
    /// The reason why the line is invalid.
    pub reason: String,
}

impl Lock {
    /// Parses the text of a lock file.
    pub fn parse(text: &str) -> Result<Self, LockError> {
        let mut reader = LockReader::default();
        let mut lines = text.lines().enumerate().peekable();
        while let Some((number, line)) = lines.next() {
            let mut read = || {
                let Some(words) = Words::of_line(line)? else { return Ok(()) };
                let mut schema = String::new();
                while words.first() == "type"
                    && let Some((_, line)) = lines.next_if(|(_, line)| line.starts_with("    "))
                {
                    schema.push_str(line);
                    schema.push('\n');
                }
                reader.item(&words, &schema)
            };
            read().map_err(|reason| LockError { line: number + 1, reason })?;
        }
        if reader.has_version {
            Ok(reader.lock)
        } else {
            Err(LockError { line: 1, reason: "`lock 1` is missing".to_owned() })
        }
    }
}

#[derive(Default)]
struct LockReader {
    lock: Lock,
    has_version: bool,
    /// The graph to which the following facts belong.
    graph: Option<GraphPath>,
}

impl LockReader {
    fn item(&mut self, words: &Words, schema: &str) -> Result<(), String> {
        match words.first() {
            "lock" => {
                let format = words.name(1)?;
                if format != FORMAT.to_string() {
                    return Err(format!("the format is {format}, and this version of hier reads {FORMAT}"));
                }
                self.has_version = true;
            }
            "graph" => {
                let path = GraphPath(words.path(1)?);
                self.lock.graphs.insert(path.clone(), LockedGraph::default());
                self.graph = Some(path);
            }
            "type" => {
                let read = serde_json::from_str(schema)
                    .map_err(|error| format!("the schema of the type is not JSON: {error}"))?;
                self.lock.types.insert(words.name(1)?, read);
            }
            _ => {
                let graph = self.graph.as_ref().and_then(|path| self.lock.graphs.get_mut(path));
                fact(graph.ok_or("it is before the first `graph` line")?, words)?;
            }
        }
        Ok(())
    }
}

fn fact(graph: &mut LockedGraph, words: &Words) -> Result<(), String> {
    match words.first() {
        "stored" => {
            graph.name = words.text("name")?;
            graph.version = words.number("version")?;
            graph.migrates_from = words.number("migrates_from")?;
        }
        "renamed" => _ = graph.renamed.insert(words.name(1)?, words.name(2)?),
        "channel" => _ = graph.channels.insert(words.name(1)?, channel(words)?),
        "node" => _ = graph.nodes.insert(words.name(1)?, node(words)?),
        "edge" => _ = exits(graph, words)?.always.insert(words.name(2)?),
        "choice" if words.is_bare(2, ANY) => exits(graph, words)?.chosen = None,
        "choice" => _ = exits(graph, words)?.chosen.get_or_insert_default().insert(words.name(2)?),
        "join" => {
            let from = words.value("from")?.as_array().ok_or("`from` is not a list")?;
            let from = from.iter().filter_map(|name| name.as_str().map(str::to_owned)).collect();
            graph.joins.insert(words.name(1)?, LockedJoin { from, to: words.text("to")? });
        }
        "question" => {
            let (question, answer) = (words.value("asks")?.clone(), words.value("answer")?.clone());
            graph.questions.insert(words.name(1)?, LockedQuestion { question, answer });
        }
        other => return Err(format!("it begins with the unknown word `{other}`")),
    }
    Ok(())
}

fn channel(words: &Words) -> Result<LockedChannel, String> {
    let word = words.name(2)?;
    let kind = KINDS.iter().find(|(known, _)| *known == word).map(|(_, kind)| *kind);
    let kind = kind.ok_or_else(|| format!("`{word}` is not a kind of channel"))?;
    let reducer = words.values.contains_key("reducer").then(|| words.text("reducer")).transpose()?;
    let schema = match words.value("type")?.as_str() {
        Some("unknown") => None,
        Some(word) => Some(Value::Bool(word == "true")),
        None => Some(words.value("type")?.clone()),
    };
    let (delta, secret, is_unread) = (words.is_set("delta"), words.is_set("secret"), words.is_set("unread"));
    Ok(LockedChannel { kind, reducer, delta, secret, schema, is_unread })
}

fn node(words: &Words) -> Result<LockedNode, String> {
    let mut inner = None;
    if words.values.contains_key("checkpoints") {
        let is_option = |key: &&String| !["checkpoints", "defer", "takes_state", "is_sent"].contains(&key.as_str());
        let options = words.values.keys().filter(is_option);
        let policy: Result<_, String> = options.map(|key| Ok((key.clone(), words.text(key)?))).collect();
        inner = Some(LockedInner {
            checkpoints: words.text("checkpoints")?,
            takes_state: words.is_set("takes_state"),
            is_sent: words.is_set("is_sent"),
            policy: policy?,
        });
    }
    Ok(LockedNode { defer: words.is_set("defer"), exits: LockedExits::default(), inner })
}

/// Returns the exits of START or of a node.
fn exits<'a>(graph: &'a mut LockedGraph, words: &Words) -> Result<&'a mut LockedExits, String> {
    if words.is_bare(1, START) {
        return Ok(&mut graph.entry);
    }
    let from = words.name(1)?;
    let node = graph.nodes.get_mut(&from).ok_or_else(|| format!("there is no node `{from}`"))?;
    Ok(&mut node.exits)
}

/// A word of a line, with or without quotes.
struct Word {
    text: String,
    is_quoted: bool,
}

/// The words of a line, and the named values that follow them.
struct Words {
    /// Each word has parts, with `/` between them.
    words: Vec<Vec<Word>>,
    values: BTreeMap<String, Value>,
}

impl Words {
    /// Returns `None` for an empty line or a comment.
    fn of_line(line: &str) -> Result<Option<Self>, String> {
        let (mut rest, mut read) = (line.trim(), Self { words: Vec::new(), values: BTreeMap::new() });
        if rest.is_empty() || rest.starts_with('#') {
            return Ok(None);
        }
        while !rest.is_empty() {
            let key = rest.split(['=', ' ', '"', '/']).next().unwrap_or_default();
            if let Some(value) = rest[key.len()..].strip_prefix('=') {
                let (value, tail) = split_value(value)?;
                read.values.insert(key.to_owned(), value);
                rest = tail.trim_start();
            } else {
                let (word, tail) = split_word(rest)?;
                read.words.push(word);
                rest = tail.trim_start();
            }
        }
        Ok(Some(read))
    }

    fn first(&self) -> &str {
        self.words.first().and_then(|word| word.first()).map_or("", |part| &part.text)
    }

    fn path(&self, number: usize) -> Result<Vec<String>, String> {
        let word = self.words.get(number).ok_or("a name is missing")?;
        Ok(word.iter().map(|part| part.text.clone()).collect())
    }

    fn name(&self, number: usize) -> Result<String, String> {
        match &mut *self.path(number)? {
            [name] => Ok(std::mem::take(name)),
            parts => Err(format!("`{}` must be a single name", parts.join("/"))),
        }
    }

    fn is_bare(&self, number: usize, text: &str) -> bool {
        matches!(self.words.get(number).map(Vec::as_slice), Some([word]) if !word.is_quoted && word.text == text)
    }

    fn value(&self, key: &str) -> Result<&Value, String> {
        self.values.get(key).ok_or_else(|| format!("`{key}` is missing"))
    }

    fn text(&self, key: &str) -> Result<String, String> {
        self.value(key)?.as_str().map(str::to_owned).ok_or_else(|| format!("`{key}` is not a name"))
    }

    fn number(&self, key: &str) -> Result<u32, String> {
        self.text(key)?.parse().map_err(|_| format!("`{key}` is not a number"))
    }

    fn is_set(&self, key: &str) -> bool {
        self.values.get(key).is_some_and(|value| value == "true")
    }
}

/// Splits off a word with its parts, which are separated by `/`.
fn split_word(mut rest: &str) -> Result<(Vec<Word>, &str), String> {
    let mut parts = Vec::new();
    loop {
        let is_quoted = rest.starts_with('"');
        let (text, tail) = if is_quoted { split_json(rest)? } else { split_bare(rest, &[' ', '/']) };
        let text = text.as_str().unwrap_or_default().to_owned();
        parts.push(Word { text, is_quoted });
        match tail.strip_prefix('/') {
            Some(tail) => rest = tail,
            None => return Ok((parts, tail)),
        }
    }
}

/// Splits off a value: JSON, or a bare text.
fn split_value(rest: &str) -> Result<(Value, &str), String> {
    let is_json = rest.starts_with(['"', '{', '[']);
    if is_json { split_json(rest) } else { Ok(split_bare(rest, &[' '])) }
}

fn split_bare<'a>(rest: &'a str, ends: &[char]) -> (Value, &'a str) {
    let (text, tail) = rest.split_at(rest.find(ends).unwrap_or(rest.len()));
    (text.into(), tail)
}

fn split_json(rest: &str) -> Result<(Value, &str), String> {
    let mut values = serde_json::Deserializer::from_str(rest).into_iter::<Value>();
    let value = values.next().transpose().map_err(|error| error.to_string())?.unwrap_or_default();
    let end = values.byte_offset();
    Ok((value, &rest[end..]))
}
