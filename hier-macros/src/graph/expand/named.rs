//! Aliases for the tools of a graph.
//!
//! In a type position, the compiler rejects the name of a plain function with a message that does not mention
//! `#[tool]`. Therefore each tool is imported under an alias: an import accepts any item of the name, type or not. If
//! the name is not a type, the alias resolves to an outer placeholder that is not a tool, and its trait bound reports
//! the mistake once. All other code uses the alias.

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::{Ident, Path};

use super::super::model::GraphModel;
use super::code;

/// Returns the alias of a tool, or its path if it cannot be imported.
pub(in super::super) fn tool(model: &GraphModel, path: &Path) -> TokenStream {
    let place = imported(model).iter().position(|it| *it == path);
    place.map_or_else(|| path.to_token_stream(), |place| name(place, code::span(path)).into_token_stream())
}

/// Wraps the code of a graph in the aliases of its tools.
pub(super) fn around(model: &GraphModel, graph: TokenStream) -> TokenStream {
    let tools = imported(model);
    if tools.is_empty() {
        return graph;
    }
    let missing = tools.iter().enumerate().map(|(place, path)| {
        let name = found(place, code::span(path));
        quote!(#[allow(dead_code)] type #name = __hier::MissingTool<()>;)
    });
    // For a name that does not exist, a mention as a type makes the compiler suggest a similar name or an import. A
    // function that is not a tool causes no error here, because the alias is then unknown. The mention precedes the
    // macros of the imports, which it must not find. It is a static, because in a constant the compiler would suggest a
    // type parameter.
    let mentions = tools.iter().enumerate().filter_map(|(place, path)| {
        let (tool, here) = (path.get_ident()?, code::span(path));
        let name = name(place, here);
        let mention = Ident::new(&format!("__HIER_MENTION_{place}"), here);
        Some(quote_spanned!(here=> static #mention: () = { use __hier::Mention as _; let _ = <#name>::__mention::<#tool>; };))
    });
    let imports = tools.iter().enumerate().map(|(place, path)| {
        let here = code::span(path);
        let (name, found) = (name(place, here), found(place, here));
        // Importing a name that does not exist would be an additional error, so each import finds at least this macro.
        // It follows all user code, so that no name in that code refers to the macro.
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

fn found(place: usize, here: Span) -> Ident {
    Ident::new(&format!("__HierFound{place}"), here)
}

fn name(place: usize, here: Span) -> Ident {
    Ident::new(&format!("__HierTool{place}"), here)
}

/// The tools whose paths can be imported, without duplicates.
fn imported(model: &GraphModel) -> Vec<&Path> {
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
