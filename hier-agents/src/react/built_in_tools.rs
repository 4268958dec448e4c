//! The tools of an agent: built-in tools, its own tools, and its subagents.

use serde_json::{Value, json};

use super::agent::{AgentDef, Callee};
use super::background_specs::{self, tool};
use crate::model::ToolSpec;
use crate::state::base::BaseState;
use crate::state::todo::TodoList;
use crate::{coercion, prompts};
use hier_checkpoint::message::ToolCall;
use hier_core::state::{Contains, State, Values};

impl<S: Values, C: 'static> AgentDef<S, C> {
    /// Builds the map of callees and the specs for the model. Call it after all tools and subagents are known.
    pub(crate) fn index(&mut self) {
        self.callees.clear();
        let (mut own, mut cards) = (Vec::new(), Vec::new());
        for (number, tool) in self.tools.iter().enumerate() {
            let spec = tool.spec();
            self.callees.insert(spec.name.clone(), Callee::Tool(number));
            own.push(spec);
        }
        for (number, subagent) in self.subagents.iter().enumerate() {
            self.callees.insert(subagent.name.to_string(), Callee::Subagent(number));
            cards.push(subagent.spec());
        }
        cards.append(&mut self.background_tools());
        if self.converses() {
            let answer = self.answer.as_ref().map(super::answer::TypedAnswer::tool);
            self.specs = own.into_iter().chain(cards).collect();
            self.ending_specs = self.specs.iter().cloned().chain(answer).collect();
            return;
        }
        // A root needs a tool that ends the agent.
        let finish = (!self.reports && !self.callees.contains_key(super::route::FINISH)).then(finish_task);
        let known = self.built_in().into_iter();
        self.specs = known.chain(finish).chain(own).chain(self.todo_tools()).chain(cards).collect();
        // On the last request, even a root may be asked to report.
        let report = (!self.reports).then(report_to_supervisor);
        self.ending_specs = report.into_iter().chain(self.specs.iter().cloned()).collect();
    }

    /// Returns the answer to a call of an unknown tool. `listed` has the tools of the toolsets.
    pub(super) fn unknown_tool(&self, name: &str, listed: Vec<String>) -> String {
        let mut known: Vec<String> = self.tool_names();
        known.extend(listed);
        let reason = prompts::unknown_tool(name, &known);
        // A root can call `finish_task`, but the list omits it, as in LangGraph.
        let has_finish = self.ending_specs.iter().any(|tool| tool.name == super::route::FINISH);
        match hier_spec::nearest(name, has_finish.then_some(super::route::FINISH)) {
            Some(meant) => format!("{reason} Did you mean `{meant}`?"),
            None => reason,
        }
    }

    fn tool_names(&self) -> Vec<String> {
        let mut specs = self.built_in();
        for tool in &self.tools {
            specs.push(tool.spec());
        }
        specs.append(&mut self.todo_tools());
        let mut names = tool_names(&specs);
        for subagent in &self.subagents {
            names.push(subagent.name.to_string());
        }
        names.append(&mut tool_names(&self.background_tools()));
        if self.answer.is_some() {
            names.push(hier_spec::agent::FINAL_ANSWER.to_owned());
        }
        names
    }

    fn background_tools(&self) -> Vec<ToolSpec> {
        if self.background.0.is_empty() { Vec::new() } else { background_specs::specs().into() }
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

fn tool_names(specs: &[ToolSpec]) -> Vec<String> {
    specs.iter().map(|spec| spec.name.clone()).collect()
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

/// Calls a built-in tool. Returns its writes or a description of invalid arguments, or `None` if the tool does not
/// exist. A report arrives here only if its text is missing.
pub(super) fn call_built_in<S>(list: Option<&TodoList>, call: &ToolCall) -> Option<Result<Vec<S::Write>, String>>
where
    S: Values + Contains<BaseState>,
{
    match &*call.name {
        TODO_COMPLETE => list.map(|list| complete_todo::<S>(call, list)),
        super::route::REPORT => Some(Err(text_missing("report"))),
        super::route::FINISH => Some(Err(text_missing("result"))),
        super::route::RAISE => Some(Err(text_missing("reason"))),
        TODO_WRITE => list.map(|_| write_todos::<S>(call)),
        _ => None,
    }
}

fn text_missing(argument: &str) -> String {
    format!("`{argument}` must be a non-empty string")
}

fn write_todos<S: Values + Contains<BaseState>>(call: &ToolCall) -> Result<Vec<S::Write>, String> {
    let meant = coercion::coerced(&call.args, &todo_write().parameters);
    let args = meant.as_ref().unwrap_or(&call.args);
    let items = args.get("items").and_then(Value::as_array).ok_or("`items` must be a list of strings")?;
    let items: Option<Vec<&str>> = items.iter().map(Value::as_str).collect();
    let items = items.ok_or("`items` must be a list of strings")?;
    let list: TodoList = items.iter().map(|item| (*item, false)).collect();
    Ok(todo_writes::<S>(call, list, format!("TODO list updated ({} items).", items.len())))
}

fn complete_todo<S>(call: &ToolCall, list: &TodoList) -> Result<Vec<S::Write>, String>
where
    S: Values + Contains<BaseState>,
{
    let item = call.args.get("item").and_then(Value::as_str).ok_or("`item` must be a string")?;
    if list.get(item).is_none() {
        return Err(unknown_item(item, list));
    }
    Ok(todo_writes::<S>(call, [(item, true)].into_iter().collect(), format!("Completed: {item}")))
}

fn unknown_item(item: &str, list: &TodoList) -> String {
    let open = list.iter().filter(|(_, done)| !done).map(|(item, _)| format!("`{item}`"));
    let open = open.collect::<Vec<_>>().join(", ");
    let open = if open.is_empty() { "nothing is open".to_owned() } else { format!("open items: {open}") };
    format!("`{item}` is not on the TODO list: {open}")
}

fn todo_writes<S: Values + Contains<BaseState>>(call: &ToolCall, list: TodoList, text: String) -> Vec<S::Write> {
    let channels = BaseState::channels();
    vec![channels.todo_list.write::<S>(list), channels.messages.write::<S>([prompts::answer(call, text)])]
}
