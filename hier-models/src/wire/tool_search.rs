//! The providers' searches for tools. In a conversation, the parts of a search refer to tools by name.
//!
//! A provider refuses a conversation that refers to tools which the request does not have, or to a search that the
//! request does not declare. A conversation may outlive the tools of a server, and a model without a search may
//! continue it.

use hier_agents::ToolSpec;
use serde_json::{Value, json};

use super::WireRequest;
use super::shared::text;

/// The tools that the provider finds for the model.
pub(super) struct DeferredTools<'a>(&'a WireRequest<'a>);

impl<'a> DeferredTools<'a> {
    pub(super) fn of(wire_request: &'a WireRequest<'a>) -> Self {
        Self(wire_request)
    }

    /// Returns true if the request declares the search.
    pub(super) fn exist(&self) -> bool {
        self.0.request.tools.iter().any(|spec| self.defers(spec))
    }

    fn defers(&self, spec: &ToolSpec) -> bool {
        self.0.searches_tools && self.0.request.deferred.contains(&spec.name)
    }

    /// Marks a tool that the provider finds.
    pub(super) fn mark(&self, spec: &ToolSpec, mut tool: Value) -> Value {
        if self.defers(spec) {
            tool["defer_loading"] = json!(true);
        }
        tool
    }

    /// Removes the blocks of searches if the request declares no search, and otherwise the found tools that the request
    /// does not have. Anthropic refuses both.
    pub(super) fn clean_blocks(&self, messages: &mut Vec<Value>) {
        let is_searched = self.exist();
        for message in messages.iter_mut() {
            let Some(blocks) = message.get_mut("content").and_then(Value::as_array_mut) else { continue };
            blocks.retain(|block| is_searched || !is_search_block(block));
            for block in blocks.iter_mut().filter(|block| is_search_block(block)) {
                if let Some(found) = block.pointer_mut("/content/tool_references") {
                    self.retain_tools(found, "tool_name");
                }
            }
        }
        messages.retain(|message| message["content"] != json!([]));
    }

    /// Removes the items of searches if the request declares no search, found tools that the request does not have, and
    /// the namespaces of calls of tools that are not deferred. `OpenAI` refuses all of these.
    pub(super) fn clean_items(&self, items: &mut Vec<Value>) {
        let is_searched = self.exist();
        items.retain(|item| is_searched || !is_search_item(item));
        for item in items {
            if is_search_item(item)
                && let Some(found) = item.get_mut("tools")
            {
                self.retain_tools(found, "name");
            }
            let name = text(item, "name");
            // The namespace of a deferred tool has the name of the tool.
            let is_own = !name.is_empty() && text(item, "namespace") == name;
            let is_deferred = self.0.request.tools.iter().any(|spec| spec.name == name && self.defers(spec));
            if is_own
                && !is_deferred
                && let Some(item) = item.as_object_mut()
            {
                item.remove("namespace");
            }
        }
    }

    /// Removes the tools that the request does not have.
    fn retain_tools(&self, found: &mut Value, name: &str) {
        if let Value::Array(found) = found {
            found.retain(|tool| self.0.request.tools.iter().any(|spec| spec.name == text(tool, name)));
        }
    }
}

fn is_search_block(block: &Value) -> bool {
    let is_call = text(block, "type") == "server_tool_use" && text(block, "name").starts_with("tool_search_tool");
    is_call || text(block, "type") == "tool_search_tool_result"
}

fn is_search_item(item: &Value) -> bool {
    matches!(text(item, "type"), "tool_search_call" | "tool_search_output")
}

/// Returns true for the models of `OpenAI` that search tools: those from `gpt-5.4` on, except the `nano` models.
pub(super) fn is_in_openai(model: &str) -> bool {
    let version = |model: &str| {
        let (version, _) = model.strip_prefix("gpt-")?.split_once('-').unwrap_or((&model[4..], ""));
        let (major, minor) = version.split_once('.').unwrap_or((version, "0"));
        Some((major.parse::<u32>().ok()?, minor.parse::<u32>().ok()?))
    };
    version(model).is_some_and(|version| version >= (5, 4)) && !model.contains("nano")
}

#[cfg(test)]
mod tests {
    use super::is_in_openai;

    #[test]
    fn openai_searches_tools_from_one_version_on() {
        for model in ["gpt-5.4", "gpt-5.4-mini", "gpt-5.10-2026-09-01", "gpt-6"] {
            assert!(is_in_openai(model), "{model}");
        }
        for model in ["gpt-5", "gpt-5-chat-latest", "gpt-5.3-codex", "gpt-5.4-nano", "gpt-4.1", "gpt-", "o3", "m"] {
            assert!(!is_in_openai(model), "{model}");
        }
    }
}
