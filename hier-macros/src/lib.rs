//! The macros of hier.
//!
//! Use them through the prelude of `hier`, `hier-agents` or `hier-core`, which documents them.

use crate_path::Hier;
use proc_macro::TokenStream;

mod approval;
mod crate_path;
mod diag;
mod docs;
mod fragment;
#[cfg(test)]
mod grammar;
mod graph;
#[cfg(test)]
mod mutated;
mod question;
#[cfg(test)]
mod snapshots;
mod state;
mod symbol;
#[cfg(test)]
mod testing;
mod text_free;
mod tool;
mod view;
mod words;

// The prelude of hier-core documents the macros in `state.md` and its siblings, because examples compile only there.
#[allow(missing_docs)]
#[proc_macro_derive(State, attributes(state, reducer, channel))]
pub fn derive_state(input: TokenStream) -> TokenStream {
    state::derive(input.into(), &Hier::find()).into()
}

#[allow(missing_docs)]
#[proc_macro_derive(View, attributes(view))]
pub fn derive_view(input: TokenStream) -> TokenStream {
    view::derive(input.into(), &Hier::find()).into()
}

#[allow(missing_docs)]
#[proc_macro_derive(TextFree, attributes(text_free))]
pub fn derive_text_free(input: TokenStream) -> TokenStream {
    text_free::derive(input.into(), &Hier::find()).into()
}

#[allow(missing_docs)]
#[proc_macro_derive(Question, attributes(question))]
pub fn derive_question(input: TokenStream) -> TokenStream {
    question::derive(input.into(), &Hier::find()).into()
}

#[allow(missing_docs)]
#[proc_macro]
pub fn graph(input: TokenStream) -> TokenStream {
    graph::expand(input.into(), &Hier::find()).into()
}

#[allow(missing_docs)]
#[proc_macro_attribute]
pub fn tool(options: TokenStream, item: TokenStream) -> TokenStream {
    tool::expand(options.into(), &item.into(), &Hier::find()).into()
}

/// Emits the items of a tool. Only for the code that `tool` generates.
#[doc(hidden)]
#[proc_macro_derive(ToolItems, attributes(tool_items))]
pub fn derive_tool_items(input: TokenStream) -> TokenStream {
    tool::items(input.into()).into()
}
