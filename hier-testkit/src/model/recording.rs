//! Recorded requests in a canonical form, with their replies.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use hier_agents::{Body, ChatRequest, ChatResponse, Message};

/// A recorded request with its reply: a line of the file.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct RecordedLine {
    key: String,
    #[serde(default)]
    model: String,
    #[serde(default)]
    provider: String,
    /// The request without message ids.
    request: Value,
    response: Option<ChatResponse>,
}

impl RecordedLine {
    /// Creates a line without a reply.
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

    pub(super) fn with_answer(self, model: &str, provider: &str, response: &ChatResponse) -> Self {
        Self { model: model.to_owned(), provider: provider.to_owned(), response: Some(response.clone()), ..self }
    }

    fn messages(&self) -> &[Value] {
        self.request.get("messages").and_then(Value::as_array).map_or(&[], Vec::as_slice)
    }
}

/// Sorts the fields of all objects, independent of how `serde_json` is configured.
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

#[derive(Default)]
pub(super) struct Recording {
    lines: Vec<RecordedLine>,
    /// For each request key, the indices of its lines, and the number of replies that were returned.
    places: HashMap<String, (Vec<usize>, usize)>,
    /// True if the recording was read from a file.
    played: bool,
}

impl Recording {
    pub(super) fn read(text: &str) -> Result<Self, String> {
        let mut recording = Self { played: true, ..Self::default() };
        for (number, text) in text.lines().enumerate().filter(|(_, text)| !text.trim().is_empty()) {
            let line: RecordedLine = serde_json::from_str(text).map_err(|error| {
                format!("line {} is not a recorded reply: {error}; remove the line, or record again", number + 1)
            })?;
            recording.add(line);
        }
        Ok(recording)
    }

    pub(super) fn add(&mut self, line: RecordedLine) {
        self.places.entry(line.key.clone()).or_default().0.push(self.lines.len());
        self.lines.push(line);
    }

    pub(super) fn len(&self) -> usize {
        self.lines.len()
    }

    pub(super) fn only_records(&self) -> bool {
        !self.played
    }

    pub(super) fn recorded_model(&self) -> (String, String) {
        match self.lines.first() {
            Some(line) => (line.model.clone(), line.provider.clone()),
            None => ("recorded".to_owned(), "unknown".to_owned()),
        }
    }

    /// Returns true if all replies contain their costs.
    pub(super) fn has_costs(&self) -> bool {
        let cost = |line: &RecordedLine| line.response.as_ref()?.message.usage()?.cost;
        !self.lines.is_empty() && self.lines.iter().all(|line| cost(line).is_some())
    }

    /// Returns the next reply to this request. After the last reply, returns the last reply again.
    pub(super) fn next_answer(&mut self, asked: &RecordedLine) -> Option<ChatResponse> {
        let (places, given) = self.places.get_mut(&asked.key)?;
        let place = *places.get((*given).min(places.len().checked_sub(1)?))?;
        *given += 1;
        self.lines[place].response.clone()
    }

    /// Describes the difference between a request and the most similar recorded one.
    pub(super) fn describe_miss(&self, asked: &RecordedLine) -> String {
        let equal =
            |line: &RecordedLine| line.messages().iter().zip(asked.messages()).take_while(|(a, b)| a == b).count();
        let nearest = self.lines.iter().enumerate().max_by_key(|(number, line)| {
            let length = line.messages().len().abs_diff(asked.messages().len());
            (equal(line), std::cmp::Reverse(length), std::cmp::Reverse(*number))
        });
        let Some((number, line)) = nearest else { return "the recording is empty".to_owned() };
        format!(
            "the recording lacks this request; the most similar one, in line {}, {}; record it with \
             `RecordedModel::complete`",
            number + 1,
            difference(line, asked, equal(line))
        )
    }
}

/// Describes the first difference between two requests. Their first `equal` messages are the same.
fn difference(recorded: &RecordedLine, asked: &RecordedLine, equal: usize) -> String {
    let (old, new) = (recorded.messages(), asked.messages());
    let number = equal + 1;
    match (old.get(equal), new.get(equal)) {
        (Some(old), Some(new)) => {
            format!("differs in message {number}: recorded {}, requested {}", short(old), short(new))
        }
        (Some(old), None) => format!("continues with message {number}: {}", short(old)),
        (None, Some(new)) => format!("ends before message {number}: {}", short(new)),
        (None, None) => {
            let parts = ["tools", "output", "options"].into_iter();
            let parts: Vec<_> = parts.filter(|part| recorded.request.get(part) != asked.request.get(part)).collect();
            format!("has the same messages but different {}", parts.join(" and "))
        }
    }
}

fn short(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(160) {
        Some((end, _)) => format!("`{}…`", &text[..end]),
        None => format!("`{text}`"),
    }
}

/// Returns the message as a model sees it: without its id, the fields of clients and the cost. The program computes
/// costs from its own prices.
pub(super) fn anonymous(message: &Message) -> Message {
    let mut body = message.body.clone();
    if let Body::Assistant { usage: Some(usage), .. } = &mut body {
        usage.cost = None;
    }
    Message { id: None, body, extra: serde_json::Map::new() }
}
