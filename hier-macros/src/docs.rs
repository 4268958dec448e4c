//! The text of doc comments, which models and clients read.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::{Attribute, Expr, Lit, Meta};

pub(crate) enum Docs {
    Text(String),
    /// An expression over macros such as `include_str!`, which only the compiler can expand.
    Expression(TokenStream),
}

enum DocPart<'a> {
    Line(String),
    Expression(&'a Expr),
}

impl Docs {
    pub(crate) fn read(attributes: &[Attribute]) -> Self {
        let parts: Vec<DocPart<'_>> = attributes.iter().filter_map(part).collect();
        if parts.iter().all(|part| matches!(part, DocPart::Line(_))) {
            let lines = parts.into_iter().filter_map(|part| match part {
                DocPart::Line(line) => Some(line),
                DocPart::Expression(_) => None,
            });
            return Self::Text(lines.collect::<Vec<_>>().join("\n").trim().to_owned());
        }
        let parts = parts.into_iter().map(|part| match part {
            DocPart::Line(line) => line.into_token_stream(),
            DocPart::Expression(expression) => expression.into_token_stream(),
        });
        Self::Expression(quote!(::core::primitive::str::trim_ascii(::core::concat!(#(#parts, "\n"),*))))
    }

    pub(crate) fn is_empty(&self) -> bool {
        matches!(self, Self::Text(text) if text.is_empty())
    }
}

impl ToTokens for Docs {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        match self {
            Self::Text(text) => text.to_tokens(tokens),
            Self::Expression(expression) => expression.to_tokens(tokens),
        }
    }
}

fn part(attribute: &Attribute) -> Option<DocPart<'_>> {
    let Meta::NameValue(pair) = &attribute.meta else { return None };
    if !pair.path.is_ident("doc") {
        return None;
    }
    let Expr::Lit(literal) = &pair.value else { return Some(DocPart::Expression(&pair.value)) };
    let Lit::Str(text) = &literal.lit else { return None };
    let text = text.value();
    Some(DocPart::Line(text.strip_prefix(' ').unwrap_or(&text).trim_end().to_owned()))
}
