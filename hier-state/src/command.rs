//! Commands as JSON.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A command as JSON: `{"resume": …, "update": …, "goto": …}`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct DynCommand {
    /// The answer to the only open question, or an object of answers. The keys of such an object are ids of questions
    /// or of client tool calls. `None` if the command answers no question.
    pub resume: Option<Value>,
    /// The ids in `resume` that belong to questions of client tools. If such a question is no longer open when the run
    /// starts, the run drops its answer. An answer to any other question that is no longer open is an error.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub results: Vec<String>,
    /// The update: an object of channels, a list of `[channel, value]` pairs, or null for no update.
    pub update: Value,
    /// The nodes to run next. Each entry is the name of a node and the payload of a Send. `None` runs the node on the
    /// state, without a payload.
    pub goto: Vec<(String, Option<Value>)>,
}

impl DynCommand {
    /// Parses a command from JSON.
    ///
    /// The field `resume` is an answer, or an object of answers whose keys are all ids of questions or of client tool
    /// calls. The field `goto` is the name of a node, `{"node": …, "input": …}`, or a list of these.
    ///
    /// # Errors
    ///
    /// Fails if a field is invalid. The message names this field.
    pub fn from_json(command: &Value) -> Result<Self, String> {
        let Value::Object(fields) = command else {
            return Err(format!(
                "`command` must be an object with `resume`, `update` or `goto`, and is {}",
                kind(command)
            ));
        };
        let goto = match fields.get("goto") {
            None | Some(Value::Null) => Vec::new(),
            Some(Value::Array(targets)) => targets.iter().map(target).collect::<Result<_, _>>()?,
            Some(one) => vec![target(one)?],
        };
        let resume = fields.get("resume").filter(|answer| !answer.is_null()).cloned();
        let results = fields.get("results").and_then(Value::as_array).into_iter().flatten();
        let results = results.filter_map(Value::as_str).map(str::to_owned).collect();
        Ok(Self { resume, results, update: fields.get("update").cloned().unwrap_or_default(), goto })
    }
}

fn target(target: &Value) -> Result<(String, Option<Value>), String> {
    let wrong = || {
        format!("`command.goto` must be a node, `{{\"node\", \"input\"}}` or a list of them, and has {}", kind(target))
    };
    match target {
        Value::String(node) => Ok((node.clone(), None)),
        Value::Object(fields) => {
            let node = fields.get("node").and_then(Value::as_str).ok_or_else(wrong)?;
            Ok((node.to_owned(), fields.get("input").cloned()))
        }
        _ => Err(wrong()),
    }
}

/// Returns the type of a JSON value for an error message, such as `a string`.
#[doc(hidden)]
pub fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}
