//! The answers of the model: the script of `tests/conformance/tax_filing.py`, call by call.

use std::cell::Cell;

use hier_agents::prelude::*;
use hier_core::message::ToolCall;
use serde_json::{Value, json};

const STAGES: [&str; 5] = ["evidence", "extraction", "matching", "reconciliation", "reporting"];

/// The number of model requests for this many positions.
pub(crate) fn calls(positions: usize) -> usize {
    3 * positions + 22
}

/// All that the model says.
pub(crate) fn script(positions: usize) -> Vec<Message> {
    let number = Cell::new(0);
    let call = |name: &str, args: Value| {
        number.set(number.get() + 1);
        Message::calls("", [ToolCall { name: name.to_owned(), args, id: format!("call-{}", number.get()) }])
    };
    let go = |agent: &str| {
        let task = format!("run {agent}");
        call(agent, json!({ "task": task, "task_scope": "own stage", "task_iterations": 0 }))
    };
    let report = |text: &str| call("report_to_supervisor", json!({ "report": text }));
    let done = |item: &str| call("todo_complete", json!({ "item": item }));
    let items: Vec<String> = (1..=positions).map(|position| format!("position-{position:03}")).collect();

    let mut script = vec![call("todo_write", json!({ "items": STAGES }))];
    script.extend([go("evidence_orchestrator"), go("document_fetcher"), go("document_validator")]);
    script.extend([report("valid"), report("EVIDENCE"), done("evidence")]);
    script.extend([go("extraction_orchestrator"), go("ocr_engine"), report("EXTRACTION"), done("extraction")]);
    script.extend([go("matching_orchestrator"), call("todo_write", json!({ "items": items }))]);
    script.extend(items.iter().flat_map(|item| [go("position_matcher"), report("position matched"), done(item)]));
    script.extend([report(&format!("MATCHING {positions}")), done("matching")]);
    script.extend([go("reconciliation_orchestrator"), go("tax_calculator"), report("RECONCILIATION")]);
    script.extend([done("reconciliation"), go("reporting_orchestrator"), done("reporting")]);
    script.push(call("finish_task", json!({ "result": format!("FILED {positions}") })));
    script
}
