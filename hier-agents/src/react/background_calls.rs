//! The calls of a reply that end background subagents.

use std::borrow::Cow;
use std::collections::BTreeSet;

use hier_spec::agent::{CANCEL_SUBAGENT, CHECK_SUBAGENTS, WAIT_FOR_SUBAGENTS};
use serde_json::Value;

use super::background_specs::specs;
use crate::coercion;
use crate::state::base::BaseState;
use hier_checkpoint::message::ToolCall;

/// Returns the arguments of a call, converted to the types of the tool's schema where their meaning is clear.
pub(super) fn args_of(call: &ToolCall) -> Cow<'_, Value> {
    let spec = specs().into_iter().find(|spec| spec.name == call.name);
    let meant = spec.and_then(|spec| coercion::coerced(&call.args, &spec.parameters));
    meant.map_or(Cow::Borrowed(&call.args), Cow::Owned)
}

pub(super) fn handle_in(args: &Value) -> Result<&str, String> {
    args.get("handle").and_then(Value::as_str).ok_or_else(|| "`handle` must be a string".to_owned())
}

/// Returns the handles in the arguments of a call. Returns `None` if the call is about all running subagents.
pub(super) fn handles_in(args: &Value) -> Result<Option<BTreeSet<&str>>, String> {
    // The arguments of a call that was cut off are a text.
    if args.is_string() {
        return Err("the arguments must be a JSON object".to_owned());
    }
    let Some(handles) = args.get("handles").filter(|handles| !handles.is_null()) else { return Ok(None) };
    let handles = handles.as_array().and_then(|handles| handles.iter().map(Value::as_str).collect());
    handles.map(Some).ok_or_else(|| "`handles` must be a list of strings".to_owned())
}

fn is_collecting(call: &ToolCall) -> bool {
    [CHECK_SUBAGENTS, WAIT_FOR_SUBAGENTS].contains(&&*call.name)
}

/// Returns true if the call collects reports and its handles are valid.
pub(super) fn collects(call: &ToolCall) -> bool {
    is_collecting(call) && handles_in(&args_of(call)).is_ok()
}

/// The open calls of the model's last reply that end background subagents.
///
/// Exactly one call records the end of a subagent: the first call that cancels the subagent, or else the first call
/// that collects reports. Until the step is applied, the state does not have the record, and tasks that run again must
/// not start the subagent.
#[derive(Default)]
pub(super) struct EndingCalls {
    /// The id of each call that cancels a subagent, with the handle of the subagent.
    cancelling: Vec<(String, String)>,
    /// The subagents of the first call that collects reports.
    collecting: Option<Handles>,
}

enum Handles {
    All,
    These(BTreeSet<String>),
}

impl EndingCalls {
    pub(super) fn of(base: &BaseState) -> Self {
        let open = base.open_calls();
        let cancelling = open.iter().filter(|call| call.name == CANCEL_SUBAGENT);
        let cancelling =
            cancelling.filter_map(|call| Some((call.id.clone(), handle_in(&args_of(call)).ok()?.to_owned())));
        let collecting = open.iter().filter(|call| is_collecting(call)).find_map(|call| {
            let args = args_of(call);
            let handles = handles_in(&args).ok()?;
            let named = |handles: BTreeSet<&str>| Handles::These(handles.into_iter().map(str::to_owned).collect());
            Some(handles.map_or(Handles::All, named))
        });
        Self { cancelling: cancelling.collect(), collecting }
    }

    /// Returns the id of the first call that cancels a subagent.
    pub(super) fn cancelling(&self, handle: &str) -> Option<&str> {
        self.cancelling.iter().find(|(_, cancelled)| cancelled == handle).map(|(id, _)| &**id)
    }

    /// Returns true if one of the calls may end a subagent.
    pub(super) fn ends(&self, handle: &str) -> bool {
        let is_collected = match &self.collecting {
            None => false,
            Some(Handles::All) => true,
            Some(Handles::These(handles)) => handles.contains(handle),
        };
        is_collected || self.cancelling(handle).is_some()
    }
}
