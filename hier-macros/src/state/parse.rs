//! Reads the struct and the attributes of its fields, word by word.

use proc_macro2::Span;
use quote::ToTokens;
use syn::ext::IdentExt;
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::{
    Attribute, Data, DeriveInput, Expr, Fields, Generics, Ident, Lit, LitStr, Meta, Path, Token, Type, Visibility,
};

use crate::diag::{Errors, unknown};
use crate::symbol;

/// The struct, as it is written.
pub(super) struct Input {
    pub(super) vis: Visibility,
    pub(super) ident: Ident,
    pub(super) generics: Generics,
    pub(super) fields: Vec<Field>,
    /// The path of the crate, if it is given.
    pub(super) home: Option<Path>,
    /// Each `version` that stands there, with its place.
    pub(super) versions: Vec<(u32, Span)>,
    /// The functions of each `migrate` that stands there, with its place.
    pub(super) migrations: Vec<(Vec<Path>, Span)>,
}

/// A field, as it is written: each list has one entry for each time that something of its kind stands there.
pub(super) struct Field {
    pub(super) ident: Ident,
    pub(super) ty: Type,
    pub(super) docs: Vec<Attribute>,
    pub(super) reducers: Vec<Reducer>,
    pub(super) kinds: Vec<KindWord>,
    pub(super) deltas: Vec<Span>,
    pub(super) flattens: Vec<Span>,
    pub(super) renames: Vec<LitStr>,
}

/// What stands in `#[reducer(…)]`.
#[derive(Clone)]
pub(super) enum Reducer {
    /// A word that is known.
    Builtin(Ident),
    /// `with = path`.
    With { word: Ident, path: Path },
    /// Something else, which has been reported.
    Unknown(Span),
}

impl Reducer {
    /// Where it stands.
    pub(super) fn span(&self) -> Span {
        match self {
            Self::Builtin(word) | Self::With { word, .. } => word.span(),
            Self::Unknown(span) => *span,
        }
    }
}

/// What stands in `#[channel(…)]`, but for `delta`.
pub(super) struct KindWord {
    pub(super) word: Ident,
    pub(super) accumulate: bool,
}

/// Reads the whole input.
pub(super) fn parse(input: DeriveInput, errors: &mut Errors) -> Input {
    let borrows = input.generics.lifetimes().next().is_some();
    for lifetime in input.generics.lifetimes() {
        errors.push(
            lifetime,
            "a state cannot borrow, because it outlives every step: use owned types (`String` for `&str`, `Vec<T>` for `&[T]`)",
        );
    }
    let written = named_fields(input.data, &input.ident, errors);
    let mut fields: Vec<Field> = Vec::new();
    for field in written.into_iter().filter(|_| !borrows) {
        // A field that is there twice is the compiler's own error.
        match field.ident.clone() {
            Some(ident) if fields.iter().all(|other| other.ident != ident) => {
                fields.push(self::field(ident, field, errors));
            }
            _ => {}
        }
    }
    let (vis, ident, generics) = (input.vis, input.ident, input.generics);
    let mut read = Input { vis, ident, generics, fields, home: None, versions: Vec::new(), migrations: Vec::new() };
    for attribute in input.attrs.iter().filter(|attribute| attribute.path().is_ident(symbol::STATE)) {
        for word in words(attribute, "version = 2", errors) {
            struct_option(&word, &mut read, errors);
        }
    }
    read
}

/// One word of `#[state(…)]` on the struct.
fn struct_option(meta: &Meta, input: &mut Input, errors: &mut Errors) {
    let name = text(meta.path());
    let value = match meta {
        Meta::NameValue(value) => Some(&value.value),
        _ => None,
    };
    match (&*name, value) {
        (symbol::VERSION, Some(Expr::Lit(syn::ExprLit { lit: Lit::Int(number), .. }))) => {
            if let Some(number) = errors.keep(number.base10_parse()) {
                input.versions.push((number, meta.span()));
            }
        }
        (symbol::VERSION, _) => errors.push(meta, "the version of a state is a number: `version = 2`"),
        (symbol::MIGRATE, Some(value)) => match paths(value) {
            Some(paths) => input.migrations.push((paths, meta.span())),
            None => errors.push(value, MIGRATE),
        },
        (symbol::CRATE, Some(Expr::Path(path))) => input.home = Some(path.path.clone()),
        (symbol::CRATE, _) => errors.push(meta, "`crate` takes the path of hier: `crate = my_crate::hier`"),
        (symbol::MIGRATE, None) => errors.push(meta, MIGRATE),
        _ => errors.push(meta, unknown("option of a state:", &name, symbol::STRUCT_OPTIONS)),
    }
}

const MIGRATE: &str = "`migrate` takes a function, or a list of them of which the last comes from the version before this one: \
                       `migrate = from_v2`, `migrate = [from_v1, from_v2]`";

/// A path, or a list of paths.
fn paths(value: &Expr) -> Option<Vec<Path>> {
    match value {
        Expr::Path(path) => Some(vec![path.path.clone()]),
        Expr::Array(list) => list.elems.iter().map(|item| paths(item).and_then(|mut one| one.pop())).collect(),
        _ => None,
    }
}

/// The fields of a struct with named fields; of anything else, none.
fn named_fields(data: Data, ident: &Ident, errors: &mut Errors) -> Vec<syn::Field> {
    let what = match data {
        Data::Struct(data) => match data.fields {
            Fields::Named(fields) => return fields.named.into_iter().collect(),
            Fields::Unnamed(_) => "a struct whose fields have no names",
            Fields::Unit => "a struct without fields",
        },
        Data::Enum(_) => "an enum",
        Data::Union(_) => "a union",
    };
    errors.push(
        ident,
        format!(
            "a state is a struct with named fields, one a channel, and `{ident}` is {what}: write `struct {ident} {{ … }}`"
        ),
    );
    Vec::new()
}

/// One field with its attributes.
fn field(ident: Ident, field: syn::Field, errors: &mut Errors) -> Field {
    let mut read = Field {
        ident,
        ty: field.ty,
        docs: Vec::new(),
        reducers: Vec::new(),
        kinds: Vec::new(),
        deltas: Vec::new(),
        flattens: Vec::new(),
        renames: Vec::new(),
    };
    for attribute in field.attrs {
        let path = attribute.path();
        if path.is_ident("doc") {
            read.docs.push(attribute);
        } else if path.is_ident(symbol::REDUCER) {
            for word in words(&attribute, "append", errors) {
                read.reducers.push(reducer(&word, errors));
            }
        } else if path.is_ident(symbol::CHANNEL) {
            for word in words(&attribute, symbol::EPHEMERAL, errors) {
                channel(&word, &mut read, errors);
            }
        } else if path.is_ident(symbol::STATE) {
            for word in words(&attribute, symbol::FLATTEN, errors) {
                option(&word, &mut read, errors);
            }
        }
    }
    read
}

/// What stands between the brackets of an attribute.
fn words(attribute: &Attribute, example: &str, errors: &mut Errors) -> Vec<Meta> {
    let name = attribute.path().to_token_stream().to_string();
    let list = match &attribute.meta {
        Meta::List(list) if !list.tokens.is_empty() => list,
        _ => {
            errors
                .push(&attribute.meta, format!("`#[{name}]` says nothing: write, for example, `#[{name}({example})]`"));
            return Vec::new();
        }
    };
    let read = list.parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated);
    errors.keep(read).into_iter().flatten().collect()
}

/// One word of `#[reducer(…)]`.
fn reducer(meta: &Meta, errors: &mut Errors) -> Reducer {
    let Some(word) = word(meta) else {
        errors.push(meta, unknown("reducer", &text(meta.path()), symbol::REDUCERS));
        return Reducer::Unknown(meta.path().span());
    };
    let name = word.unraw().to_string();
    let wrong = match meta {
        Meta::NameValue(value) if name == symbol::WITH => match &value.value {
            Expr::Path(path) => return Reducer::With { word, path: path.path.clone() },
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
            format!("the reducer `{name}` takes nothing: write `#[reducer({name})]`")
        }
        _ => unknown("reducer", &name, symbol::REDUCERS),
    };
    errors.push(meta, wrong);
    Reducer::Unknown(word.span())
}

/// One word of `#[channel(…)]`.
fn channel(meta: &Meta, field: &mut Field, errors: &mut Errors) {
    let name = text(meta.path());
    match (word(meta), meta) {
        (Some(word), Meta::Path(_)) if name == symbol::DELTA => field.deltas.push(word.span()),
        (Some(word), Meta::Path(_)) if symbol::CHANNEL_KINDS.contains(&&*name) => {
            field.kinds.push(KindWord { word, accumulate: false });
        }
        (Some(word), Meta::List(list)) if name == symbol::TOPIC => {
            let inner = list.tokens.to_string();
            if inner != symbol::ACCUMULATE {
                errors.push(&list.tokens, unknown("option of a topic:", &inner, &[symbol::ACCUMULATE]));
            }
            field.kinds.push(KindWord { word, accumulate: true });
        }
        _ if symbol::CHANNEL_KINDS.contains(&&*name) => {
            errors.push(meta, format!("`{name}` takes nothing: write `#[channel({name})]`"));
        }
        _ if symbol::REDUCERS.contains(&&*name) => {
            errors.push(meta, format!("`{name}` is a reducer, not a kind of channel: write `#[reducer({name})]`"));
        }
        _ => errors.push(meta, unknown("kind of channel", &name, symbol::CHANNEL_KINDS)),
    }
}

/// One word of `#[state(…)]`.
fn option(meta: &Meta, field: &mut Field, errors: &mut Errors) {
    let name = text(meta.path());
    match meta {
        Meta::Path(path) if name == symbol::FLATTEN => field.flattens.push(path.span()),
        Meta::NameValue(value) if name == symbol::RENAME => match &value.value {
            Expr::Lit(syn::ExprLit { lit: Lit::Str(text), .. }) => field.renames.push(text.clone()),
            other => errors.push(other, "the name of a channel is a text: `rename = \"name\"`"),
        },
        _ if name == symbol::FLATTEN => errors.push(meta, "`flatten` takes nothing: write `#[state(flatten)]`"),
        _ if name == symbol::RENAME => errors.push(meta, "`rename` needs a name: `#[state(rename = \"name\")]`"),
        _ => errors.push(meta, unknown("option", &name, symbol::STATE_OPTIONS)),
    }
}

/// The word with which a meta starts, if it is one.
fn word(meta: &Meta) -> Option<Ident> {
    meta.path().get_ident().cloned()
}

/// A path as it is written.
fn text(path: &Path) -> String {
    path.to_token_stream().to_string().replace(' ', "")
}
