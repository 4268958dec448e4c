//! The macros of hier. Use them through `hier_core::prelude`; what they accept is documented there.

use proc_macro::TokenStream;

mod diag;
mod graph;
mod state;
mod symbol;
#[cfg(test)]
mod testing;
mod tool;
mod view;

/// Derives a state: channel table, typed keys, update type. See `hier_core::state::State`.
#[proc_macro_derive(State, attributes(state, reducer, channel))]
pub fn derive_state(input: TokenStream) -> TokenStream {
    state::derive(input.into()).into()
}

/// Derives a view of a state, for nodes (borrowed fields) or for the input and output of a graph (owned fields).
#[proc_macro_derive(View, attributes(view))]
pub fn derive_view(input: TokenStream) -> TokenStream {
    view::derive(input.into()).into()
}

/// Declares a graph. See `hier_core::graph`.
#[proc_macro]
pub fn graph(input: TokenStream) -> TokenStream {
    graph::expand(input.into()).into()
}

/// Makes a tool of an async function. See `hier_core::agent::Tool`.
#[proc_macro_attribute]
pub fn tool(options: TokenStream, item: TokenStream) -> TokenStream {
    tool::expand(options.into(), &item.into()).into()
}
