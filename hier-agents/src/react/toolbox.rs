//! The tools of an agent: built-in ones, its own, and its subagents.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{Agent, Callee};
use crate::model::ToolSpec;
use crate::schema::args_schema;
use crate::state::base::BaseState;
use crate::state::todo::TodoList;
use crate::tool::arguments::ToolArguments;
use crate::words;
use crate::{fit, nesting};
use hier_checkpoint::message::ToolCall;
use hier_core::state::{Contains, State, Values};

/// The arguments of a subagent.
#[derive(Clone, Debug)]
pub struct ArgsSpec {
    /// The JSON schema, an object.
    schema: Value,
    /// Describes invalid arguments of a call.
    check: Option<fn(&ToolCall, &Value) -> Option<String>>,
    /// Returns true if the value deserializes to the argument type without conversion.
    reads: Option<fn(&Value) -> bool>,
}

impl ArgsSpec {
    /// Creates the specification of this type's fields.
    pub fn of<T: JsonSchema + DeserializeOwned>() -> Self {
        let check = |call: &ToolCall, schema: &Value| {
            let mut arguments = ToolArguments::of_schema(call, schema);
            let fit = arguments.whole::<T>().is_some() && arguments.fit();
            (!fit).then(|| arguments.report())
        };
        let reads = |args: &Value| T::deserialize(args).is_ok();
        Self { schema: args_schema::<T>(), check: Some(check), reads: Some(reads) }
    }

    /// Converts the arguments of a call to these JSON types, where their meaning is clear.
    pub(crate) fn meant(&self, call: ToolCall) -> ToolCall {
        if self.reads.is_some_and(|reads| reads(&call.args)) || nesting::mistake(&call).is_some() {
            return call;
        }
        match fit::meant(&call.args, &self.schema) {
            Some(args) => ToolCall { args, ..call },
            None => call,
        }
    }
}

impl Default for ArgsSpec {
    fn default() -> Self {
        Self { schema: default_args(), check: None, reads: None }
    }
}

/// A subagent as a tool of its supervisor's model.
#[derive(Clone)]
pub(crate) struct Card {
    pub(crate) name: Arc<str>,
    pub(crate) description: Arc<str>,
    /// The node that runs the subagent.
    pub(crate) node: Arc<str>,
    pub(crate) args: ArgsSpec,
}

impl Card {
    /// Describes invalid arguments of a call.
    pub(super) fn mistake(&self, call: &ToolCall) -> Option<String> {
        let call = &self.args.meant(call.clone());
        if !call.args.is_object() {
            return Some(format!("the arguments of `{}` must be a JSON object", self.name));
        }
        if let Some(mistake) = nesting::mistake(call) {
            return Some(mistake);
        }
        self.args.check.and_then(|check| check(call, &self.args.schema))
    }

    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: self.name.to_string(),
            description: self.description.to_string(),
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

impl<S: Values, C: 'static> Agent<S, C> {
    /// Builds the map of callees and the specs for the model. Call it after all tools and subagents are known.
    pub(crate) fn index(&mut self) {
        let tools = self.tools.iter().enumerate();
        let tools = tools.map(|(number, tool)| (tool.spec().name, Callee::Tool(number)));
        let subagents = self.subagents.iter().enumerate();
        let subagents = subagents.map(|(number, card)| (card.name.to_string(), Callee::Subagent(number)));
        self.callees = tools.chain(subagents).collect();
        let own = self.tools.iter().map(|tool| tool.spec());
        let cards = self.subagents.iter().map(Card::spec);
        if self.converses() {
            let answer = self.answer.as_ref().map(super::answer::Answer::tool);
            self.specs = own.chain(cards).collect();
            self.ending_specs = self.specs.iter().cloned().chain(answer).collect();
            return;
        }
        // A root needs a tool to end with.
        let finish = (!self.reports && !self.callees.contains_key(super::route::FINISH)).then(finish_task);
        let known = self.built_in().into_iter();
        self.specs = known.chain(finish).chain(own).chain(self.todo_tools()).chain(cards).collect();
        // On the last request, even a root may be asked to report.
        let report = (!self.reports).then(report_to_supervisor);
        self.ending_specs = report.into_iter().chain(self.specs.iter().cloned()).collect();
    }

    /// Returns the answer to a call of an unknown tool. `listed` has the tools of the toolsets.
    pub(super) fn unknown_tool(&self, name: &str, listed: Vec<String>) -> String {
        let told = words::unknown_tool(name, self.tool_names().chain(listed));
        // A root can call `finish_task`, but the list omits it, as in LangGraph.
        let finish = self.ending_specs.iter().map(|tool| &*tool.name).filter(|name| *name == super::route::FINISH);
        match hier_spec::nearest(name, finish) {
            Some(meant) => format!("{told} Did you mean `{meant}`?"),
            None => told,
        }
    }

    fn tool_names(&self) -> impl Iterator<Item = String> {
        let own = self.tools.iter().map(|tool| tool.spec().name);
        let cards = self.subagents.iter().map(|card| card.name.to_string());
        let named = |specs: Vec<ToolSpec>| specs.into_iter().map(|spec| spec.name);
        let answer = self.answer.as_ref().map(|_| hier_spec::agent::FINAL_ANSWER.to_owned());
        named(self.built_in()).chain(own).chain(named(self.todo_tools())).chain(cards).chain(answer)
    }

    fn built_in(&self) -> Vec<ToolSpec> {
        if self.converses() {
            return Vec::new();
        }
        let report = self.reports.then(report_to_supervisor);
        report.into_iter().chain([raise_exception()]).collect()
    }

    fn todo_tools(&self) -> Vec<ToolSpec> {
        if self.todo.is_some() { vec![todo_write(), todo_complete()] } else { Vec::new() }
    }
}

fn tool(name: &str, description: &str, properties: Value, required: &[&str]) -> ToolSpec {
    let mut parameters = json!({"type": "object", "required": required});
    parameters["properties"] = properties;
    ToolSpec { name: name.to_owned(), description: description.to_owned(), parameters }
}

fn report_to_supervisor() -> ToolSpec {
    let properties = json!({
        "report": {"type": "string", "description": "The work done, and its results."},
        "request_iterations": {
            "type": "integer",
            "minimum": 0,
            "description": "The number of additional iterations that are needed if the task is not complete.",
        },
    });
    tool(super::route::REPORT, "Ends your task and reports to your supervisor.", properties, &["report"])
}

fn finish_task() -> ToolSpec {
    let properties = json!({"result": {"type": "string", "description": "The result of the whole task."}});
    tool(super::route::FINISH, "Ends the whole task with its result.", properties, &["result"])
}

fn raise_exception() -> ToolSpec {
    let properties = json!({
        "reason": {"type": "string", "description": "Why it is impossible to continue."},
        "subject_agent": {"type": "string", "description": "The agent that the reason concerns, if any."},
    });
    tool(super::route::RAISE, "Stops all work, because it is impossible to continue.", properties, &["reason"])
}

const TODO_WRITE: &str = "todo_write";
const TODO_COMPLETE: &str = "todo_complete";

fn todo_write() -> ToolSpec {
    let items = json!({"type": "array", "items": {"type": "string"}, "description": "The items, in order."});
    tool(TODO_WRITE, "Puts items on the TODO list, all of them open.", json!({"items": items}), &["items"])
}

fn todo_complete() -> ToolSpec {
    let properties = json!({"item": {"type": "string", "description": "The item, exactly as on the list."}});
    tool(TODO_COMPLETE, "Marks an item of the TODO list as done.", properties, &["item"])
}

/// Calls a built-in tool. Returns its writes or a description of invalid arguments, or none if the tool does not exist.
/// Reports arrive here only without a text.
pub(super) fn call<S>(list: Option<&TodoList>, call: &ToolCall) -> Option<Result<Vec<S::Write>, String>>
where
    S: Values + Contains<BaseState>,
{
    match &*call.name {
        TODO_COMPLETE => list.map(|list| complete_todo::<S>(call, list)),
        super::route::REPORT => Some(Err(text_missing("report"))),
        super::route::FINISH => Some(Err(text_missing("result"))),
        TODO_WRITE => list.map(|_| write_todos::<S>(call)),
        _ => None,
    }
}

fn text_missing(argument: &str) -> String {
    format!("`{argument}` must be a non-empty string")
}

fn write_todos<S: Values + Contains<BaseState>>(call: &ToolCall) -> Result<Vec<S::Write>, String> {
    let meant = fit::meant(&call.args, &todo_write().parameters);
    let args = meant.as_ref().unwrap_or(&call.args);
    let items = args.get("items").and_then(Value::as_array).ok_or("`items` must be a list of strings")?;
    let items: Option<Vec<&str>> = items.iter().map(Value::as_str).collect();
    let items = items.ok_or("`items` must be a list of strings")?;
    let list: TodoList = items.iter().map(|item| (*item, false)).collect();
    Ok(done::<S>(call, list, format!("TODO list updated ({} items).", items.len())))
}

fn complete_todo<S>(call: &ToolCall, list: &TodoList) -> Result<Vec<S::Write>, String>
where
    S: Values + Contains<BaseState>,
{
    let item = call.args.get("item").and_then(Value::as_str).ok_or("`item` must be a string")?;
    if list.get(item).is_none() {
        let open = list.iter().filter(|(_, done)| !done).map(|(item, _)| format!("`{item}`"));
        let open = open.collect::<Vec<_>>().join(", ");
        let open = if open.is_empty() { "nothing is open".to_owned() } else { format!("open items: {open}") };
        return Err(format!("`{item}` is not on the TODO list: {open}"));
    }
    Ok(done::<S>(call, [(item, true)].into_iter().collect(), format!("Completed: {item}")))
}

fn done<S: Values + Contains<BaseState>>(call: &ToolCall, list: TodoList, text: String) -> Vec<S::Write> {
    let channels = BaseState::channels();
    vec![channels.todo_list.write::<S>(list), channels.messages.write::<S>([words::answer(call, text)])]
}
