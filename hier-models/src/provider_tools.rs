//! Tools that the provider runs: web search, code execution, and search in the provider's files.

use crate::error::ModelFailure;

/// Options of a provider's web search, for [`Model::web_search`](crate::Model::web_search). If the provider does not
/// support an option, requests fail with [`ModelError::Refused`](hier_agents::ModelError::Refused).
///
/// ```
/// use hier_models::{Model, SearchLocation, WebSearch};
///
/// let berlin = SearchLocation::new().country("DE").city("Berlin");
/// let search = WebSearch::new().max_uses(3).allowed_domains(["docs.rs", "rust-lang.org"]).location(berlin);
/// let model = Model::anthropic("claude-sonnet-4-5").web_search(search);
/// # let _ = model;
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct WebSearch {
    pub(crate) max_uses: Option<u32>,
    pub(crate) allowed_domains: Vec<String>,
    pub(crate) blocked_domains: Vec<String>,
    pub(crate) location: Option<SearchLocation>,
}

impl WebSearch {
    /// Creates a web search without limits, in all domains and for no particular location.
    pub fn new() -> Self {
        Self::default()
    }

    /// Limits the number of searches per reply. Supported by Anthropic.
    pub fn max_uses(self, max_uses: u32) -> Self {
        Self { max_uses: Some(max_uses), ..self }
    }

    /// Restricts the search to these domains. Write a domain like `docs.rs`, without `https://`. Supported by Anthropic
    /// and OpenAI. Anthropic does not accept both this option and [`blocked_domains`](Self::blocked_domains).
    pub fn allowed_domains<D: Into<String>>(self, domains: impl IntoIterator<Item = D>) -> Self {
        Self { allowed_domains: domains.into_iter().map(Into::into).collect(), ..self }
    }

    /// Excludes these domains. Write a domain like `docs.rs`, without `https://`. Supported by Anthropic and OpenAI.
    /// Anthropic does not accept both this option and [`allowed_domains`](Self::allowed_domains).
    pub fn blocked_domains<D: Into<String>>(self, domains: impl IntoIterator<Item = D>) -> Self {
        Self { blocked_domains: domains.into_iter().map(Into::into).collect(), ..self }
    }

    /// Sets the location of the user. The search prefers results for this location. Supported by Anthropic and OpenAI.
    pub fn location(self, location: SearchLocation) -> Self {
        Self { location: Some(location), ..self }
    }
}

/// The approximate location of the user.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct SearchLocation {
    pub(crate) city: Option<String>,
    pub(crate) region: Option<String>,
    pub(crate) country: Option<String>,
    pub(crate) timezone: Option<String>,
}

impl SearchLocation {
    /// Creates a location without any details.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the city.
    pub fn city(self, city: impl Into<String>) -> Self {
        Self { city: Some(city.into()), ..self }
    }

    /// Sets the region or state.
    pub fn region(self, region: impl Into<String>) -> Self {
        Self { region: Some(region.into()), ..self }
    }

    /// Sets the country by its two-letter code, such as `DE`.
    pub fn country(self, country: impl Into<String>) -> Self {
        Self { country: Some(country.into()), ..self }
    }

    /// Sets the time zone by its IANA name, such as `Europe/Berlin`.
    pub fn timezone(self, timezone: impl Into<String>) -> Self {
        Self { timezone: Some(timezone.into()), ..self }
    }
}

/// Options of a provider's search in uploaded files, for [`Model::file_search`](crate::Model::file_search).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileSearch {
    pub(crate) stores: Vec<String>,
    pub(crate) max_results: Option<u32>,
}

impl FileSearch {
    /// Creates a search in these stores. For OpenAI, give the ids of vector stores. For Gemini, give the names of file
    /// search stores.
    pub fn new<S: Into<String>>(stores: impl IntoIterator<Item = S>) -> Self {
        Self { stores: stores.into_iter().map(Into::into).collect(), max_results: None }
    }

    /// Limits the number of passages per search. Defaults to the provider's limit.
    #[must_use]
    pub fn max_results(self, max_results: u32) -> Self {
        Self { max_results: Some(max_results), ..self }
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct ProviderTools {
    pub(crate) web_search: Option<WebSearch>,
    pub(crate) code_execution: bool,
    pub(crate) file_search: Option<FileSearch>,
}

/// The settings of the tools, with the constructors of models that have them.
const SEARCH: (&str, &str) = ("web_search", "`Model::anthropic`, `Model::responses` or `Model::gemini`");
const CODE: (&str, &str) = ("code_execution", "`Model::anthropic`, `Model::responses` or `Model::gemini`");
const FILES: (&str, &str) = ("file_search", "`Model::responses` or `Model::gemini`");

impl ProviderTools {
    /// Fails if a tool is declared. The API has no such tools.
    pub(crate) fn refuse_all(&self, api: &str) -> Result<(), ModelFailure> {
        refuse(api, SEARCH, self.web_search.is_some())?;
        refuse(api, CODE, self.code_execution)?;
        self.refuse_file_search(api)
    }

    pub(crate) fn refuse_file_search(&self, api: &str) -> Result<(), ModelFailure> {
        refuse(api, FILES, self.file_search.is_some())
    }
}

fn refuse(api: &str, (setting, others): (&str, &str), is_declared: bool) -> Result<(), ModelFailure> {
    if !is_declared {
        return Ok(());
    }
    Err(ModelFailure::refused(format!(
        "{api} has no tool `{setting}`: remove `.{setting}(…)` from the model, or use {others}"
    )))
}

/// Fails if one of these options is set. The provider lacks them.
pub(crate) fn refuse_tool_options(provider: &str, tool: &str, options: &[(&str, bool)]) -> Result<(), ModelFailure> {
    match options.iter().find(|(_, is_set)| *is_set) {
        None => Ok(()),
        Some((option, _)) => Err(ModelFailure::refused(format!(
            "{provider} has no option `{option}` of `{tool}`: remove it from the `{tool}`"
        ))),
    }
}
