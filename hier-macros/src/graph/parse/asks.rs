//! The items of `asks: […]`.

use quote::ToTokens;
use syn::parse::ParseStream;
use syn::{Ident, LitStr, Path, Result, Token};

use super::super::ast::AskedQuestion;
use crate::diag::Errors;

pub(super) fn item(input: ParseStream<'_>, errors: &mut Errors) -> Result<AskedQuestion> {
    const EXPECTED: &str = "expected a question: the path of a type with `#[derive(Question)]`";
    if input.peek(LitStr) {
        return Err(input.error("a question is the path of a type with `#[derive(Question)]`: remove the quotes"));
    }
    let name = if input.peek(syn::Ident) && input.peek2(Token![=]) {
        let name: Ident = input.parse()?;
        input.parse::<Token![=]>()?;
        Some(name)
    } else {
        None
    };
    let path: Path = input.parse().map_err(|error| syn::Error::new(error.span(), EXPECTED))?;
    errors.words.ty(&path);
    if input.peek(syn::token::Brace) || input.peek(syn::token::Paren) {
        return Err(input.error("a question is named by its type alone: remove this"));
    }
    let last = path.segments.last().map(|last| last.ident.clone());
    // `self` and `crate` are paths and cannot be names of variants.
    match name.or(last).filter(|name| syn::parse2::<Ident>(name.to_token_stream()).is_ok()) {
        Some(name) => Ok(AskedQuestion { name, path }),
        None => Err(syn::Error::new_spanned(path, EXPECTED)),
    }
}
