//! What the struct means: channels, managed fields, the flattened state.

use proc_macro2::{Span, TokenStream, TokenTree};
use quote::ToTokens;
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{Attribute, GenericParam, Generics, Ident, Path, Type, Visibility};

use super::parse::{Field, Input, Reducer};
use crate::symbol;

/// A state.
pub(super) struct Model {
    /// Where generated code finds what it needs.
    pub(super) hier: TokenStream,
    pub(super) vis: Visibility,
    pub(super) ident: Ident,
    pub(super) generics: Generics,
    /// The channels that the struct declares itself; the index here is the index in the channel table.
    pub(super) channels: Vec<Channel>,
    pub(super) flattened: Option<Flattened>,
    pub(super) managed: Vec<Managed>,
    /// The version, 1 unless given.
    pub(super) version: u32,
    /// The functions that bring older versions up to date; the last comes from the version before this one.
    pub(super) migrations: Vec<Path>,
}

/// A channel.
pub(super) struct Channel {
    pub(super) field: Ident,
    pub(super) ty: Type,
    pub(super) docs: Vec<Attribute>,
    /// The name at run time, and where it is written.
    pub(super) name: String,
    pub(super) name_span: Span,
    pub(super) kind: Kind,
}

/// The variant of the enum of writes for a field. Its name is no word of the user's: where a program names a function that is not
/// there, the compiler would propose a variant of that name.
pub(super) fn variant(field: &Ident) -> Ident {
    crate::diag::local(&format!("__{}", field.unraw()), field.span())
}

/// What kind of channel.
pub(super) enum Kind {
    /// Last value, one writer a step.
    Last,
    /// The same, gone when the next step has ended.
    Ephemeral,
    /// The same, never persisted.
    Untracked,
    /// A list, filled for one step or for ever.
    Topic { accumulate: bool },
    /// Merged by a reducer.
    Reduced { reducer: Merge, delta: bool },
}

/// A reducer.
pub(super) enum Merge {
    /// A function of `hier_core::reducer::builtin`, by the word in the attribute and its canonical name.
    Builtin { word: Ident, name: Ident },
    /// A function of the user's.
    With(Path),
}

/// The field whose state's channels become channels of this one.
pub(super) struct Flattened {
    pub(super) field: Ident,
    pub(super) ty: Type,
    /// A name for the type, which is unknown to the compiler if the type is no state; none if the type has a parameter in it.
    pub(super) alias: Option<Ident>,
}

/// A field that the engine writes.
pub(super) struct Managed {
    pub(super) field: Ident,
    pub(super) ty: Type,
    /// The method of `Steps` that makes its value.
    pub(super) method: Ident,
}

impl Channel {
    /// Whether any number of tasks may write it in one step.
    pub(super) const fn is_reduced(&self) -> bool {
        matches!(self.kind, Kind::Reduced { .. } | Kind::Topic { .. })
    }

    /// Whether the engine alone writes it.
    pub(super) fn is_internal(&self) -> bool {
        last_segment(&self.ty).is_some_and(|last| symbol::INTERNAL.iter().any(|name| last.ident == name))
    }

    /// Whether savers store it.
    pub(super) const fn is_persisted(&self) -> bool {
        !matches!(self.kind, Kind::Untracked)
    }

    /// Whether its value goes when a step ends.
    pub(super) const fn expires(&self) -> bool {
        matches!(self.kind, Kind::Ephemeral | Kind::Topic { accumulate: false })
    }
}

impl Model {
    /// Gives every channel the name of its field. After an error only, so that two equal names are not reported again by
    /// the compiler in its own words.
    pub(super) fn make_names_unique(&mut self) {
        for channel in &mut self.channels {
            channel.name = channel.field.unraw().to_string();
        }
    }
}

/// Gives the fields their meaning. Where a field says two things, the first counts.
pub(super) fn build(input: &Input, hier: TokenStream) -> Model {
    let mut model = Model {
        hier,
        vis: input.vis.clone(),
        ident: input.ident.clone(),
        generics: input.generics.clone(),
        channels: Vec::new(),
        flattened: None,
        managed: Vec::new(),
        version: input.versions.first().map_or(1, |(version, _)| *version),
        migrations: input.migrations.first().map(|(paths, _)| paths.clone()).unwrap_or_default(),
    };
    for field in &input.fields {
        let (ident, ty) = (field.ident.clone(), field.ty.clone());
        if let Some(method) = managed(&field.ty) {
            let method = Ident::new(method, Span::call_site());
            model.managed.push(Managed { field: ident, ty, method });
        } else if field.flattens.is_empty() || is_parameter(&field.ty, &input.generics) {
            model.channels.push(channel(field));
        } else if model.flattened.is_none() {
            let name = format!("__{}Flattened", input.ident.unraw());
            let alias = (!has_parameter(&ty, &input.generics)).then(|| crate::diag::local(&name, ty.span()));
            model.flattened = Some(Flattened { field: ident, ty, alias });
        }
    }
    model
}

/// The channel that a field declares.
fn channel(field: &Field) -> Channel {
    let (name, name_span) = match field.renames.first() {
        Some(rename) => (rename.value(), rename.span()),
        None => (field.ident.unraw().to_string(), field.ident.span()),
    };
    Channel {
        field: field.ident.clone(),
        ty: field.ty.clone(),
        docs: field.docs.clone(),
        name,
        name_span,
        kind: kind(field),
    }
}

/// The kind of channel that a field's attributes ask for.
fn kind(field: &Field) -> Kind {
    let reduced = |reducer| Kind::Reduced { reducer, delta: !field.deltas.is_empty() };
    let last = |word: &Span| Ident::new("last", *word);
    match (field.reducers.first(), field.kinds.first()) {
        (Some(Reducer::With { path, .. }), _) => reduced(Merge::With(path.clone())),
        (Some(Reducer::Builtin(word)), _) => {
            let text = word.unraw().to_string();
            let text = if text == symbol::UPSERT { symbol::BY_ID } else { &text };
            reduced(Merge::Builtin { word: word.clone(), name: Ident::new(text, word.span()) })
        }
        // What it should be is not known; `last` asks nothing of the type.
        (Some(Reducer::Unknown(span)), _) => reduced(Merge::Builtin { word: last(span), name: last(span) }),
        (None, Some(kind)) if kind.word == symbol::EPHEMERAL => Kind::Ephemeral,
        (None, Some(kind)) if kind.word == symbol::UNTRACKED => Kind::Untracked,
        (None, Some(kind)) if is_vec(&field.ty) => Kind::Topic { accumulate: kind.accumulate },
        // A topic that is no list has been reported.
        (None, Some(kind)) => {
            let word = last(&kind.word.span());
            reduced(Merge::Builtin { word: word.clone(), name: word })
        }
        (None, None) => Kind::Last,
    }
}

/// The method of `Steps` that makes the value of a managed field; `None` for any other field.
pub(super) fn managed(ty: &Type) -> Option<&'static str> {
    let last = last_segment(ty)?;
    symbol::MANAGED.iter().find(|(name, _)| last.ident == name && last.arguments.is_empty()).map(|(_, method)| *method)
}

/// Whether the type is written as a `Vec<…>`.
pub(super) fn is_vec(ty: &Type) -> bool {
    last_segment(ty).is_some_and(|last| last.ident == "Vec")
}

/// Whether the type is a type parameter.
pub(super) fn is_parameter(ty: &Type, generics: &Generics) -> bool {
    match ty {
        Type::Path(path) => generics.type_params().any(|param| path.path.is_ident(&param.ident)),
        _ => false,
    }
}

/// Whether the type is written with this name in it.
pub(super) fn mentions(ty: &Type, name: &Ident) -> bool {
    fn any(tokens: TokenStream, name: &Ident) -> bool {
        tokens.into_iter().any(|token| match token {
            TokenTree::Ident(ident) => ident == *name,
            TokenTree::Group(group) => any(group.stream(), name),
            _ => false,
        })
    }
    any(ty.to_token_stream(), name)
}

/// Whether a parameter of the state stands in the type.
fn has_parameter(ty: &Type, generics: &Generics) -> bool {
    generics.params.iter().any(|param| match param {
        // A state that borrows has been reported.
        GenericParam::Lifetime(_) => true,
        GenericParam::Type(param) => mentions(ty, &param.ident),
        GenericParam::Const(param) => mentions(ty, &param.ident),
    })
}

/// Whether the type is a number, `bool` or `char`.
pub(super) fn is_primitive(ty: &Type) -> bool {
    match ty {
        Type::Path(path) => {
            path.path.get_ident().is_some_and(|ident| symbol::PRIMITIVES.iter().any(|name| ident == name))
        }
        _ => false,
    }
}

/// Whether the type is one of [`symbol::TEXTS`], as it is written.
pub(super) fn is_texts(ty: &Type) -> bool {
    let Some(segment) = last_segment(ty) else { return false };
    let syn::PathArguments::AngleBracketed(arguments) = &segment.arguments else { return false };
    let [syn::GenericArgument::Type(inner)] = arguments.args.iter().collect::<Vec<_>>()[..] else { return false };
    symbol::TEXTS.iter().any(|name| segment.ident == name)
        && last_segment(inner).is_some_and(|last| last.ident == "String")
}

/// The last segment of a type's path.
fn last_segment(ty: &Type) -> Option<&syn::PathSegment> {
    match ty {
        Type::Path(path) => path.path.segments.last(),
        Type::Group(group) => last_segment(&group.elem),
        _ => None,
    }
}
