//! The words of a call, for editors. For each word, this module generates a piece of Rust that mentions the item that
//! the word names. The parser records a word as soon as it has read it, so that the word exists even if the rest of the
//! call is not written yet.
//!
//! The pieces are statements of a function that only rust-analyzer sees, with the parameters `__state`, `__channels`
//! and `__agent`.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, quote};
use syn::parse::{Parse, Parser};

#[derive(Default)]
pub(crate) struct Words {
    pub(crate) nodes: Vec<Ident>,
    pub(crate) channels: Vec<Ident>,
    statements: Vec<TokenStream>,
    lists: Vec<WordList>,
}

/// The words before the colons inside one pair of braces.
struct WordList {
    /// The struct of `hier_spec::words` that has a field for each of these words.
    owner: &'static str,
    words: Vec<Ident>,
}

/// An index into the word lists.
#[derive(Clone, Copy)]
pub(crate) struct WordListId(usize);

impl Words {
    /// Opens braces for the fields of a struct.
    pub(crate) fn braces(&mut self, owner: &'static str) -> WordListId {
        self.lists.push(WordList { owner, words: Vec::new() });
        WordListId(self.lists.len() - 1)
    }

    pub(crate) fn field(&mut self, braces: WordListId, word: &Ident) {
        if is_name(word) {
            self.lists[braces.0].words.push(word.clone());
        }
    }

    pub(crate) fn node(&mut self, name: &Ident) {
        self.nodes.push(name.clone());
    }

    pub(crate) fn channel(&mut self, name: &Ident) {
        self.channels.push(name.clone());
    }

    pub(crate) fn value(&mut self, value: &impl ToTokens) {
        self.statements.push(quote!(let _ = #value;));
    }

    /// Records an argument of a method of the agent's builder.
    pub(crate) fn set(&mut self, method: &str, value: &impl ToTokens) {
        let method = Ident::new(method, Span::call_site());
        self.statements.push(quote!(__agent.#method(#value);));
    }

    pub(crate) fn ty(&mut self, ty: &impl ToTokens) {
        self.statements.push(quote!(let _: #ty;));
    }

    pub(crate) fn pattern(&mut self, pattern: &impl ToTokens) {
        self.statements.push(quote!(match __hier::words::any() { #pattern => {} _ => {} }));
    }

    /// Records a word of a module of `hier_spec::words`.
    pub(crate) fn one_of(&mut self, module: &str, word: &Ident) {
        let module = Ident::new(module, Span::call_site());
        if is_name(word) {
            self.statements.push(quote!(let _ = __hier::words::#module::#word;));
        }
    }

    pub(crate) fn statement(&mut self, statement: TokenStream) {
        self.statements.push(statement);
    }

    /// Returns the code for the word lists.
    pub(crate) fn lists(&self) -> TokenStream {
        let lists = self.lists.iter().map(|WordList { owner, words }| {
            let owner = Ident::new(owner, Span::call_site());
            // The literal is nested, so that an incomplete word is inside braces of this struct.
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

    /// Returns all recorded statements: the code for everything except braces, nodes and channels.
    pub(crate) fn statements(&self) -> TokenStream {
        self.statements.iter().cloned().collect()
    }
}

/// Returns false for keywords.
fn is_name(word: &Ident) -> bool {
    Ident::parse.parse2(word.to_token_stream()).is_ok()
}
