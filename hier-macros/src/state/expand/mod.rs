//! The code of a state: types that the user names, then implementations in a separate scope.

mod keys;
mod secret;
mod shape;
mod update;
mod values;

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{GenericParam, Generics, Type, TypePath, WherePredicate, parse_quote};

use super::model::{ChannelModel, Flattened, StateModel, may_be_alias, mentions};

pub(super) use shape::{hash, hash64};

pub(super) fn expand(model: &StateModel) -> TokenStream {
    let names = StateNames::new(model);
    let hier = &model.hier;
    let (keys, key_impls) = keys::expand(model, &names);
    let (update, update_impls) = update::expand(model, &names);
    let values = values::expand(model, &names);
    let shares = shape::expand(model, &names);
    let secret = secret::expand(model, &names);
    let flattened = model.flattened.as_ref().and_then(|flattened| flattened.declared(hier));
    let checked = names.checked.as_ref().map(|alias| checked(model, alias));
    let unmanaged = unmanaged(model);
    quote! {
        #flattened
        #checked
        #keys
        #update
        #[allow(deprecated, non_snake_case, unused_qualifications)]
        const _: () = {
            use #hier as __hier;
            #key_impls
            #update_impls
            #values
            #shares
            #secret
            #unmanaged
        };
    }
}

struct StateNames {
    write: Ident,
    update: Ident,
    setters: Ident,
    channels: Ident,
    /// The alias of the state that is known only if its types pass the checks. `None` if a parameter has bounds,
    /// because [`checked`] cannot find a type that satisfies them.
    checked: Option<Ident>,
    /// The first statement of code with a constant. The compiler must not evaluate a constant whose condition is
    /// unknown.
    known: Option<TokenStream>,
    /// The user's type parameters with the bounds of a state.
    declared: Generics,
    /// The declared generics with the condition that the checks passed. If the checks failed, the compiler reports only
    /// the checks and no errors in the items with this condition.
    generics: Generics,
    state: TokenStream,
}

impl StateNames {
    fn new(model: &StateModel) -> Self {
        let ident = &model.ident;
        let declared = bounded(model);
        let checked = has_free_parameters(&model.generics).then(|| format_ident!("__{}State", ident.unraw()));
        let mut generics = declared.clone();
        if let Some(alias) = &checked {
            generics.make_where_clause().predicates.push(parse_quote!(#alias: ::core::marker::Sized));
        }
        let mut arguments: Vec<TokenStream> = Vec::new();
        for param in &model.generics.params {
            arguments.push(match param {
                // The macro has reported a state that borrows.
                GenericParam::Lifetime(_) => quote!('static),
                GenericParam::Type(param) => param.ident.to_token_stream(),
                GenericParam::Const(param) => param.ident.to_token_stream(),
            });
        }
        let state = if arguments.is_empty() { quote!(#ident) } else { quote!(#ident<#(#arguments),*>) };
        Self {
            write: format_ident!("{ident}Write"),
            update: format_ident!("{ident}Update"),
            setters: format_ident!("{ident}Setters"),
            channels: format_ident!("{ident}Channels"),
            known: checked.as_ref().map(|alias| quote!(__hier::known::<#alias>();)),
            checked,
            declared,
            generics,
            state,
        }
    }

    fn with(&self, param: GenericParam) -> Generics {
        let mut generics = self.generics.clone();
        generics.params.push(param);
        generics
    }
}

/// Generates the alias of the state, and checks of its derives and of the types of its channels. Each check has the
/// span of the user's token. A type that mentions the state is not checked here, because it may depend on code that
/// depends on the alias.
///
/// The checks of a generic state replace each parameter by a type that has only the bounds of a state, because a
/// constant cannot name a parameter.
fn checked(model: &StateModel, alias: &Ident) -> TokenStream {
    let StateModel { hier, ident, .. } = model;
    let parameters: Vec<&Ident> = model.generics.type_params().map(|param| &param.ident).collect();
    let (state, in_check) = match &parameters[..] {
        [] => (ident.to_token_stream(), ident.to_token_stream()),
        parameters => {
            let any = parameters.iter().map(|_| quote!(#hier::AnyParameter));
            (quote!(#ident<#(#any),*>), quote!(#ident<#(#parameters),*>))
        }
    };
    let types = model.channels.iter().filter(|channel| !mentions(&channel.ty, ident)).map(|channel| {
        let (ty, check) = (&channel.ty, if channel.is_persisted() { "channel_type" } else { "untracked_type" });
        let check = Ident::new(check, Span::call_site());
        quote!(#hier::#check::<#ty>();)
    });
    let flattened = model
        .flattened
        .iter()
        .filter(|flattened| flattened.alias.is_none())
        .map(|Flattened { ty, .. }| quote_spanned!(ty.span()=> let _ = <#ty as #hier::State>::CHANNELS;));
    quote! {
        #[cfg(doc)]
        #[allow(deprecated, non_camel_case_types)]
        type #alias = #state;
        #[cfg(not(doc))]
        #[allow(deprecated, non_camel_case_types)]
        type #alias = <#hier::Checked<#state, {
            #(#[allow(dead_code)] type #parameters = #hier::AnyParameter;)*
            #(#types)*
            #(#flattened)*
            #hier::state_type::<#in_check>();
            true
        }> as #hier::Known>::Type;
    }
}

/// Generates the checks that no channel has a managed type under another name. The macro knows such a type only by its
/// name.
fn unmanaged(model: &StateModel) -> TokenStream {
    let checks = model.channels.iter().filter(|channel| may_be_alias(&channel.ty, &model.generics)).map(|channel| {
        let (ty, field) = (&channel.ty, channel.field.unraw());
        let message = format!(
            "the type of `{field}` is an alias of `RemainingSteps` or `IsLastStep`, which the macro knows by name only: write that name"
        );
        quote_spanned! {ty.span()=>
            const _: () = {
                #[allow(unused_imports)]
                use __hier::Unmanaged as _;
                ::core::assert!(!__hier::ManagedType::<#ty>::IS_MANAGED, #message);
            };
        }
    });
    checks.collect()
}

/// Returns true if no parameter has bounds, so that [`checked`] can replace it.
fn has_free_parameters(generics: &Generics) -> bool {
    let free = |param: &GenericParam| matches!(param, GenericParam::Type(param) if param.bounds.is_empty());
    generics.params.iter().all(free) && generics.where_clause.is_none()
}

/// Adds the bounds of a state to the type parameters and to their associated types, and removes defaults.
///
/// A parameter that only untracked channels use need not be persistable.
fn bounded(model: &StateModel) -> Generics {
    let hier = &model.hier;
    let mut generics = model.generics.clone();
    for channel in &model.channels {
        let bound = if channel.is_persisted() { "Parameter" } else { "Carried" };
        let predicates = &mut generics.make_where_clause().predicates;
        predicates.extend(associated_types(&channel.ty, &model.generics).into_iter().map(|ty| -> WherePredicate {
            let bound = Ident::new(bound, ty.span());
            parse_quote!(#ty: #hier::#bound)
        }));
    }
    generics.params = generics
        .params
        .into_iter()
        .filter_map(|param| match param {
            GenericParam::Lifetime(_) => None,
            GenericParam::Type(mut param) => {
                let persisted =
                    model.channels.iter().filter(|channel| channel.is_persisted()).map(|channel| &channel.ty);
                let mut types = persisted.chain(model.flattened.iter().map(|flattened| &flattened.ty));
                let bound = if types.any(|ty| mentions(ty, &param.ident)) { "Parameter" } else { "Carried" };
                let bound = Ident::new(bound, param.ident.span());
                param.bounds.push(parse_quote!(#hier::#bound));
                param.default = None;
                Some(GenericParam::Type(param))
            }
            GenericParam::Const(mut param) => {
                param.default = None;
                Some(GenericParam::Const(param))
            }
        })
        .collect();
    generics
}

/// Returns the types such as `T::Item` and `<T as Trait>::Item` in a type.
fn associated_types(ty: &Type, generics: &Generics) -> Vec<TypePath> {
    struct Found<'a>(&'a Generics, Vec<TypePath>);
    impl<'ast> Visit<'ast> for Found<'_> {
        fn visit_type_path(&mut self, path: &'ast TypePath) {
            let first = path.path.segments.first().map(|first| &first.ident);
            let is_associated = self.0.type_params().any(|param| match &path.qself {
                Some(qself) => mentions(&qself.ty, &param.ident),
                None => first == Some(&param.ident) && path.path.segments.len() > 1,
            });
            if is_associated {
                self.1.push(path.clone());
            } else {
                visit::visit_type_path(self, path);
            }
        }
    }
    let mut found = Found(generics, Vec::new());
    found.visit_type(ty);
    found.1
}

impl Flattened {
    /// Returns the alias, which contains the only check that the type is a state. If the constant cannot be evaluated,
    /// the dependent type is unknown, so that the compiler reports the mistake once. Documentation shows the type
    /// itself.
    fn declared(&self, hier: &TokenStream) -> Option<TokenStream> {
        let (ty, alias) = (&self.ty, self.alias.as_ref()?);
        Some(quote_spanned! {ty.span()=>
            #[cfg(doc)]
            type #alias = #ty;
            #[cfg(not(doc))]
            type #alias = <#hier::Checked<#ty, { let _ = <#ty as #hier::State>::CHANNELS; true }> as #hier::Known>::Type;
        })
    }

    /// Returns the name of the type for all other code.
    fn checked(&self) -> TokenStream {
        self.alias.as_ref().map_or_else(|| self.ty.to_token_stream(), ToTokens::to_token_stream)
    }

    fn item(&self, hier: &TokenStream, of: &str, item: &str) -> TokenStream {
        let (ty, here) = (self.checked(), self.ty.span());
        let (of, item) = (Ident::new(of, here), Ident::new(item, here));
        quote_spanned!(here=> <#ty as #hier::#of>::#item)
    }
}

/// Generates code for each channel of the struct, with its index.
fn each(model: &StateModel, code: impl Fn(usize, &ChannelModel) -> TokenStream) -> Vec<TokenStream> {
    model.channels.iter().enumerate().map(|(index, channel)| code(index, channel)).collect()
}
