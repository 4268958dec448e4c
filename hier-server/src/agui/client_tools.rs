//! Client tools in AG-UI. A run ends with the call of a client tool. The client's next input contains the result as a
//! tool message.

use std::collections::{HashMap, HashSet};

use hier_core::client_call;
use hier_core::runs::{ThreadRow, ThreadStatus};
use serde_json::{Map, Value, json};

use super::messages;
use crate::wire::message::text;

/// The prefix of the ids of messages that show a subagent's call, which the conversation of the root graph does not
/// contain.
const SHOWN: &str = "client-call:";

/// An open question of a thread. `call` is the id of the call if the question waits for a client tool.
#[derive(Debug)]
pub(super) struct PendingQuestion {
    id: String,
    /// The name of the question, if it is declared.
    name: Option<String>,
    call: Option<String>,
}

pub(super) fn pending_questions(row: Option<&ThreadRow>) -> Vec<PendingQuestion> {
    let row = row.filter(|row| row.status == ThreadStatus::Interrupted);
    let asked = row.into_iter().flat_map(|row| row.interrupts.values()).filter_map(Value::as_array).flatten();
    let open = asked.filter_map(|asked| {
        let call = asked.get("value").and_then(client_call::id).map(str::to_owned);
        let name = asked.get("name").and_then(Value::as_str).map(str::to_owned);
        Some(PendingQuestion { id: asked.get("id")?.as_str()?.to_owned(), name, call })
    });
    open.collect()
}

/// The messages of a request, sorted into answers and new messages.
#[derive(Debug, Default, PartialEq)]
pub(super) struct SortedMessages {
    /// The results of client tools, by the ids of the questions that they answer.
    pub(super) answers: Map<String, Value>,
    /// The messages that the thread does not have, in LangChain's form.
    pub(super) new: Vec<Value>,
    /// The id of the call, if the last message is a result for which the thread does not wait.
    unexpected: Option<String>,
}

impl SortedMessages {
    /// Sorts the messages of a request. `values` is the state of the thread. In a running thread, no call waits for a
    /// result. The error names the message.
    pub(super) fn of(
        sent: &[Value],
        values: &Value,
        open: &[PendingQuestion],
        status: Option<ThreadStatus>,
    ) -> Result<Self, String> {
        let thread = Conversation::of(values);
        let mut sorted = Self::default();
        // If several questions wait for the same call, the result answers the first one.
        let of_calls = open.iter().rev().filter_map(|question| Some((question.call.as_deref()?, question)));
        let asked: HashMap<&str, &PendingQuestion> = of_calls.collect();
        let (mut shown, mut declared) = (HashSet::new(), HashSet::new());
        for (place, message) in sent.iter().enumerate() {
            sorted.unexpected = None;
            let field = |name: &str| message.get(name).and_then(Value::as_str);
            let (id, role, call) = (field("id").unwrap_or_default(), field("role"), field("toolCallId"));
            if thread.messages.contains(id) {
                continue;
            }
            if role == Some("assistant") {
                let calls = message.get("toolCalls").and_then(Value::as_array).into_iter().flatten();
                let ids = calls.filter_map(|call| call.get("id")?.as_str());
                if id.starts_with(SHOWN) {
                    shown.extend(ids);
                    continue;
                }
                declared.extend(ids);
            }
            if let (Some("tool"), Some(call)) = (role, call) {
                if let Some(question) = asked.get(call) {
                    sorted.answers.insert(question.id.clone(), result(message));
                    continue;
                }
                let is_running = status == Some(ThreadStatus::Busy) && thread.calls.contains(call);
                if shown.contains(call) || thread.results.contains(call) || is_running {
                    sorted.unexpected = Some(call.to_owned());
                    continue;
                }
                if !declared.contains(call) && !thread.calls.contains(call) {
                    return Err(format!("`messages[{place}]`: the thread has no call `{call}`"));
                }
            }
            sorted.new.extend(messages::inward(message, place)?);
        }
        Ok(sorted)
    }

    /// Drops results of the wrong type if the request has a new user message, because that message withdraws their
    /// calls. Clients send all results again with each request. `fits` checks an answer to a declared question.
    pub(super) fn drop_misfits(&mut self, open: &[PendingQuestion], fits: impl Fn(&str, &Value) -> bool) {
        if !self.new.iter().any(|message| message.get("type").is_some_and(|kind| kind == "human")) {
            return;
        }
        let name = |id: &str| open.iter().find(|question| question.id == id)?.name.as_deref();
        self.answers.retain(|id, answer| name(id).is_none_or(|name| fits(name, answer)));
    }

    /// If the request has no effect, returns the reason: its last message is the result of a call that does not wait
    /// for a result.
    pub(super) fn unexpected(&self, open: &[PendingQuestion]) -> Option<String> {
        let call = self.unexpected.as_ref().filter(|_| self.answers.is_empty() && self.new.is_empty())?;
        let waiting: Vec<String> = open.iter().filter_map(|open| Some(format!("`{}`", open.call.as_ref()?))).collect();
        let open =
            if waiting.is_empty() { "no call is open".to_owned() } else { format!("open: {}", waiting.join(", ")) };
        Some(format!(
            "the call `{call}` does not wait for a result, because it already has one or a new message has withdrawn it; {open}"
        ))
    }

    /// Returns true if the request may continue a thread with these open questions. The request must answer a question.
    /// If the thread waits only for client tools, the request may instead contain a new message, which withdraws the
    /// calls.
    pub(super) fn may_continue(&self, open: &[PendingQuestion]) -> bool {
        let only_calls = open.iter().all(|question| question.call.is_some());
        !self.answers.is_empty() || (only_calls && !self.new.is_empty())
    }
}

/// The ids of messages, calls and results in the conversation of a thread.
#[derive(Default)]
struct Conversation<'a> {
    messages: HashSet<&'a str>,
    calls: HashSet<&'a str>,
    results: HashSet<&'a str>,
}

impl<'a> Conversation<'a> {
    fn of(values: &'a Value) -> Self {
        let mut found = Self::default();
        for message in values.get("messages").and_then(Value::as_array).into_iter().flatten() {
            let field = |name: &str| message.get(name).and_then(Value::as_str);
            found.messages.extend(field("id"));
            found.results.extend(field("tool_call_id"));
            let calls = ["calls", "tool_calls"].iter().filter_map(|name| message.get(*name)?.as_array()).flatten();
            found.calls.extend(calls.filter_map(|call| call.get("id")?.as_str()));
        }
        found
    }
}

/// The ids of the tool messages in a request, by the ids of their calls.
#[derive(Debug, Default)]
pub(super) struct SentResults(HashMap<String, String>);

impl SentResults {
    pub(super) fn of(sent: &[Value]) -> Self {
        let results = sent.iter().filter(|message| message.get("role").and_then(Value::as_str) == Some("tool"));
        let text = |message: &Value, name: &str| Some(message.get(name)?.as_str()?.to_owned());
        let mut found = HashMap::new();
        for (call, id) in results.filter_map(|message| Some((text(message, "toolCallId")?, text(message, "id")?))) {
            found.entry(call).or_insert(id);
        }
        Self(found)
    }

    /// Returns true if the client has sent the result of this call.
    pub(super) fn has(&self, call: &str) -> bool {
        self.0.contains_key(call)
    }

    /// Gives results the ids that their messages have in the client. With another id, the client would append a result
    /// again, after the reply of the model.
    pub(super) fn rename(&self, messages: &mut [Value]) {
        for message in messages {
            let id = message.get("toolCallId").and_then(Value::as_str).and_then(|call| self.0.get(call));
            if let Some(id) = id {
                message["id"] = id.as_str().into();
            }
        }
    }
}

/// Converts a tool message into an answer: its text, or an object with the error.
fn result(message: &Value) -> Value {
    match message.get("error") {
        None | Some(Value::Null) => text(message).into(),
        Some(Value::String(error)) => json!({ "error": error }),
        Some(error) => json!({ "error": error.to_string() }),
    }
}

/// Returns the events that show a call to the client.
pub(super) fn call_events(call: &Map<String, Value>) -> [(&'static str, Value); 3] {
    let id = call.get("id").and_then(Value::as_str).unwrap_or_default();
    let args = call.get("args").map_or_else(|| "{}".to_owned(), Value::to_string);
    let parent = format!("{SHOWN}{id}");
    [
        ("TOOL_CALL_START", json!({ "toolCallId": id, "toolCallName": call.get("name"), "parentMessageId": parent })),
        ("TOOL_CALL_ARGS", json!({ "toolCallId": id, "delta": args })),
        ("TOOL_CALL_END", json!({ "toolCallId": id })),
    ]
}

pub(super) fn has_call(values: &Value, call: &Map<String, Value>) -> bool {
    let id = call.get("id").and_then(Value::as_str).unwrap_or_default();
    Conversation::of(values).calls.contains(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(call: &str) -> PendingQuestion {
        PendingQuestion { id: format!("q-{call}"), name: Some("pick".to_owned()), call: Some(call.to_owned()) }
    }

    fn tool(id: &str, call: &str, content: &str) -> Value {
        json!({ "id": id, "role": "tool", "toolCallId": call, "content": content })
    }

    fn thread() -> Value {
        json!({ "messages": [
            { "id": "u1", "role": "user", "content": "Look." },
            { "id": "a1", "role": "assistant", "content": "", "calls": [{ "id": "c1" }, { "id": "c2" }] },
            { "id": "r2", "role": "tool", "tool_call_id": "c2", "content": "done" },
        ] })
    }

    fn sort(sent: &Value, open: &[PendingQuestion]) -> Result<SortedMessages, String> {
        SortedMessages::of(sent.as_array().expect("a list"), &thread(), open, None)
    }

    #[test]
    fn result_for_a_running_thread_is_unexpected() {
        let sent = json!([tool("t1", "c1", "5")]);
        let sent = sent.as_array().expect("a list");
        let sorted = SortedMessages::of(sent, &thread(), &[], Some(ThreadStatus::Busy)).expect("messages");
        assert!(sorted.new.is_empty() && sorted.unexpected(&[]).expect("a reason").contains("`c1`"), "{sorted:?}");
        // A thread that has ended with an open call takes the result as a message.
        let sorted = SortedMessages::of(sent, &thread(), &[], Some(ThreadStatus::Idle)).expect("messages");
        assert_eq!(sorted.new.len(), 1);
    }

    #[test]
    fn results_keep_the_ids_of_the_client() {
        let sent = json!([tool("t1", "c1", "5"), tool("t2", "c1", "6"), { "id": "u1", "role": "user", "content": "" }]);
        let sent = SentResults::of(sent.as_array().expect("a list"));
        assert!(sent.has("c1") && !sent.has("c2"));
        let mut shown = [tool("r1", "c1", "5"), tool("r2", "c2", "7")];
        sent.rename(&mut shown);
        assert_eq!(shown, [tool("t1", "c1", "5"), tool("r2", "c2", "7")]);
    }

    #[test]
    fn results_of_open_calls_are_answers() {
        let failed = json!({ "id": "t2", "role": "tool", "toolCallId": "c3", "content": "", "error": "no" });
        let shown = json!({ "id": "client-call:c3", "role": "assistant", "toolCalls": [{ "id": "c3" }] });
        let more = json!({ "id": "u2", "role": "user", "content": "Quick." });
        let sent =
            json!([{ "id": "u1", "role": "user", "content": "Look." }, shown, tool("t1", "c1", "5"), failed, more]);
        let sorted = sort(&sent, &[open("c1"), open("c3")]).expect("messages");
        assert_eq!(json!(sorted.answers), json!({ "q-c1": "5", "q-c3": { "error": "no" } }));
        assert_eq!(sorted.new.len(), 1);
    }

    #[test]
    fn new_message_drops_results_of_the_wrong_type() {
        let more = json!({ "id": "u2", "role": "user", "content": "Go on." });
        let open = [open("c1"), open("c3")];
        let fits = |_: &str, answer: &Value| answer == "5";
        let wrong = [tool("t1", "c1", "5"), tool("t3", "c3", "a picture")];
        let mut sorted = sort(&json!(wrong), &open).expect("messages");
        sorted.drop_misfits(&open, fits);
        assert_eq!(sorted.answers.len(), 2, "the request fails, and the call stays open");
        let mut sorted = sort(&json!([wrong[0], wrong[1], more]), &open).expect("messages");
        sorted.drop_misfits(&open, fits);
        assert_eq!(json!(sorted.answers), json!({ "q-c1": "5" }));
    }

    #[test]
    fn result_of_an_answered_call_has_no_effect() {
        let sorted = sort(&json!([tool("t1", "c2", "again")]), &[open("c1")]).expect("messages");
        let reason = sorted.unexpected(&[open("c1")]).expect("a reason");
        assert!(reason.contains("`c2`") && reason.ends_with("open: `c1`") && !sorted.may_continue(&[]), "{reason}");
        let more = json!({ "id": "u2", "role": "user", "content": "Go on." });
        let sorted = sort(&json!([tool("t1", "c2", "again"), more]), &[]).expect("messages");
        assert_eq!((sorted.unexpected(&[]), sorted.new.len()), (None, 1));
    }

    #[test]
    fn result_of_an_unknown_call_is_refused() {
        assert_eq!(
            sort(&json!([tool("t1", "c9", "")]), &[]),
            Err("`messages[0]`: the thread has no call `c9`".to_owned())
        );
        // A client may send its own conversation.
        let call = json!({ "id": "a9", "role": "assistant", "toolCalls": [{ "id": "c9" }] });
        assert_eq!(sort(&json!([call, tool("t1", "c9", "")]), &[]).expect("messages").new.len(), 2);
    }

    #[test]
    fn new_message_withdraws_calls_but_not_other_questions() {
        let sorted = sort(&json!([{ "id": "u2", "role": "user", "content": "Never mind." }]), &[open("c1")]);
        let sorted = sorted.expect("messages");
        assert!(sorted.may_continue(&[open("c1")]));
        assert!(!sorted.may_continue(&[open("c1"), PendingQuestion { id: "q".to_owned(), name: None, call: None }]));
    }
}
