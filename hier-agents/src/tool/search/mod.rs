//! The search for tools of agents with many tools. The model sees the names of the tools, and must find a tool with a
//! search before it can call the tool.
//!
//! The request decides which tools can be called. A call of a tool that the request did not contain is refused.

mod meaning;
mod provider;
mod rank;

use hier_spec::agent::SEARCH_TOOLS;
use serde_json::{Value, json};

pub(crate) use self::provider::ProviderSearch;
use self::rank::{WordBag, ranked};
use crate::coercion;
use crate::model::ToolSpec;
use crate::prompts;
use crate::state::found::FoundTools;
use hier_checkpoint::message::{Message, ToolCall};
use hier_checkpoint::store::Store;

/// The default of [`ToolSearch::above`].
pub const DEFAULT_SEARCH_ABOVE: usize = 30;

/// The default of [`ToolSearch::results`].
pub const DEFAULT_SEARCH_RESULTS: usize = 5;

/// The weight of the words in a tool's name. The other words have the weight `TEXT_WEIGHT`.
const NAME_WEIGHT: f64 = 3.0;
const TEXT_WEIGHT: f64 = 1.0;

/// The options of an agent's tool search: `search: true` or `search: ToolSearch { above: 20 }` in `graph!`.
///
/// If the agent has more tools than [`above`](Self::above), its requests contain a short list of the tools and the tool
/// `search_tools`, instead of the specs of all tools. When the model has found a tool, all later requests in the
/// conversation contain the tool. The agent always sends built-in tools and subagents, and does not count them.
///
/// **Search.** If the provider of the model searches tools ([`ChatModel::searches_tools`](crate::ChatModel)), the agent
/// leaves the search to the provider. If the graph's [store](hier_core::store::Store) searches by meaning, the search
/// uses the store. Otherwise the search ranks the tools by the words in their names, descriptions and arguments (BM25),
/// and leaves out tools with less than a third of the best score. If the query contains the name of a tool, that tool
/// comes first.
///
/// **List.** The list contains the names of all tools, and the first line of each description, cut after 80 characters.
/// It contains no descriptions of [`Toolset`](crate::Toolset) tools, because they can be untrusted text. If the list
/// exceeds 8,000 characters, it contains only names. A list of names is cut after 8,000 characters.
///
/// ```
/// use hier_agents::{AgentBuilder, ToolSearch};
/// use hier_agents::prelude::*;
///
/// let agent = AgentBuilder::<BaseState>::new("support").search(ToolSearch::new().above(20));
/// # let _ = agent;
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ToolSearch {
    /// The maximum number of tools that the agent sends without a search. If the agent has more tools, the model must
    /// search for them. Defaults to [`DEFAULT_SEARCH_ABOVE`].
    pub above: usize,
    /// The maximum number of tools that a search returns. Defaults to [`DEFAULT_SEARCH_RESULTS`].
    pub results: usize,
}

impl ToolSearch {
    /// Creates the options with their defaults.
    pub fn new() -> Self {
        Self { above: DEFAULT_SEARCH_ABOVE, results: DEFAULT_SEARCH_RESULTS }
    }

    /// Sets the maximum number of tools that the agent sends without a search. If the agent has more tools, the model
    /// must search for them. Subagents and built-in tools do not count. Defaults to [`DEFAULT_SEARCH_ABOVE`].
    #[must_use]
    pub fn above(self, above: usize) -> Self {
        Self { above, ..self }
    }

    /// Sets the maximum number of tools that a search returns. Must be at least 1. Defaults to
    /// [`DEFAULT_SEARCH_RESULTS`].
    #[must_use]
    pub fn results(self, results: usize) -> Self {
        Self { results, ..self }
    }
}

impl Default for ToolSearch {
    fn default() -> Self {
        Self::new()
    }
}

/// A value of the `search` option: `true`, `false` or a [`ToolSearch`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a setting of the search for tools",
    label = "not a setting of the search for tools",
    note = "write `search: true` or `search: ToolSearch {{ above: 20 }}`"
)]
pub trait IntoToolSearch {
    #[doc(hidden)]
    fn into_tool_search(self) -> Option<ToolSearch>;
}

impl IntoToolSearch for bool {
    fn into_tool_search(self) -> Option<ToolSearch> {
        self.then(ToolSearch::new)
    }
}

impl IntoToolSearch for ToolSearch {
    fn into_tool_search(self) -> Option<ToolSearch> {
        Some(self)
    }
}

/// Returns the description of the search for the model.
pub(crate) fn spec() -> ToolSpec {
    ToolSpec {
        name: SEARCH_TOOLS.to_owned(),
        description: "Finds tools by what they do or by their names. You can call the tools that it finds from your next answer on."
            .to_owned(),
        parameters: json!({
            "type": "object",
            "properties": {"query": {"type": "string", "description": "Words about the task, or names of tools."}},
            "required": ["query"],
        }),
    }
}

/// The tools that a model can find: the agent's own tools, followed by the tools of its toolsets.
pub(crate) struct SearchableTools<'a> {
    tools: Vec<&'a ToolSpec>,
    /// The number of the agent's own tools, whose descriptions the program has written.
    own: usize,
}

impl<'a> SearchableTools<'a> {
    pub(crate) fn new(
        own: &mut dyn Iterator<Item = &'a ToolSpec>,
        listed: &mut dyn Iterator<Item = &'a ToolSpec>,
    ) -> Self {
        let mut tools: Vec<&ToolSpec> = own.collect();
        let own = tools.len();
        tools.extend(listed);
        Self { tools, own }
    }

    /// Returns true if there are more tools than are sent without a search.
    pub(crate) fn exceed(&self, search: ToolSearch) -> bool {
        self.tools.len() > search.above
    }

    /// Returns true if the calls of this tool need a search that the model has not made.
    pub(crate) fn hide(&self, name: &str, found: &FoundTools) -> bool {
        !found.contains(name) && self.names().any(|known| known == name)
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &'a str> + Clone {
        self.tools.iter().map(|tool| &*tool.name)
    }

    /// Returns the tools that were found and still exist, in the order in which they were found.
    pub(crate) fn found(&self, found: &FoundTools) -> Vec<ToolSpec> {
        let find = |name| self.tools.iter().find(|tool| tool.name == name).map(|tool| (*tool).clone());
        found.names().filter_map(find).collect()
    }

    /// Returns the specs that a request has in place of all tools. Found tools are at the end, so that the provider's
    /// cache keeps the tools before them.
    pub(crate) fn sent_specs(&self, earlier: Option<ToolSpec>, found: &FoundTools) -> Vec<ToolSpec> {
        [spec()].into_iter().chain(earlier).chain(self.found(found)).collect()
    }

    /// Returns the message that names the tools. The message does not change when a tool is found. It contains no
    /// description from a toolset, because a stranger may have written the description, and the model would follow it
    /// as an instruction.
    pub(crate) fn listing(&self) -> Message {
        let summed_up = |(place, tool): (usize, &&'a ToolSpec)| {
            (&*tool.name, if place < self.own { summary(tool) } else { String::new() })
        };
        let tools: Vec<(&str, String)> = self.tools.iter().enumerate().map(summed_up).collect();
        Message::system(prompts::more_tools(&tools)).with_id(prompts::LISTED_TOOLS)
    }

    /// Searches for tools: by meaning if the store supports this, or else by words.
    pub(crate) async fn search(&self, search: ToolSearch, query: &str, store: Option<&dyn Store>) -> FoundTools {
        let ranked = match store.filter(|store| store.searches_by_meaning()) {
            None => self.by_words(query),
            Some(store) => meaning::ranked(store, &self.tools, query).await.unwrap_or_else(|error| {
                tracing::warn!(%error, "failed to search tools by meaning; searching by words");
                self.by_words(query)
            }),
        };
        self.best(query, ranked, search.results.max(1)).into_iter().map(|tool| &*tool.name).collect()
    }

    fn by_words(&self, query: &str) -> Vec<usize> {
        let texts: Vec<WordBag> = self.tools.iter().map(|tool| texts(tool)).collect();
        ranked(&texts, query)
    }

    /// Returns the tools that the query names, then the other tools in the order of their rank.
    fn best(&self, query: &str, ranked: Vec<usize>, most: usize) -> Vec<&'a ToolSpec> {
        let in_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '_' || letter == '-';
        let is_named = |tool: &ToolSpec| query.split(|letter| !in_name(letter)).any(|word| word == tool.name);
        let ranked = ranked.into_iter().map(|place| self.tools[place]);
        let named = self.tools.iter().copied().filter(|tool| is_named(tool));
        named.chain(ranked.filter(|tool| !is_named(tool))).take(most).collect()
    }
}

/// Returns the query of a call of the search. The error describes invalid arguments.
pub(crate) fn query(call: &ToolCall) -> Result<String, String> {
    let meant = coercion::coerced(&call.args, &spec().parameters);
    let query = meant.as_ref().unwrap_or(&call.args).get("query").and_then(Value::as_str);
    let query = query.filter(|query| !query.trim().is_empty());
    query
        .map(str::to_owned)
        .ok_or_else(|| "`query` must be a string: words about the task, or names of tools".to_owned())
}

/// Collects the words by which a tool is found.
fn texts(tool: &ToolSpec) -> WordBag {
    let mut texts = WordBag::default();
    texts.add(&tool.name, NAME_WEIGHT);
    texts.add(&tool.description, TEXT_WEIGHT);
    let arguments = tool.parameters.get("properties").and_then(Value::as_object);
    arguments.into_iter().flatten().for_each(|(name, _)| texts.add(name, TEXT_WEIGHT));
    texts
}

/// The maximum length of a summary in characters.
const LONGEST_SUMMARY: usize = 80;

/// Returns the first line of a description, cut to the length of a summary.
fn summary(tool: &ToolSpec) -> String {
    let line = tool.description.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    if line.chars().count() <= LONGEST_SUMMARY {
        return line.to_owned();
    }
    let cut: String = line.chars().take(LONGEST_SUMMARY - 1).collect();
    format!("{}…", cut.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool(name: &str, description: &str, arguments: &[&str]) -> ToolSpec {
        let fields: serde_json::Map<_, _> = arguments.iter().map(|name| ((*name).to_owned(), json!({}))).collect();
        let parameters = json!({"type": "object", "properties": fields});
        ToolSpec { name: name.to_owned(), description: description.to_owned(), parameters }
    }

    fn shop() -> Vec<ToolSpec> {
        vec![
            tool("crm_refund", "Gives the money of an order back.", &["order"]),
            tool("crm_refund_all", "Gives all money back.", &[]),
            tool("depot_ship", "Sends a parcel.", &["address"]),
            tool("erase", "", &[]),
        ]
    }

    fn found(tools: &[ToolSpec], query: &str, most: usize) -> Vec<String> {
        let tools = SearchableTools::new(&mut tools.iter(), &mut [].iter());
        tools.best(query, tools.by_words(query), most).into_iter().map(|tool| tool.name.clone()).collect()
    }

    #[test]
    fn tools_are_found_by_name_description_and_arguments() {
        let shop = shop();
        assert_eq!(found(&shop, "give money back for an order", 5), ["crm_refund", "crm_refund_all"]);
        assert_eq!(found(&shop, "address", 5), ["depot_ship"]);
        assert_eq!(found(&shop, "refunds", 5), ["crm_refund_all", "crm_refund"]);
        assert_eq!(found(&shop, "weather", 5), [""; 0]);
    }

    #[test]
    fn named_tools_come_first() {
        let shop = shop();
        assert_eq!(found(&shop, "`crm_refund_all`", 1), ["crm_refund_all"]);
        assert_eq!(found(&shop, "erase, depot_ship", 5), ["depot_ship", "erase"]);
        assert_eq!(found(&shop, "the money, or erase", 2), ["erase", "crm_refund"]);
    }

    #[test]
    fn summary_is_the_first_line() {
        assert_eq!(summary(&tool("a", "\n  Sends it.  \nMore.", &[])), "Sends it.");
        assert_eq!(summary(&tool("a", "", &[])), "");
        let long = summary(&tool("a", &"é".repeat(100), &[]));
        assert_eq!(long.chars().count(), LONGEST_SUMMARY);
    }

    #[test]
    fn invalid_queries_are_described() {
        let call = |args: Value| ToolCall::new(SEARCH_TOOLS, args);
        for args in [json!({}), json!({"query": " "}), json!({"query": {}}), json!("refund")] {
            let mistake = query(&call(args)).unwrap_err();
            assert!(mistake.contains("`query` must be a string"), "{mistake}");
        }
        assert_eq!(query(&call(json!({"query": ["refund"]}))).unwrap(), "refund");
    }

    #[test]
    fn long_lists_have_only_names_and_longer_ones_are_cut() {
        let many = |count: usize| -> String {
            let tools: Vec<ToolSpec> =
                (0..count).map(|number| tool(&format!("tool_{number:04}"), &"word ".repeat(12), &[])).collect();
            SearchableTools::new(&mut tools.iter(), &mut [].iter()).listing().text()
        };
        assert!(many(50).contains("\n- tool_0049: word word"), "{}", many(50));
        let names = many(500);
        assert!(names.ends_with("tool_0498, tool_0499") && !names.contains("word"), "{names}");
        let cut = many(5_000);
        assert!(cut.ends_with("more") && cut.len() < 10_000, "{cut}");
        assert_eq!(cut, many(5_000));
    }
}
