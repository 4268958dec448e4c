//! Whom a model speaks with, and how.

use genai::adapter::AdapterKind;

use crate::error::ParseModelError;

/// The way a server is spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    OpenAi,
    Anthropic,
    Ollama,
}

const ALL: [Dialect; 3] = [Dialect::OpenAi, Dialect::Anthropic, Dialect::Ollama];

impl Dialect {
    /// As OpenTelemetry's conventions spell it, and as [`Model::parse`](crate::Model::parse) takes it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::OpenAi => "openai",
            Self::Anthropic => "anthropic",
            Self::Ollama => "ollama",
        }
    }

    /// Where the provider itself is.
    pub(crate) fn url(self) -> &'static str {
        match self {
            Self::OpenAi => "https://api.openai.com/v1/",
            Self::Anthropic => "https://api.anthropic.com/v1/",
            Self::Ollama => "http://localhost:11434/",
        }
    }

    /// The environment variable that has the provider's key.
    pub(crate) fn key_variable(self) -> Option<&'static str> {
        match self {
            Self::OpenAi => Some("OPENAI_API_KEY"),
            Self::Anthropic => Some("ANTHROPIC_API_KEY"),
            Self::Ollama => None,
        }
    }

    pub(crate) fn adapter(self, has_key: bool) -> AdapterKind {
        match self {
            Self::OpenAi => AdapterKind::OpenAI,
            Self::Anthropic => AdapterKind::Anthropic,
            // The same protocol; only the second sends a key, which a server behind a proxy may want.
            Self::Ollama if has_key => AdapterKind::OllamaCloud,
            Self::Ollama => AdapterKind::Ollama,
        }
    }
}

/// What stands in a model's text: `provider:name`, or a URL with the model's name behind `#`.
pub(crate) enum Address<'a> {
    Provider(Dialect, &'a str),
    Url(&'a str, &'a str),
}

/// Reads a model's text.
pub(crate) fn parse(text: &str) -> Result<Address<'_>, ParseModelError> {
    let wrong = |reason: String| ParseModelError { text: without_secrets(text), reason };
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
    let Some(dialect) = ALL.into_iter().find(|dialect| dialect.name() == provider) else {
        let hint = hier_spec::did_you_mean(provider, ALL.map(Dialect::name));
        return Err(wrong(format!("the provider `{provider}` is not known{hint}")));
    };
    if name.is_empty() {
        return Err(wrong(format!("behind `{provider}:` stands the model's name")));
    }
    Ok(Address::Provider(dialect, name))
}

/// A URL as it may be shown: without a user's name and password, and without its query.
pub(crate) fn without_secrets(url: &str) -> String {
    let url = url.split_once('?').map_or(url, |(front, _)| front);
    match url.split_once("://") {
        Some((scheme, rest)) => {
            let host = rest.find('/').unwrap_or(rest.len());
            let from = rest[..host].rfind('@').map_or(0, |at| at + 1);
            format!("{scheme}://{}", &rest[from..])
        }
        None => url.to_owned(),
    }
}
