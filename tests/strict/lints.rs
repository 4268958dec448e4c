//! A program that uses every macro, in a crate that denies the lint groups and the lints that are allowed by default.
//! The macros must not generate code that triggers a lint unless the user's code does.

#![deny(
    warnings,
    future_incompatible,
    keyword_idents,
    let_underscore,
    nonstandard_style,
    refining_impl_trait,
    rust_2018_compatibility,
    rust_2018_idioms,
    rust_2021_compatibility,
    rust_2024_compatibility,
    unused
)]
#![deny(
    absolute_paths_not_starting_with_crate,
    ambiguous_negative_literals,
    closure_returning_async_block,
    deprecated_in_future,
    deprecated_safe_2024,
    deref_into_dyn_supertrait,
    elided_lifetimes_in_paths,
    explicit_outlives_requirements,
    ffi_unwind_calls,
    if_let_rescope,
    impl_trait_overcaptures,
    impl_trait_redundant_captures,
    let_underscore_drop,
    macro_use_extern_crate,
    meta_variable_misuse,
    missing_copy_implementations,
    missing_debug_implementations,
    missing_docs,
    non_ascii_idents,
    redundant_imports,
    redundant_lifetimes,
    single_use_lifetimes,
    tail_expr_drop_order,
    trivial_casts,
    trivial_numeric_casts,
    unit_bindings,
    unnameable_types,
    unreachable_pub,
    unsafe_code,
    unsafe_op_in_unsafe_fn,
    unused_extern_crates,
    unused_import_braces,
    unused_lifetimes,
    unused_macro_rules,
    unused_qualifications,
    unused_results,
    variant_size_differences
)]
#![deny(clippy::all, clippy::pedantic, clippy::nursery, clippy::cargo)]
// The package is private, and its dependencies are the workspace's.
#![allow(clippy::cargo_common_metadata, clippy::multiple_crate_versions)]
// The tool below shows that its macro accepts a `Result`.
#![allow(clippy::missing_errors_doc)]

use hier_agents::layer::Limit;
use hier_agents::prelude::*;
use hier_agents::Json;
use hier_core::graph::Retry;
use hier_core::message::ToolCall;
use hier_core::state::RemainingSteps;
use hier_core::Result;
use hier_draw::Draw;

/// The part that states have in common.
#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
pub struct Base {
    /// The notes.
    #[reducer(append)]
    pub notes: Vec<String>,
}

/// A case with every kind of channel.
#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
#[state(version = 2, migrate = [first])]
pub struct Case {
    /// The common part.
    #[state(flatten)]
    pub base: Base,
    /// The question.
    #[state(rename = "asked")]
    pub question: String,
    /// The sum.
    #[reducer(sum)]
    pub total: u32,
    /// The largest number, by a function.
    #[reducer(with = largest)]
    pub most: u32,
    /// Replaced by `most`.
    #[deprecated = "use `most`"]
    #[reducer(with = <u32 as Largest>::largest)]
    pub more: u32,
    /// Gone after a step.
    #[channel(ephemeral)]
    pub hint: Option<String>,
    /// The steps that are left.
    pub left: RemainingSteps,
}

fn first(stored: &mut serde_json::Map<String, serde_json::Value>) -> Result<(), NodeError> {
    if stored.contains_key("answer") {
        return Err("version 1 has no channel `answer`".into());
    }
    Ok(())
}

trait Largest {
    fn largest(current: &mut Self, new: Self);
}

impl Largest for u32 {
    fn largest(current: &mut Self, new: Self) {
        largest(current, new);
    }
}

fn largest(current: &mut u32, new: u32) {
    *current = (*current).max(new);
}

/// The input.
#[derive(View, Clone, Debug)]
#[view(of = Case)]
pub struct Asked {
    /// The question.
    pub question: String,
}

/// A part to read.
#[derive(View, Debug)]
#[view(of = Case)]
pub struct Seen<'a> {
    /// The question.
    pub question: &'a String,
    /// The sum.
    pub total: &'a u32,
}

/// Names that are not in snake case, which the user allows for the struct.
#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
#[allow(non_snake_case)]
pub struct Names {
    /// A word of Rust.
    pub type_: String,
    /// A name of another language.
    #[reducer(append)]
    pub userIds: Vec<u32>,
    /// The steps that are left.
    pub stepsLeft: RemainingSteps,
}

/// A part of these names.
#[derive(View, Debug)]
#[view(of = Names)]
#[allow(non_snake_case)]
pub struct Named<'a> {
    /// A word of Rust.
    pub type_: &'a String,
    /// A name of another language.
    pub userIds: &'a Vec<u32>,
}

/// A part of these names, which a node writes.
#[derive(View, Debug)]
#[view(of = Names)]
#[allow(non_snake_case)]
pub struct Written {
    /// A word of Rust.
    pub type_: String,
    /// A name of another language.
    pub userIds: Vec<u32>,
}

/// Takes a name of another language.
#[tool]
#[allow(non_snake_case)]
pub async fn find_user(userId: u32, type_: String) -> String {
    format!("{type_} {userId}")
}

/// The context.
#[derive(Clone, Debug)]
pub struct Desk {
    /// The base.
    pub base: BaseContext,
}

impl AsRef<BaseContext> for Desk {
    fn as_ref(&self) -> &BaseContext {
        &self.base
    }
}

async fn look(seen: Seen<'_>) -> CaseUpdate {
    Case::update().total(u32::from(!seen.question.is_empty()))
}

async fn weigh(word: Sent<String>) -> CaseUpdate {
    Case::update().notes([word.0])
}

async fn decide(_: &Run<Desk>) -> Result<Command<Case>> {
    Ok(Command::new().goto(Inner::count))
}

async fn count() {}

graph! {
    /// Counts.
    pub Inner<Case, Desk> = Graph { nodes: [count], edges: [START >> count >> END] }
}

graph! {
    /// Works on a case.
    pub Work<Case, Desk> = Graph {
        nodes: [look { retry: 2, timeout: 5s, writes: [total] }, weigh, decide { goto: [count] }, count, Inner, shut = count { defer }],
        edges: [
            START >> look >> for word in state.question.split(' ').map(str::to_owned) { weigh(word) },
            look >> match state.total { 0 => END, 1 | 2 if state.question.len() > 3 => decide, _ => if state.most > 2 { count } else { END } },
            [weigh, decide] >> Inner >> shut >> END,
            count >> END,
        ],
        input: Asked,
        interrupt_after: [shut],
    }
}

/// A place.
#[derive(JsonSchema, Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Place {
    /// The year.
    pub year: u16,
}

/// Looks up a place.
#[tool(needs_approval, timeout = 5s, retry = 2)]
pub async fn look_up(#[args] place: Place) -> String {
    place.year.to_string()
}

/// Exists on another system.
#[tool]
#[cfg(target_os = "none")]
pub async fn elsewhere(place: Missing) -> String {
    place
}

/// Looks up an old place.
#[tool]
#[deprecated = "use `look_up`"]
pub async fn look_back(year: u16) -> String {
    year.to_string()
}

/// Names the node that calls it.
#[tool]
pub async fn caller(run: &Run<BaseContext>) -> String {
    run.node().to_owned()
}

/// Adds up.
#[tool(step)]
pub async fn add(
    run: &Run<Desk>,
    call: &ToolCall,
    #[inject] state: &BaseState,
    first: u32,
    #[default = 2] second: u32,
    third: Option<u32>,
) -> Result<Json<u32>> {
    let _ = (run, call, state);
    Ok(Json(first + second + third.unwrap_or_default()))
}

graph! {
    /// Finds things.
    pub Clerk<BaseState, Desk> = ReactGraph { system: "You look.", tools: [add], on_entry: enter }
}

async fn enter() {}

graph! {
    /// Leads the clerk.
    pub Lead<BaseState, Desk> = TodoGraph {
        system: "You lead.",
        tools: [add],
        subagents: [Clerk { merge_fields: [file_refs], clear_messages: true, max_iterations: 4 }],
        layers: [Limit { model_calls: 3 }, Retry { attempts: 2 }],
        max_iterations: 8,
        inbox: messages,
    }
}

const TOOLS: &[&str] = &[look_up::NAME, caller::NAME, add::NAME];

graph! {
    /// Counts as before.
    #[deprecated = "use `Inner`"]
    pub Outer<Case, Desk> = Graph { nodes: [count], edges: [START >> count >> END] }
}

graph! {
    /// Calls tools.
    pub Tools<BaseState, Desk> = Graph {
        nodes: [work = tools![look_up]],
        edges: [START >> work >> END],
    }
}

#[test]
fn graphs_pass_strict_lints() {
    let graphs =
        [Work::compile().spec().mermaid(), Lead::compile().spec().mermaid(), Tools::compile().spec().mermaid()];
    assert!(graphs.iter().all(|text| !text.is_empty()));
    assert_eq!(TOOLS.len(), 3);
}
