//! Typed replies: the JSON in the text of a model.

use serde::de::DeserializeOwned;
use serde_json::error::Category;

use super::ChatResponse;

/// The error for a model's reply that is not of the requested type.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the reply of the model `{model}` cannot be used: {reason}")]
pub struct BadAnswer {
    /// The name of the model, or `unknown` if the provider does not report it.
    pub model: String,
    /// The path of the invalid part, and the beginning of the reply.
    pub reason: String,
}

impl ChatResponse {
    /// Deserializes the text of the reply, which must be JSON.
    ///
    /// # Errors
    ///
    /// Fails if the text is not the JSON of a `T`. The error names the invalid part.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, BadAnswer> {
        let text = self.text();
        read(&text).map_err(|reason| BadAnswer {
            model: self.model.clone().unwrap_or_else(|| "unknown".to_owned()),
            reason: format!("{reason}; the model replied {}", quoted(&text)),
        })
    }
}

/// Parses the text of a model as JSON. The text may be in a Markdown code block. The error contains the path of the
/// invalid part.
#[doc(hidden)]
pub fn read<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    let text = text.trim();
    // Some models put JSON into a block of code.
    let inner = text.strip_prefix("```").and_then(|rest| rest.strip_suffix("```"));
    let inner = inner.map_or(text, |inner| inner.strip_prefix("json").unwrap_or(inner));
    let mut deserializer = serde_json::Deserializer::from_str(inner);
    let value = serde_path_to_error::deserialize(&mut deserializer).map_err(|error| misfit(&error))?;
    deserializer.end().map_err(|error| format!("there is more than one value: {error}"))?;
    Ok(value)
}

fn misfit(error: &serde_path_to_error::Error<serde_json::Error>) -> String {
    let (path, inner) = (error.path().to_string(), error.inner());
    match (inner.classify(), &*path) {
        (Category::Syntax | Category::Eof, _) => format!("it is not JSON: {inner}"),
        (_, ".") => inner.to_string(),
        _ => format!("`{path}`: {inner}"),
    }
}

/// The longest part of a model's text in an error, in characters.
const SHOWN: usize = 1000;

/// Quotes the text of a model in an error message. Keeps at most the first 1,000 characters.
#[doc(hidden)]
pub fn quoted(text: &str) -> String {
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("`{}…`", &text[..end]),
        None if text.is_empty() => "nothing".to_owned(),
        None => format!("`{text}`"),
    }
}
