//! Helpers of the macros' tests.

use proc_macro2::{TokenStream, TokenTree};
use syn::LitStr;

pub(crate) fn messages(output: TokenStream) -> Vec<String> {
    let mut messages = Vec::new();
    collect(output, &mut messages);
    messages
}

fn collect(tokens: TokenStream, messages: &mut Vec<String>) {
    let mut tokens = tokens.into_iter().peekable();
    while let Some(token) = tokens.next() {
        match token {
            TokenTree::Ident(word) if word == "compile_error" => {
                tokens.next();
                if let Some(TokenTree::Group(group)) = tokens.next()
                    && let Ok(message) = syn::parse2::<LitStr>(group.stream())
                {
                    messages.push(message.value());
                }
            }
            TokenTree::Group(group) => collect(group.stream(), messages),
            _ => {}
        }
    }
}

/// Asserts that each message contains the text at its position.
pub(crate) fn expect(messages: &[String], pieces: &[&str]) {
    let fits = messages.len() == pieces.len() && messages.iter().zip(pieces).all(|(m, p)| m.contains(p));
    assert!(fits, "expected {pieces:#?}, found {messages:#?}");
}
