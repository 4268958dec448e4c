//! Parses the text that names a model: `provider:name`, or a URL with the model's name after `#`.

use crate::error::ParseModelError;
use crate::secret::redacted_url;

/// The address of a model. `D` is the dialect, or the embedding API.
pub(crate) enum ModelAddress<'a, D> {
    Provider(D, &'a str),
    /// The dialect if the text names one, the URL, and the model's name.
    Url(Option<D>, &'a str, &'a str),
}

/// Parses a model's text. `dialects` maps their names to the dialects.
pub(crate) fn parse<'a, D: Copy>(
    text: &'a str,
    dialects: &[(&'static str, D)],
) -> Result<ModelAddress<'a, D>, ParseModelError> {
    let error = |reason: String| ParseModelError { text: redacted_url(text), reason };
    let find = |name: &str| {
        let known = dialects.iter().find(|(known, _)| *known == name).map(|(_, dialect)| *dialect);
        known.ok_or_else(|| {
            let hint = hier_spec::did_you_mean(name, dialects.iter().map(|(known, _)| *known));
            error(format!("unknown provider `{name}`{hint}"))
        })
    };
    if let Some((scheme, _)) = text.split_once("://") {
        let (dialect, url) = match scheme.rsplit_once('+') {
            Some((dialect, _)) => (Some(find(dialect)?), &text[dialect.len() + 1..]),
            None => (None, text),
        };
        if !url.starts_with("http://") && !url.starts_with("https://") {
            return Err(error("a URL must start with `http://` or `https://`".to_owned()));
        }
        let (url, name) = url.split_once('#').unwrap_or((url, "default"));
        if name.is_empty() {
            return Err(error("add the model's name after `#`".to_owned()));
        }
        return Ok(ModelAddress::Url(dialect, url, name));
    }
    let Some((provider, name)) = text.split_once(':') else {
        return Err(error("no provider: write `openai:gpt-4o`, `anthropic:…`, `ollama:…`, or a URL".to_owned()));
    };
    let dialect = find(provider)?;
    if name.is_empty() {
        return Err(error(format!("add the model's name after `{provider}:`")));
    }
    Ok(ModelAddress::Provider(dialect, name))
}

/// Appends a path to a URL, in front of its query. The path may also have a query.
pub(crate) fn join(url: &str, path: &str) -> String {
    let (front, query) = url.split_once('?').unwrap_or((url, ""));
    let (path, more) = path.split_once('?').unwrap_or((path, ""));
    let queries: Vec<&str> = [query, more].into_iter().filter(|query| !query.is_empty()).collect();
    let mark = if queries.is_empty() { "" } else { "?" };
    format!("{}/{path}{mark}{}", front.trim_end_matches('/'), queries.join("&"))
}
