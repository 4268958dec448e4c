//! Reads a view and checks its rules:
//!
//! 1. [`viewed`]: `#[view(of = State)]` names the state, once.
//! 2. [`named_fields`]: a view is a struct with named fields.
//! 3. [`lifetime`]: it has one lifetime or none.
//! 4. [`borrows`]: with a lifetime, all fields borrow for it. Without a lifetime, all fields own their values.
//! 5. [`option`]: `#[view(optional)]` stands at an owned `Option<…>`, once.

use quote::ToTokens;
use syn::ext::IdentExt;
use syn::parse::ParseStream;
use syn::{Data, DeriveInput, Fields, Generics, Ident, Lifetime, Path, Token, Type, TypeReference, parse_quote};

use crate::diag::{Errors, unknown};
use crate::fragment;
use crate::symbol;

pub(super) struct View {
    pub(super) ident: Ident,
    pub(super) generics: Generics,
    pub(super) of: Type,
    /// The value of `crate = path`.
    pub(super) home: Option<Path>,
    /// The lifetime of all fields. `None` if the fields own their values.
    pub(super) lifetime: Option<Lifetime>,
    pub(super) fields: Vec<ViewField>,
    /// False after an error in a field. The view then has no fields.
    pub(super) sound: bool,
}

pub(super) struct ViewField {
    pub(super) name: Ident,
    pub(super) ty: Type,
    pub(super) write: FieldWrite,
}

/// The write of an owned field.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum FieldWrite {
    /// Writes the value through the reducer of the channel.
    Always,
    /// `#[view(optional)]`: like `Always`, but `None` writes nothing.
    Optional,
    /// `Overwrite<…>`: replaces the value of the channel.
    Replace,
}

/// Returns `None` if the state is unknown.
pub(super) fn parse(input: DeriveInput, errors: &mut Errors) -> Option<View> {
    let before = errors.len();
    let lifetime = lifetime(&input.generics, errors);
    let viewed = viewed(&input, errors);
    let fields = named_fields(input.data, &input.ident, errors);
    for field in &fields {
        borrows(&field.name, &field.ty, lifetime.as_ref(), errors);
        if field.write == FieldWrite::Optional && lifetime.is_some() {
            errors.push(
                &field.name,
                format!("`{}` is borrowed, so nothing writes it: remove `#[view(optional)]`", field.name),
            );
        }
    }
    let sound = errors.len() == before;
    let (of, home) = viewed?;
    Some(View { ident: input.ident, generics: bounded(input.generics), of, home, lifetime, fields, sound })
}

/// Adds the bounds of a state's parameters to each type parameter without bounds.
fn bounded(mut generics: Generics) -> Generics {
    for parameter in generics.type_params_mut().filter(|parameter| parameter.bounds.is_empty()) {
        let bound = Ident::new("Parameter", parameter.ident.span());
        parameter.bounds.push(parse_quote!(__hier::#bound));
    }
    generics
}

fn viewed(input: &DeriveInput, errors: &mut Errors) -> Option<(Type, Option<Path>)> {
    let mut attributes = input.attrs.iter().filter(|attribute| attribute.path().is_ident(symbol::VIEW));
    let Some(attribute) = attributes.next() else {
        errors.push(&input.ident, format!("the view `{}` names no state: add `#[view(of = State)]`", input.ident));
        return None;
    };
    for again in attributes {
        errors.push(again, "a view has one state: remove one `#[view(…)]`");
    }
    errors.keep(attribute.parse_args_with(|input: ParseStream<'_>| {
        let (mut of, mut home) = (None, None);
        while !input.is_empty() {
            let word = input.call(Ident::parse_any);
            let is_option = word.as_ref().is_ok_and(|word| input.peek(Token![=]) || word == symbol::CRATE);
            if of.is_none() && !is_option {
                let span = word.map_or_else(|error| error.span(), |word| word.span());
                return Err(syn::Error::new(span, "a view names its state: write `of = State`"));
            }
            let word = word?;
            let known = [symbol::OF, symbol::CRATE];
            if !known.iter().any(|known| word == known) {
                return Err(syn::Error::new(word.span(), unknown("option", &word.to_string(), &known)));
            }
            input.parse::<Token![=]>()?;
            if word == symbol::OF {
                if input.peek(syn::LitStr) {
                    return Err(input.error("the state of a view is a type: remove the quotes"));
                }
                of = Some(input.parse::<Type>()?);
            } else {
                home = Some(input.call(Path::parse_mod_style)?);
            }
            if !input.is_empty() {
                input.parse::<Token![,]>()?;
            }
        }
        Ok((of.ok_or_else(|| input.error("the view names no state: write `of = State`"))?, home))
    }))
}

fn named_fields(data: Data, ident: &Ident, errors: &mut Errors) -> Vec<ViewField> {
    if let Data::Struct(data) = data
        && let Fields::Named(fields) = data.fields
    {
        return fields.named.into_iter().filter_map(|field| view_field(field, errors)).collect();
    }
    errors.push(
        ident,
        format!(
            "a view is a struct with named fields, each named like one of the state's: write `struct {ident} {{ … }}`"
        ),
    );
    Vec::new()
}

fn view_field(field: syn::Field, errors: &mut Errors) -> Option<ViewField> {
    let (name, ty) = (field.ident?, fragment::ty(field.ty));
    let mut write = if is_named(&ty, symbol::OVERWRITE) { FieldWrite::Replace } else { FieldWrite::Always };
    for attribute in field.attrs.iter().filter(|attribute| attribute.path().is_ident(symbol::VIEW)) {
        if errors.keep(option(attribute)).is_none() {
            continue;
        }
        if !is_named(&ty, "Option") && !matches!(ty, Type::Reference(_)) {
            let message = format!("`{name}` is optional, so it must be an `Option<…>` of the channel's type");
            errors.push(&ty, message);
        } else if write == FieldWrite::Optional {
            errors.push(attribute, format!("`{name}` is optional already: remove one `#[view(optional)]`"));
        }
        write = FieldWrite::Optional;
    }
    Some(ViewField { name, ty, write })
}

fn option(attribute: &syn::Attribute) -> syn::Result<()> {
    let (word, value) = attribute.parse_args_with(|input: ParseStream<'_>| {
        Ok((input.call(Ident::parse_any)?, input.parse::<proc_macro2::TokenStream>()?))
    })?;
    if word == symbol::OPTIONAL {
        let mistake = syn::Error::new_spanned(&value, "`optional` takes no value: write it alone");
        return if value.is_empty() { Ok(()) } else { Err(mistake) };
    }
    let message = unknown("option of a field:", &word.to_string(), &[symbol::OPTIONAL]);
    Err(syn::Error::new(word.span(), message))
}

/// Returns true if the last segment of the type has this name.
fn is_named(ty: &Type, name: &str) -> bool {
    match ty {
        Type::Path(path) => path.path.segments.last().is_some_and(|last| last.ident == name),
        _ => false,
    }
}

fn lifetime(generics: &Generics, errors: &mut Errors) -> Option<Lifetime> {
    let mut lifetimes = generics.lifetimes();
    let first = lifetimes.next()?;
    for more in lifetimes {
        errors.push(more, format!("a view has one lifetime: use `{}` for every field", first.lifetime));
    }
    Some(first.lifetime.clone())
}

/// A view that a node reads borrows its fields, and a view that a node writes owns them. A mixture fits neither.
fn borrows(field: &Ident, ty: &Type, lifetime: Option<&Lifetime>, errors: &mut Errors) {
    let text = || ty.to_token_stream().to_string().replace(" < ", "<").replace(" >", ">").replace(" :: ", "::");
    match (lifetime, ty) {
        (Some(wanted), Type::Reference(TypeReference { lifetime: Some(found), mutability: None, .. })) => {
            if found != wanted {
                errors.push(found, format!("all fields of a view have the same lifetime: write `&{wanted} …`"));
            }
        }
        (Some(wanted), Type::Reference(TypeReference { mutability: Some(word), .. })) => {
            errors.push(word, format!("a node cannot change the state in place: write `&{wanted} …` and return an update"));
        }
        (Some(wanted), Type::Reference(_)) => {
            errors.push(ty, format!("all fields of a view have the same lifetime: write `&{wanted} …`"));
        }
        (Some(wanted), _) => errors.push(
            ty,
            format!(
                "a view borrows all its fields (to read) or owns all (to write, and for `input:` and `output:`), and `{field}` is owned: \
                 write `&{wanted} {}`, or remove `{wanted}` everywhere",
                text()
            ),
        ),
        (None, Type::Reference(TypeReference { lifetime: Some(_), .. })) => errors.push(
            ty,
            format!(
                "a view owns all its fields (to write, and for `input:` and `output:`) or borrows all (to read), and `{field}` is \
                 borrowed: own it, or give the view a lifetime and borrow every field for it"
            ),
        ),
        // The compiler reports a reference without a lifetime.
        (None, _) => {}
    }
}
