//! The sources of Gemini's answers.

use hier_agents::Citation;
use serde_json::Value;

use super::shared::{field, list, text};
use crate::draft::{AnswerDraft, Passage};

/// The kinds of sources: pages of the web, passages of uploaded files, and places.
const KINDS: [&str; 3] = ["web", "retrievedContext", "maps"];

/// Reads the sources of a text that has been read. A later chunk of a stream repeats the sources of earlier chunks.
pub(super) fn read(draft: &mut AnswerDraft, metadata: &Value) {
    let sources: Vec<Citation> = list(metadata, "groundingChunks").iter().map(source).collect();
    if sources.is_empty() {
        return;
    }
    draft.clear_citations();
    let supports = list(metadata, "groundingSupports");
    for support in supports {
        let segment = field(support, "segment");
        let start = segment.get("startIndex").and_then(Value::as_u64).and_then(|start| start.try_into().ok());
        let numbers = list(support, "groundingChunkIndices").iter().filter_map(Value::as_u64);
        let named = numbers.filter_map(|number| sources.get(usize::try_from(number).ok()?));
        for source in named {
            draft.cite(source.clone(), Passage::Words(text(segment, "text").to_owned(), start.unwrap_or_default()));
        }
    }
    if supports.is_empty() {
        for source in sources {
            draft.cite(source, Passage::Unknown);
        }
    }
}

fn source(chunk: &Value) -> Citation {
    let source = KINDS.iter().find_map(|kind| chunk.get(kind)).unwrap_or(&Value::Null);
    let owned = |name: &str| Some(text(source, name).to_owned()).filter(|text| !text.is_empty());
    let mut citation = Citation::default();
    citation.url = owned("uri");
    citation.title = owned("title");
    citation.cited_text = owned("text");
    citation
}
