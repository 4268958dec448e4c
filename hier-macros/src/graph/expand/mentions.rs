//! Each mention of a node once more, as the path of what it names, for editors alone: so that renaming a node's function
//! changes its mentions, too, and going to the definition from one leads there. The compiler never sees it.

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};

use super::super::model::Model;

/// The mentions, in a scope of their own.
pub(super) fn mentions(model: &Model) -> TokenStream {
    let graph = &model.head.name;
    let mentions = model.mentions.iter().map(|(node, name)| {
        let node = &model.nodes[*node];
        let mut path = node.path.clone();
        match path.segments.last_mut() {
            // A node under its own name is its function or graph.
            Some(last) if last.ident == *name => {
                last.ident.set_span(name.span());
                quote!(let _ = #path;)
            }
            // One under another name is its target, which is declared where the name is given.
            _ => quote_spanned!(name.span()=> let _ = #graph::#name;),
        }
    });
    quote! {
        #[cfg(rust_analyzer)]
        fn __hier_mentions() { #(#mentions)* }
    }
}
