//! The content of a recording: requests in a canonical form, with their answers.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use hier_agents::{ChatRequest, ChatResponse};

use super::recorded::anonymous;

/// A recorded answer, as a line of the file.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Line {
    /// A hash of the request.
    key: String,
    #[serde(default)]
    model: String,
    #[serde(default)]
    provider: String,
    /// The request without the ids of its messages.
    request: Value,
    response: Option<ChatResponse>,
}

impl Line {
    /// A line without its answer.
    pub(super) fn of_request(request: &ChatRequest) -> Result<Self, serde_json::Error> {
        let ChatRequest { messages, tools, output, options, .. } = request;
        let messages = messages.iter().map(|message| serde_json::to_value(anonymous(message)));
        let fields = [
            ("messages", Value::Array(messages.collect::<Result<_, _>>()?)),
            ("tools", serde_json::to_value(tools)?),
            ("output", serde_json::to_value(output)?),
            ("options", serde_json::to_value(options)?),
        ];
        let request = sorted(Value::Object(fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()));
        let key = format!("{:032x}", xxhash_rust::xxh3::xxh3_128(request.to_string().as_bytes()));
        Ok(Self { key, model: String::new(), provider: String::new(), request, response: None })
    }

    pub(super) fn answered(self, model: &str, provider: &str, response: &ChatResponse) -> Self {
        Self { model: model.to_owned(), provider: provider.to_owned(), response: Some(response.clone()), ..self }
    }

    fn messages(&self) -> &[Value] {
        self.request.get("messages").and_then(Value::as_array).map_or(&[], Vec::as_slice)
    }
}

/// The same value with the names of every object in alphabetical order, whatever order `serde_json` was built to keep.
fn sorted(value: Value) -> Value {
    match value {
        Value::Object(object) => {
            let mut fields: Vec<_> = object.into_iter().map(|(name, value)| (name, sorted(value))).collect();
            fields.sort_by(|(a, _), (b, _)| a.cmp(b));
            Value::Object(Map::from_iter(fields))
        }
        Value::Array(items) => Value::Array(items.into_iter().map(sorted).collect()),
        other => other,
    }
}

/// The recorded answers.
#[derive(Default)]
pub(super) struct Tape {
    lines: Vec<Line>,
    /// The answers of each request, and how many of them were given.
    places: HashMap<String, (Vec<usize>, usize)>,
    /// Whether the tape was read from a file, so that it can be played.
    played: bool,
}

impl Tape {
    /// Reads the text of a recording.
    pub(super) fn read(text: &str) -> Result<Self, String> {
        let mut tape = Self { played: true, ..Self::default() };
        for (number, text) in text.lines().enumerate().filter(|(_, text)| !text.trim().is_empty()) {
            let line: Line = serde_json::from_str(text).map_err(|error| {
                format!("line {} is no recorded answer: {error}; remove it, or record anew", number + 1)
            })?;
            tape.add(line);
        }
        Ok(tape)
    }

    pub(super) fn add(&mut self, line: Line) {
        self.places.entry(line.key.clone()).or_default().0.push(self.lines.len());
        self.lines.push(line);
    }

    pub(super) fn len(&self) -> usize {
        self.lines.len()
    }

    pub(super) fn only_records(&self) -> bool {
        !self.played
    }

    /// The name and the provider of the model that was recorded.
    pub(super) fn speaker(&self) -> (String, String) {
        match self.lines.first() {
            Some(line) => (line.model.clone(), line.provider.clone()),
            None => ("recorded".to_owned(), "unknown".to_owned()),
        }
    }

    /// The next answer to this request; the last again when all were given.
    pub(super) fn next(&mut self, asked: &Line) -> Option<ChatResponse> {
        let (places, given) = self.places.get_mut(&asked.key)?;
        let place = *places.get((*given).min(places.len().checked_sub(1)?))?;
        *given += 1;
        self.lines[place].response.clone()
    }

    /// What to say of a request that is not there: where the nearest one differs.
    pub(super) fn miss(&self, asked: &Line) -> String {
        let equal = |line: &Line| line.messages().iter().zip(asked.messages()).take_while(|(a, b)| a == b).count();
        let nearest = self.lines.iter().enumerate().max_by_key(|(number, line)| {
            let length = line.messages().len().abs_diff(asked.messages().len());
            (equal(line), std::cmp::Reverse(length), std::cmp::Reverse(*number))
        });
        let Some((number, line)) = nearest else { return "it is empty".to_owned() };
        format!(
            "it does not have this request; the nearest that it has, in line {}, {}; record it with \
             `RecordedModel::complete`",
            number + 1,
            difference(line, asked, equal(line))
        )
    }
}

/// Where two requests differ whose first messages are equal.
fn difference(recorded: &Line, asked: &Line, equal: usize) -> String {
    let (old, new) = (recorded.messages(), asked.messages());
    let number = equal + 1;
    match (old.get(equal), new.get(equal)) {
        (Some(old), Some(new)) => {
            format!("differs in message {number}: recorded was {}, asked is {}", short(old), short(new))
        }
        (Some(old), None) => format!("goes on with message {number}: {}", short(old)),
        (None, Some(new)) => format!("ends before message {number}: {}", short(new)),
        (None, None) => {
            let parts = ["tools", "output", "options"].into_iter();
            let parts: Vec<_> = parts.filter(|part| recorded.request.get(part) != asked.request.get(part)).collect();
            format!("has the same messages and differs in its {}", parts.join(" and "))
        }
    }
}

/// The beginning of a value's JSON.
fn short(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(160) {
        Some((end, _)) => format!("`{}…`", &text[..end]),
        None => format!("`{text}`"),
    }
}
