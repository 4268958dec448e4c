//! The meaning of the struct: channels, managed fields and the flattened state.

use proc_macro2::{Span, TokenStream, TokenTree};
use quote::ToTokens;
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{Attribute, ExprPath, GenericParam, Generics, Ident, Type, Visibility};

use super::parse::{Reducer, StateField, StateInput};
use crate::symbol;

pub(super) struct StateModel {
    pub(super) hier: TokenStream,
    pub(super) vis: Visibility,
    pub(super) ident: Ident,
    pub(super) generics: Generics,
    /// The channels that the struct declares. Their order is that of the channel table.
    pub(super) channels: Vec<ChannelModel>,
    pub(super) flattened: Option<Flattened>,
    pub(super) managed: Vec<Managed>,
    /// Defaults to 1.
    pub(super) version: u32,
    /// The migrations from older versions, in order. The last one migrates from the previous version.
    pub(super) migrations: Vec<ExprPath>,
}

pub(super) struct ChannelModel {
    pub(super) field: Ident,
    pub(super) ty: Type,
    pub(super) docs: Vec<Attribute>,
    /// The name at run time.
    pub(super) name: String,
    pub(super) name_span: Span,
    pub(super) kind: ChannelForm,
    /// The span of the word `secret`.
    pub(super) secret: Option<Span>,
    /// True if nodes may read the initial value.
    pub(super) has_initial: bool,
}

/// The variant of a field in the enum of writes. The prefix keeps the compiler from suggesting the variant for an
/// unknown function.
pub(super) fn variant(field: &Ident) -> Ident {
    crate::diag::local(&format!("__{}", field.unraw()), field.span())
}

pub(super) enum ChannelForm {
    /// The last value; one writer per superstep.
    Last,
    /// The last value, until the next superstep has ended.
    Ephemeral,
    /// The last value, never persisted.
    Untracked,
    /// A list of the values of one superstep, or of all supersteps.
    Topic {
        accumulate: bool,
    },
    Reduced {
        reducer: Merge,
        delta: bool,
    },
}

pub(super) enum Merge {
    /// A function of `hier_core::reducer::builtin`: the word in the attribute, and the name of the function.
    Builtin { word: Ident, name: Ident },
    /// A function of the user.
    With(ExprPath),
}

/// The field whose channels become channels of this state.
pub(super) struct Flattened {
    pub(super) field: Ident,
    pub(super) ty: Type,
    /// An alias of the type, which is unknown to the compiler if the type is not a state. `None` if the type contains a
    /// parameter.
    pub(super) alias: Option<Ident>,
}

pub(super) struct Managed {
    pub(super) field: Ident,
    pub(super) ty: Type,
    /// The method of `Steps` that returns its value.
    pub(super) method: Ident,
}

impl ChannelModel {
    /// Returns true if any number of tasks may write the channel in one superstep.
    pub(super) const fn is_reduced(&self) -> bool {
        matches!(self.kind, ChannelForm::Reduced { .. } | ChannelForm::Topic { .. })
    }

    /// Returns true if only the engine writes the channel.
    pub(super) fn is_internal(&self) -> bool {
        last_segment(&self.ty).is_some_and(|last| symbol::INTERNAL.iter().any(|name| last.ident == name))
    }

    /// Returns true if savers store the channel.
    pub(super) const fn is_persisted(&self) -> bool {
        !matches!(self.kind, ChannelForm::Untracked)
    }

    /// Returns true if the value expires when a superstep ends.
    pub(super) const fn expires(&self) -> bool {
        matches!(self.kind, ChannelForm::Ephemeral | ChannelForm::Topic { accumulate: false })
    }
}

impl StateModel {
    /// Gives every channel the name of its field, so that the compiler does not report equal names again.
    pub(super) fn make_names_unique(&mut self) {
        for channel in &mut self.channels {
            channel.name = channel.field.unraw().to_string();
        }
    }
}

/// Interprets the fields. The first of two contradicting attributes counts.
pub(super) fn build(input: &StateInput, hier: TokenStream) -> StateModel {
    let mut model = StateModel {
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

fn channel(field: &StateField) -> ChannelModel {
    let (name, name_span) = match field.renames.first() {
        Some(rename) => (rename.value(), rename.span()),
        None => (field.ident.unraw().to_string(), field.ident.span()),
    };
    ChannelModel {
        field: field.ident.clone(),
        ty: field.ty.clone(),
        docs: field.docs.clone(),
        name,
        name_span,
        kind: kind(field),
        secret: field.secrets.first().copied(),
        has_initial: !field.initials.is_empty(),
    }
}

fn kind(field: &StateField) -> ChannelForm {
    let reduced = |reducer| ChannelForm::Reduced { reducer, delta: !field.deltas.is_empty() };
    let last = |word: &Span| Ident::new("last", *word);
    match (field.reducers.first(), field.kinds.first()) {
        (Some(Reducer::With { path, .. }), _) => reduced(Merge::With(path.clone())),
        (Some(Reducer::Builtin(word)), _) => {
            let text = word.unraw().to_string();
            let text = if text == symbol::UPSERT { symbol::BY_ID } else { &text };
            reduced(Merge::Builtin { word: word.clone(), name: Ident::new(text, word.span()) })
        }
        // The intended reducer is unknown. `append` accepts any list, also a single item of it, and `last` any type.
        (Some(Reducer::Unknown(span)), _) => {
            let name = if is_vec(&field.ty) { Ident::new("append", *span) } else { last(span) };
            reduced(Merge::Builtin { word: name.clone(), name })
        }
        (None, Some(kind)) if kind.word == symbol::EPHEMERAL => ChannelForm::Ephemeral,
        (None, Some(kind)) if kind.word == symbol::UNTRACKED => ChannelForm::Untracked,
        (None, Some(kind)) if is_vec(&field.ty) => ChannelForm::Topic { accumulate: kind.accumulate },
        // The macro has reported a topic that is not a list.
        (None, Some(kind)) => {
            let word = last(&kind.word.span());
            reduced(Merge::Builtin { word: word.clone(), name: word })
        }
        (None, None) => ChannelForm::Last,
    }
}

/// The method of `Steps` that returns the value of a managed field. `None` for other fields.
pub(super) fn managed(ty: &Type) -> Option<&'static str> {
    let last = last_segment(ty)?;
    symbol::MANAGED.iter().find(|(name, _)| last.ident == name && last.arguments.is_empty()).map(|(_, method)| *method)
}

pub(super) fn is_vec(ty: &Type) -> bool {
    last_segment(ty).is_some_and(|last| last.ident == "Vec")
}

pub(super) fn is_parameter(ty: &Type, generics: &Generics) -> bool {
    match ty {
        Type::Path(path) => generics.type_params().any(|param| path.path.is_ident(&param.ident)),
        _ => false,
    }
}

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

fn has_parameter(ty: &Type, generics: &Generics) -> bool {
    generics.params.iter().any(|param| match param {
        // The macro has reported a state that borrows.
        GenericParam::Lifetime(_) => true,
        GenericParam::Type(param) => mentions(ty, &param.ident),
        GenericParam::Const(param) => mentions(ty, &param.ident),
    })
}

pub(super) fn is_primitive(ty: &Type) -> bool {
    match ty {
        Type::Path(path) => {
            path.path.get_ident().is_some_and(|ident| symbol::PRIMITIVES.iter().any(|name| ident == name))
        }
        _ => false,
    }
}

/// Returns true for a path without arguments and parameters, except `String` and primitive types.
pub(super) fn may_be_alias(ty: &Type, generics: &Generics) -> bool {
    let Type::Path(path) = ty else { return false };
    let is_plain = path.qself.is_none() && path.path.segments.iter().all(|segment| segment.arguments.is_none());
    let is_known = is_primitive(ty) || last_segment(ty).is_some_and(|last| last.ident == "String");
    is_plain && !is_known && !has_parameter(ty, generics)
}

/// Returns true for one of [`symbol::TEXTS`] with the argument `String`.
pub(super) fn is_texts(ty: &Type) -> bool {
    let Some(segment) = last_segment(ty) else { return false };
    let syn::PathArguments::AngleBracketed(arguments) = &segment.arguments else { return false };
    let [syn::GenericArgument::Type(inner)] = arguments.args.iter().collect::<Vec<_>>()[..] else { return false };
    symbol::TEXTS.iter().any(|name| segment.ident == name)
        && last_segment(inner).is_some_and(|last| last.ident == "String")
}

fn last_segment(ty: &Type) -> Option<&syn::PathSegment> {
    match ty {
        Type::Path(path) => path.path.segments.last(),
        _ => None,
    }
}
