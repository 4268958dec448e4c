//! Shared helpers: a state, and short constructors of model answers.

use hier_agents::prelude::*;
use hier_core::message::ToolCall;
use hier_testkit::ScriptedModel;
use serde_json::{Value, json};

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Filing {
    #[state(flatten)]
    pub(crate) base: BaseState,
    pub(crate) artifact: Option<String>,
    pub(crate) draft: String,
    #[reducer(append)]
    pub(crate) findings: Vec<String>,
    #[reducer(max)]
    pub(crate) risk: u32,
}

/// An answer of the model that calls these tools.
pub(crate) fn calls<const N: usize>(calls: [(&str, Value); N]) -> Message {
    let calls = calls.into_iter().map(|(name, args)| ToolCall { name: name.to_owned(), args, id: fresh() });
    Message::calls("", calls)
}

/// An answer of the model that calls this tool.
pub(crate) fn call(name: &str, args: Value) -> Message {
    calls([(name, args)])
}

/// An answer of the model that ends its agent.
pub(crate) fn report(text: &str) -> Message {
    call("report_to_supervisor", json!({"report": text}))
}

/// An answer of the model that ends the root.
pub(crate) fn finish(text: &str) -> Message {
    call("finish_task", json!({"result": text}))
}

fn fresh() -> String {
    use std::sync::atomic::{AtomicUsize, Ordering};
    static NEXT: AtomicUsize = AtomicUsize::new(1);
    format!("call-{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Returns the texts of the messages in the model's `place`th request.
pub(crate) fn prompt(model: &ScriptedModel, place: usize) -> Vec<String> {
    let requests = model.requests();
    requests[place].messages.iter().filter_map(|message| Some(message.content()?.text())).collect()
}

/// The names of the tools that it could call then.
pub(crate) fn offered(model: &ScriptedModel, place: usize) -> Vec<String> {
    model.requests()[place].tools.iter().map(|tool| tool.name.clone()).collect()
}

/// Lets a subscriber of one thread receive every message. If it were the only one, tracing would drop each message that
/// a thread without it logs first.
pub(crate) fn log_on_all_threads() {
    let _ = tracing_subscriber::fmt().with_writer(std::io::sink).try_init();
}
