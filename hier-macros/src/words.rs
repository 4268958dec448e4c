//! What a call says, word by word, for editors: each word as a piece of Rust in which it stands for what it names. The parser
//! notes a word as soon as it has read it, so that it is there although what follows is not written yet.
//!
//! The pieces are statements of a function that only rust-analyzer sees. In it are `__state`, `__channels` and `__agent`.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, quote};
use syn::parse::{Parse, Parser};

/// The words of a call.
#[derive(Default)]
pub(crate) struct Words {
    /// What stands where a node can stand.
    pub(crate) nodes: Vec<Ident>,
    /// What stands where a channel can stand.
    pub(crate) channels: Vec<Ident>,
    statements: Vec<TokenStream>,
    lists: Vec<List>,
}

/// The words before the colons in a pair of braces.
struct List {
    /// A struct of `hier_core::plumbing::words`, whose fields can stand there.
    owner: &'static str,
    words: Vec<Ident>,
}

/// A pair of braces.
#[derive(Clone, Copy)]
pub(crate) struct Braces(usize);

impl Words {
    /// Braces in which the fields of a struct can stand.
    pub(crate) fn braces(&mut self, owner: &'static str) -> Braces {
        self.lists.push(List { owner, words: Vec::new() });
        Braces(self.lists.len() - 1)
    }

    /// A field in braces.
    pub(crate) fn field(&mut self, braces: Braces, word: &Ident) {
        if is_name(word) {
            self.lists[braces.0].words.push(word.clone());
        }
    }

    /// START, END or a node.
    pub(crate) fn node(&mut self, name: &Ident) {
        self.nodes.push(name.clone());
    }

    /// A channel of the state.
    pub(crate) fn channel(&mut self, name: &Ident) {
        self.channels.push(name.clone());
    }

    /// An expression.
    pub(crate) fn value(&mut self, value: &impl ToTokens) {
        self.statements.push(quote!(let _ = #value;));
    }

    /// An expression that a method of an agent's builder takes.
    pub(crate) fn set(&mut self, method: &str, value: &impl ToTokens) {
        let method = Ident::new(method, Span::call_site());
        self.statements.push(quote!(__agent.#method(#value);));
    }

    /// A type.
    pub(crate) fn ty(&mut self, ty: &impl ToTokens) {
        self.statements.push(quote!(let _: #ty;));
    }

    /// A pattern.
    pub(crate) fn pattern(&mut self, pattern: &impl ToTokens) {
        self.statements.push(quote!(match __hier::words::any() { #pattern => {} _ => {} }));
    }

    /// One of the words of a module of `hier_core::plumbing::words`.
    pub(crate) fn one_of(&mut self, module: &str, word: &Ident) {
        let module = Ident::new(module, Span::call_site());
        if is_name(word) {
            self.statements.push(quote!(let _ = __hier::words::#module::#word;));
        }
    }

    /// A statement.
    pub(crate) fn statement(&mut self, statement: TokenStream) {
        self.statements.push(statement);
    }

    /// The pieces of what stands in braces.
    pub(crate) fn lists(&self) -> TokenStream {
        let lists = self.lists.iter().map(|List { owner, words }| {
            let owner = Ident::new(owner, Span::call_site());
            // In another, so that a word about to be written has braces of this struct around its place before it is there.
            quote! {
                let _ = __hier::words::#owner {
                    ..{
                        let given = __hier::words::#owner { #(#words: (),)* ..__hier::words::any() };
                        given
                    }
                };
            }
        });
        lists.collect()
    }

    /// The pieces of everything else but nodes and channels.
    pub(crate) fn statements(&self) -> TokenStream {
        self.statements.iter().cloned().collect()
    }
}

/// Whether a word can be a name: no keyword can.
fn is_name(word: &Ident) -> bool {
    Ident::parse.parse2(word.to_token_stream()).is_ok()
}
