//! Subagents as tools of their supervisor's model.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::call::nesting;
use crate::coercion;
use crate::model::ToolSpec;
use crate::prompts;
use crate::schema::args_schema;
use crate::tool::arguments::ToolArguments;
use hier_checkpoint::message::ToolCall;

/// The type of the arguments with which a model calls a subagent.
#[derive(Clone, Debug)]
pub struct ArgsSpec {
    /// The JSON schema of the arguments, which is an object.
    schema: Value,
    /// Describes invalid arguments of a call.
    check: Option<fn(&ToolCall, &Value) -> Option<String>>,
    /// Returns true if the value deserializes to the argument type without conversion.
    reads: Option<fn(&Value) -> bool>,
}

impl ArgsSpec {
    /// Creates the specification of the type `T`, whose fields are the arguments.
    pub fn of_type<T: JsonSchema + DeserializeOwned>() -> Self {
        let check = |call: &ToolCall, schema: &Value| {
            let mut arguments = ToolArguments::of_schema(call, schema);
            let fit = arguments.whole::<T>().is_some() && arguments.fit();
            (!fit).then(|| arguments.report())
        };
        let reads = |args: &Value| T::deserialize(args).is_ok();
        Self { schema: args_schema::<T>(), check: Some(check), reads: Some(reads) }
    }

    /// Converts the arguments of a call to these JSON types, where their meaning is clear.
    pub(crate) fn coerced(&self, call: ToolCall) -> ToolCall {
        if self.reads.is_some_and(|reads| reads(&call.args)) || nesting::mistake(&call).is_some() {
            return call;
        }
        match coercion::coerced(&call.args, &self.schema) {
            Some(args) => ToolCall { args, ..call },
            None => call,
        }
    }

    /// Describes the mistake if a call of the subagent has invalid arguments.
    pub(crate) fn mistake(&self, call: &ToolCall) -> Option<String> {
        let call = &self.coerced(call.clone());
        if !call.args.is_object() {
            return Some(format!("the arguments of `{}` must be a JSON object", call.name));
        }
        if let Some(mistake) = nesting::mistake(call) {
            return Some(mistake);
        }
        self.check.and_then(|check| check(call, &self.schema))
    }
}

impl Default for ArgsSpec {
    fn default() -> Self {
        Self { schema: default_args(), check: None, reads: None }
    }
}

/// A subagent as a tool of its supervisor's model.
#[derive(Clone)]
pub(crate) struct SubagentTool {
    pub(crate) name: Arc<str>,
    pub(crate) description: Arc<str>,
    pub(crate) node: Arc<str>,
    pub(crate) args: ArgsSpec,
    /// True if a call starts the subagent in the background.
    pub(crate) is_background: bool,
    /// True if it may also continue when the turn ends.
    pub(crate) is_detached: bool,
}

impl SubagentTool {
    pub(crate) fn mistake(&self, call: &ToolCall) -> Option<String> {
        self.args.mistake(call)
    }

    pub(super) fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: self.name.to_string(),
            description: if self.is_background {
                prompts::in_background(&self.description, self.is_detached)
            } else {
                self.description.to_string()
            },
            parameters: self.args.schema.clone(),
        }
    }
}

fn default_args() -> Value {
    json!({
        "type": "object",
        "properties": {
            "task": {"type": "string", "description": "The task of the agent."},
            "task_scope": {"type": "string", "description": "The limits of the task."},
            "task_iterations": {
                "type": "integer",
                "minimum": 0,
                "description": "The maximum number of iterations. 0 leaves it to the agent.",
            },
        },
        "required": ["task"],
    })
}
