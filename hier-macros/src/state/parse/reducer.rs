//! Reads `#[reducer(…)]`.

use quote::ToTokens;
use syn::ext::IdentExt;
use syn::parse::ParseStream;
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::{Expr, Ident, Meta, MetaNameValue, Token};

use super::{Reducer, text, word};
use crate::diag::{Errors, unknown};
use crate::fragment;
use crate::symbol;

pub(super) fn meta(input: ParseStream<'_>) -> syn::Result<Meta> {
    if input.peek(Token![|]) {
        return Err(input.error(CUSTOM));
    }
    if input.peek(Ident) && input.peek2(Token![.]) {
        let path = Punctuated::<Ident, Token![.]>::parse_separated_nonempty(input)?;
        return Err(syn::Error::new_spanned(
            &path,
            unknown_reducer(&path.to_token_stream().to_string().replace(' ', "")),
        ));
    }
    super::meta(input)
}

const CUSTOM: &str = "a custom reducer is the path of a function: `with = merge`, where `fn merge(&mut T, T)`";

fn unknown_reducer(path: &str) -> String {
    let name = path.rsplit(['.', ':']).next().unwrap_or(path);
    if let Some((_, ours)) = symbol::FOREIGN_REDUCERS.iter().find(|(foreign, _)| *foreign == name) {
        // The path may also be that of an own function.
        let own =
            if path.contains(':') { format!("; to call a function, write `with = {path}`") } else { String::new() };
        return format!("unknown reducer `{path}`: {ours}{own}");
    }
    let message = unknown("reducer", path, symbol::REDUCERS);
    if hier_spec::nearest(path, symbol::REDUCERS.iter().copied()).is_some() || path.contains('.') {
        return message;
    }
    format!("{message}: to call a function, write `with = {path}`")
}

pub(super) fn reducer(meta: &Meta, errors: &mut Errors) -> Reducer {
    let Some(word) = word(meta) else {
        errors.push(meta, unknown_reducer(&text(meta.path())));
        return Reducer::Unknown(meta.path().span());
    };
    let name = word.unraw().to_string();
    let wrong = match meta {
        Meta::NameValue(value) if name == symbol::WITH => match fragment::expression(&value.value) {
            Expr::Path(path) => return Reducer::With { word, path: path.clone() },
            other => {
                errors.push(other, "`with` takes the path of a function: `with = merge`, where `fn merge(&mut T, T)`");
                return Reducer::Unknown(word.span());
            }
        },
        _ if name == symbol::WITH => {
            "`with` needs a function: `#[reducer(with = merge)]`, where `fn merge(&mut T, T)`".to_owned()
        }
        Meta::Path(_) if symbol::REDUCERS.contains(&&*name) => return Reducer::Builtin(word),
        _ if symbol::REDUCERS.contains(&&*name) => {
            format!("the reducer `{name}` takes no value: write `#[reducer({name})]`")
        }
        _ if symbol::CHANNEL_KINDS.contains(&&*name) => {
            format!("`{name}` is a kind of channel, not a reducer: write `#[channel({name})]`")
        }
        Meta::NameValue(MetaNameValue { value: Expr::Path(function), .. }) => {
            let function = text(&function.path);
            format!("unknown reducer `{name}`: to call a function, write `with = {function}`")
        }
        _ => unknown_reducer(&name),
    };
    errors.push(meta, wrong);
    Reducer::Unknown(word.span())
}
