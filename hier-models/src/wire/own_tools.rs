//! The declarations of the providers' own tools.

use std::time::SystemTime;

use chrono::{DateTime, Utc};
use serde_json::{Value, json};

use super::shared::{pick_fields, set, set_list, set_object, set_text, text};
use super::tool_search::DeferredTools;
use super::{WireRequest, thinking};
use crate::conversation::{ConversationTurn, WireConversation};
use crate::draft::AnswerDraft;
use crate::error::ModelFailure;
use crate::provider_tools::{SearchLocation, refuse_tool_options};

/// The names of Anthropic's tools, which share one namespace with the program's.
const SEARCH: &str = "web_search";
const CODE: &str = "code_execution";
const TOOL_SEARCH: &str = "tool_search_tool_bm25";

/// Returns Anthropic's tools, in the versions that all models accept.
pub(super) fn anthropic(wire_request: &WireRequest<'_>) -> Result<Vec<Value>, ModelFailure> {
    let WireRequest { tools, request, .. } = *wire_request;
    tools.refuse_file_search("Anthropic")?;
    let declared = [(SEARCH, tools.web_search.is_some()), (CODE, tools.code_execution)];
    let is_taken = |name: &str| request.tools.iter().any(|spec| spec.name == name);
    let searches_tools = DeferredTools::of(wire_request).exist();
    if searches_tools && is_taken(TOOL_SEARCH) {
        return Err(ModelFailure::refused(format!(
            "the program and Anthropic have a tool `{TOOL_SEARCH}`: rename the program's, or set `.with_tool_search(false)`"
        )));
    }
    if let Some((name, _)) = declared.into_iter().find(|(name, is_declared)| *is_declared && is_taken(name)) {
        return Err(ModelFailure::refused(format!(
            "the program and Anthropic have a tool `{name}`: rename the program's, or remove `.{name}(…)` from the model"
        )));
    }
    let mut all = Vec::new();
    if let Some(search) = &tools.web_search {
        if !search.allowed_domains.is_empty() && !search.blocked_domains.is_empty() {
            return Err(ModelFailure::refused(
                "Anthropic's web search accepts `allowed_domains` or `blocked_domains`: remove one of them",
            ));
        }
        let mut tool = json!({ "type": "web_search_20250305", "name": SEARCH });
        set(&mut tool, "max_uses", search.max_uses);
        set_list(&mut tool, "allowed_domains", &search.allowed_domains);
        set_list(&mut tool, "blocked_domains", &search.blocked_domains);
        set(&mut tool, "user_location", search.location.as_ref().map(location));
        all.push(tool);
    }
    if tools.code_execution {
        all.push(json!({ "type": "code_execution_20250825", "name": CODE }));
    }
    if searches_tools {
        all.push(json!({ "type": "tool_search_tool_bm25_20251119", "name": TOOL_SEARCH }));
    }
    Ok(all)
}

/// The field with the sandbox in which Anthropic ran code. The next request names the sandbox, so that its files still
/// exist.
const CONTAINER: &str = "container";

/// Keeps the sandbox of an answer.
pub(super) fn keep_container(draft: &mut AnswerDraft, message: &Value) {
    if let Some(container) = message.get(CONTAINER).filter(|container| !text(container, "id").is_empty()) {
        draft.keep_message_fields(json!({ CONTAINER: pick_fields(container, &["id", "expires_at"]) }));
    }
}

/// Returns the id of the last sandbox, unless it has expired.
pub(super) fn container(conversation: &WireConversation<'_>, now: SystemTime) -> Option<String> {
    let last = conversation.turns.iter().rev().find_map(|turn| match turn {
        ConversationTurn::Model(turn) => turn.all_thoughts().find_map(|thought| thought.data.get(CONTAINER)),
        ConversationTurn::User(_) => None,
    })?;
    let expires = DateTime::parse_from_rfc3339(text(last, "expires_at")).ok()?;
    (expires > DateTime::<Utc>::from(now)).then(|| text(last, "id").to_owned())
}

/// Returns the tools of OpenAI's responses API.
pub(super) fn responses(wire_request: &WireRequest<'_>) -> Result<Vec<Value>, ModelFailure> {
    let tools = wire_request.tools;
    let mut all = Vec::new();
    if let Some(search) = &tools.web_search {
        refuse_tool_options("OpenAI", "WebSearch", &[("max_uses", search.max_uses.is_some())])?;
        let mut filters = json!({});
        set_list(&mut filters, "allowed_domains", &search.allowed_domains);
        set_list(&mut filters, "blocked_domains", &search.blocked_domains);
        let mut tool = json!({ "type": "web_search" });
        set_object(&mut tool, "filters", filters);
        set(&mut tool, "user_location", search.location.as_ref().map(location));
        all.push(tool);
    }
    if tools.code_execution {
        all.push(json!({ "type": "code_interpreter", "container": { "type": "auto" } }));
    }
    if let Some(search) = &tools.file_search {
        let mut tool = json!({ "type": "file_search", "vector_store_ids": search.stores });
        set(&mut tool, "max_num_results", search.max_results);
        all.push(tool);
    }
    if DeferredTools::of(wire_request).exist() {
        all.push(json!({ "type": "tool_search" }));
    }
    Ok(all)
}

pub(super) fn gemini(wire_request: &WireRequest<'_>) -> Result<Vec<Value>, ModelFailure> {
    let WireRequest { model, tools, request, .. } = *wire_request;
    let mut all = Vec::new();
    if let Some(search) = &tools.web_search {
        let options = [
            ("max_uses", search.max_uses.is_some()),
            ("allowed_domains", !search.allowed_domains.is_empty()),
            ("blocked_domains", !search.blocked_domains.is_empty()),
            ("location", search.location.is_some()),
        ];
        refuse_tool_options("Gemini", "WebSearch", &options)?;
        all.push(json!({ "googleSearch": {} }));
    }
    if tools.code_execution {
        all.push(json!({ "codeExecution": {} }));
    }
    if let Some(search) = &tools.file_search {
        let mut options = json!({ "fileSearchStoreNames": search.stores });
        set(&mut options, "topK", search.max_results);
        all.push(json!({ "fileSearch": options }));
    }
    if !all.is_empty() && !request.tools.is_empty() && thinking::is_older_gemini(model) {
        return Err(ModelFailure::refused(format!(
            "`{model}` accepts either the program's tools or the provider's: use a model from Gemini 3 on, or remove one kind"
        )));
    }
    Ok(all)
}

fn location(location: &SearchLocation) -> Value {
    let mut value = json!({ "type": "approximate" });
    for (name, part) in [
        ("city", &location.city),
        ("region", &location.region),
        ("country", &location.country),
        ("timezone", &location.timezone),
    ] {
        set_text(&mut value, name, part.as_deref().unwrap_or_default());
    }
    value
}
