//! URI templates of resources. Supports the part of RFC 6570 with which a URI can be matched and its parameters read.

use std::collections::BTreeSet;
use std::error::Error;

use axum::extract::Query;
use axum::http::Uri;
use serde::de::DeserializeOwned;

/// A URI whose parameters are in braces, such as `shop://orders/{number}`.
#[derive(Clone, Debug)]
pub(crate) struct UriTemplate {
    /// The text before each parameter, and the parameter's name.
    parameters: Vec<(String, String)>,
    /// The text after the last parameter.
    end: String,
}

impl UriTemplate {
    /// Reads a template. The error describes the mistake.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let (mut parameters, mut rest, mut known) = (Vec::<(String, String)>::new(), text, BTreeSet::new());
        while let Some((before, after)) = rest.split_once('{') {
            let (name, after) = after.split_once('}').ok_or("a `{` has no `}`")?;
            let is_name =
                !name.is_empty() && name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_');
            if !is_name {
                return Err(format!("`{{{name}}}` is not a parameter: names have letters, digits and underscores"));
            }
            if !known.insert(name) {
                return Err(format!("it has two parameters `{name}`: rename one"));
            }
            if before.is_empty() && !parameters.is_empty() {
                return Err(format!("there must be a text before `{{{name}}}`"));
            }
            parameters.push((before.to_owned(), name.to_owned()));
            rest = after;
        }
        if parameters.is_empty() {
            return Err("it has no parameters: use `ServedResource::reading`".to_owned());
        }
        Ok(Self { parameters, end: rest.to_owned() })
    }

    /// Returns the parameters of a URI as a query, or `None` if the URI does not match. A parameter has at least one
    /// character, and ends before the next text of the template.
    pub(crate) fn read(&self, uri: &str) -> Option<String> {
        let mut rest = uri.strip_suffix(&*self.end)?.strip_prefix(&*self.parameters.first()?.0)?;
        let mut query = Vec::new();
        let next = self.parameters.iter().skip(1).map(|(before, _)| Some(before)).chain([None]);
        for ((_, name), next) in self.parameters.iter().zip(next) {
            let value = match next {
                Some(text) => {
                    let (value, after) = rest.split_once(&**text)?;
                    rest = after;
                    value
                }
                None => rest,
            };
            if value.is_empty() || value.contains(['/', '?', '#']) {
                return None;
            }
            // Both characters have a special meaning in queries.
            query.push(format!("{name}={}", value.replace('&', "%26").replace('+', "%2B")));
        }
        Some(query.join("&"))
    }
}

/// Reads parameters from a query. The error describes what is wrong.
pub(crate) fn parameters<T: DeserializeOwned>(query: &str) -> Result<T, String> {
    let uri: Uri = format!("/?{query}").parse().map_err(|_| "a parameter has an invalid character".to_owned())?;
    let read = Query::try_from_uri(&uri);
    read.map(|Query(read)| read).map_err(|error| error.source().map_or_else(|| error.to_string(), ToString::to_string))
}
