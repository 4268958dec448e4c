//! Amazon Bedrock's Converse API, which is the same for the models of all makers.

mod answer;
mod content;
mod family;
mod files;
mod request;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;

use super::{ANTHROPIC, Dialect, DialectInfo, Framing, WireRequest, schema};
use crate::draft::AnswerDraft;
use crate::error::ModelFailure;
use family::claude_name;

pub(super) struct Bedrock;

/// The provider's name in messages.
const BEDROCK: &str = "Amazon Bedrock";
/// The characters of a model's id that are not escaped. The colons and slashes of an ARN would change the path.
const UNRESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
/// The key under which a block without a counterpart in hier is kept.
pub(crate) const BLOCK: &str = "converse_block";
/// The key of a text's sources.
const CITATIONS: &str = "converse_citations";

impl Dialect for Bedrock {
    fn info(&self) -> &DialectInfo {
        &DialectInfo {
            name: "bedrock",
            provider: "aws.bedrock",
            // Depends on the region.
            url: "",
            key_variable: Some("AWS_BEARER_TOKEN_BEDROCK"),
            path: "",
            framing: Framing::Frames,
        }
    }

    fn path(&self, model: &str, streamed: bool) -> String {
        let method = if streamed { "converse-stream" } else { "converse" };
        format!("model/{}/{method}", utf8_percent_encode(model, UNRESERVED))
    }

    /// Signatures of Anthropic's models are valid on every host. Signatures of other models are valid only for the same
    /// model.
    fn maker(&self, model: &str, url: &str) -> String {
        match claude_name(model) {
            Some(name) => ANTHROPIC.maker(name, url),
            None => format!("{}/{model}", self.info().name),
        }
    }

    fn obeys_schemas(&self, model: &str) -> bool {
        claude_name(model).is_some_and(family::obeys_schemas)
    }

    fn accepts_schema(&self, schema: &Value) -> bool {
        schema::ANTHROPIC.fit(schema).is_some()
    }

    fn context_tokens(&self, model: &str) -> Option<u64> {
        ANTHROPIC.context_tokens(claude_name(model)?)
    }

    fn body(&self, wire_request: &WireRequest<'_>) -> Result<Value, ModelFailure> {
        request::body(
            wire_request,
            wire_request.native_output.unwrap_or_else(|| self.obeys_schemas(wire_request.model)),
        )
    }

    fn read_answer(&self, draft: &mut AnswerDraft, answer: &Value) -> Result<(), ModelFailure> {
        answer::read_whole(draft, answer)
    }

    fn read_event(&self, draft: &mut AnswerDraft, event: &Value) -> Result<(), ModelFailure> {
        answer::read_event(draft, event)
    }
}
