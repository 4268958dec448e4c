//! What stands in a model's text: `provider:name`, or a URL with the model's name behind `#`.

use crate::error::ParseModelError;
use crate::secret::shown;
use crate::wire::{ALL, Wire};

/// Where a model is.
pub(crate) enum Address<'a> {
    Provider(&'static dyn Wire, &'a str),
    Url(&'a str, &'a str),
}

/// Reads a model's text.
pub(crate) fn parse(text: &str) -> Result<Address<'_>, ParseModelError> {
    let wrong = |reason: String| ParseModelError { text: shown(text), reason };
    if text.starts_with("http://") || text.starts_with("https://") {
        let (url, name) = text.split_once('#').unwrap_or((text, "default"));
        if name.is_empty() {
            return Err(wrong("behind `#` stands the model's name".to_owned()));
        }
        return Ok(Address::Url(url, name));
    }
    let Some((provider, name)) = text.split_once(':') else {
        return Err(wrong("it needs its provider: `openai:gpt-4o`, `anthropic:…`, `ollama:…`, or a URL".to_owned()));
    };
    let Some(wire) = ALL.into_iter().find(|wire| wire.name() == provider) else {
        let hint = hier_spec::did_you_mean(provider, ALL.map(Wire::name));
        return Err(wrong(format!("the provider `{provider}` is not known{hint}")));
    };
    if name.is_empty() {
        return Err(wrong(format!("behind `{provider}:` stands the model's name")));
    }
    Ok(Address::Provider(wire, name))
}

/// An address with a path behind it, in front of its query.
pub(crate) fn join(url: &str, path: &str) -> String {
    let (front, query) = url.split_at(url.find('?').unwrap_or(url.len()));
    format!("{}/{path}{query}", front.trim_end_matches('/'))
}
