//! The tools of a graph, under names of the expansion's own.
//!
//! Where a type must stand, the compiler refuses the name of a function before it checks anything, and with words that say nothing of
//! `#[tool]`. So each tool is imported under another name: an import takes what there is of the name, be it a type or not. Where there
//! is no type, one of the import's name that stands around it is meant, which is no tool, and says so: once, where an alias of what was
//! imported is checked. All other code names the alias.

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::{Ident, Path};

use super::super::model::Model;
use super::code;

/// The type of a tool, wherever the expansion needs it.
pub(in super::super) fn tool(model: &Model, path: &Path) -> TokenStream {
    let place = imported(model).iter().position(|it| *it == path);
    place.map_or_else(|| path.to_token_stream(), |place| name(place, code::span(path)).into_token_stream())
}

/// The code of a graph, with what its tools are named by.
pub(super) fn around(model: &Model, graph: TokenStream) -> TokenStream {
    let tools = imported(model);
    if tools.is_empty() {
        return graph;
    }
    let missing = tools.iter().enumerate().map(|(place, path)| {
        let name = found(place, code::span(path));
        quote!(#[allow(dead_code)] type #name = __hier::MissingTool<()>;)
    });
    // One that is not there at all is looked for as a type too, because the compiler then says which one is like it, or where one of
    // the name stands. A function that is no tool is no type, of which nothing is said: the alias is unknown by then. It stands before
    // the macros of the imports, which must not be found. In a constant the compiler would propose a parameter of this name for it.
    let mentions = tools.iter().enumerate().filter_map(|(place, path)| {
        let (tool, here) = (path.get_ident()?, code::span(path));
        let name = name(place, here);
        let mention = Ident::new(&format!("__HIER_MENTION_{place}"), here);
        Some(quote_spanned!(here=> static #mention: () = { use __hier::Mention as _; let _ = <#name>::__mention::<#tool>; };))
    });
    let imports = tools.iter().enumerate().map(|(place, path)| {
        let here = code::span(path);
        let (name, found) = (name(place, here), found(place, here));
        // The import of what is not there at all would be an error of its own. It stands behind all that users wrote, so
        // that no name of theirs means this macro.
        let something = path.get_ident().map(|tool| quote!(#[allow(unused_macros)] macro_rules! #tool { () => {}; }));
        quote_spanned! {here=>
            #something
            #[allow(unused_imports)]
            use #path as #found;
            type #name = <__hier::Checked<#found, { let _ = <#found as __hier::NamedTool>::NAME; true }> as __hier::Known>::Type;
        }
    });
    quote! {
        #(#missing)*
        const _: () = {
            #graph
            #(#mentions)*
            #(#imports)*
        };
    }
}

/// What was imported.
fn found(place: usize, here: Span) -> Ident {
    Ident::new(&format!("__HierFound{place}"), here)
}

/// The tool.
fn name(place: usize, here: Span) -> Ident {
    Ident::new(&format!("__HierTool{place}"), here)
}

/// The tools whose paths can be imported, each once.
fn imported(model: &Model) -> Vec<&Path> {
    let of_nodes = model.nodes.iter().filter_map(|node| node.tools.as_ref()).flat_map(|(tools, _)| tools);
    let of_agent = model.agent.iter().flat_map(|agent| &agent.tools);
    let mut tools: Vec<&Path> = Vec::new();
    for path in of_nodes.chain(of_agent).filter(|path| path.segments.iter().all(|part| part.arguments.is_none())) {
        if !tools.contains(&path) {
            tools.push(path);
        }
    }
    tools
}
