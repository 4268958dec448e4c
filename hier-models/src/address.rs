//! What stands in a model's text: `provider:name`, or a URL with the model's name behind `#`.

use crate::error::ParseModelError;
use crate::secret::shown;

/// Where a model is, in the dialect of one of a list.
pub(crate) enum Address<'a, D> {
    Provider(D, &'a str),
    /// The dialect, if it is said.
    Url(Option<D>, &'a str, &'a str),
}

/// Reads a model's text. The dialects are listed by the names that they have there.
pub(crate) fn parse<'a, D: Copy>(
    text: &'a str,
    dialects: &[(&'static str, D)],
) -> Result<Address<'a, D>, ParseModelError> {
    let wrong = |reason: String| ParseModelError { text: shown(text), reason };
    let find = |name: &str| {
        let known = dialects.iter().find(|(known, _)| *known == name).map(|(_, dialect)| *dialect);
        known.ok_or_else(|| {
            let hint = hier_spec::did_you_mean(name, dialects.iter().map(|(known, _)| *known));
            wrong(format!("the provider `{name}` is not known{hint}"))
        })
    };
    if let Some((scheme, _)) = text.split_once("://") {
        let (dialect, url) = match scheme.rsplit_once('+') {
            Some((dialect, _)) => (Some(find(dialect)?), &text[dialect.len() + 1..]),
            None => (None, text),
        };
        if !url.starts_with("http://") && !url.starts_with("https://") {
            return Err(wrong("an address begins with `http://` or `https://`".to_owned()));
        }
        let (url, name) = url.split_once('#').unwrap_or((url, "default"));
        if name.is_empty() {
            return Err(wrong("behind `#` stands the model's name".to_owned()));
        }
        return Ok(Address::Url(dialect, url, name));
    }
    let Some((provider, name)) = text.split_once(':') else {
        return Err(wrong("it needs its provider: `openai:gpt-4o`, `anthropic:…`, `ollama:…`, or a URL".to_owned()));
    };
    let dialect = find(provider)?;
    if name.is_empty() {
        return Err(wrong(format!("behind `{provider}:` stands the model's name")));
    }
    Ok(Address::Provider(dialect, name))
}

/// An address with a path behind it, in front of its query. The path may have a query of its own.
pub(crate) fn join(url: &str, path: &str) -> String {
    let (front, query) = url.split_once('?').unwrap_or((url, ""));
    let (path, more) = path.split_once('?').unwrap_or((path, ""));
    let queries: Vec<&str> = [query, more].into_iter().filter(|query| !query.is_empty()).collect();
    let mark = if queries.is_empty() { "" } else { "?" };
    format!("{}/{path}{mark}{}", front.trim_end_matches('/'), queries.join("&"))
}
