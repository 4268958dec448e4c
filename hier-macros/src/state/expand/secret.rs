//! The code of secret channels: a `Debug` that does not show them, and constants for the checks.

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::ext::IdentExt;

use super::StateNames;
use crate::state::model::{StateModel, variant};

pub(super) fn expand(model: &StateModel, names: &StateNames) -> TokenStream {
    let StateNames { state, declared: generics, .. } = names;
    let (impl_generics, _, conditions) = generics.split_for_impl();
    let debug = debug(model, names);
    quote! {
        #[automatically_derived]
        impl #impl_generics __hier::Shows for #state #conditions {
            const SHOWS: __hier::ShownChannels = __hier::ShownChannels::all(<#state as __hier::State>::CHANNELS);
        }
        #debug
    }
}

/// Adds the fields of the secret channels to the table.
pub(super) fn hiding(model: &StateModel) -> Option<TokenStream> {
    let secrets = model.channels.iter().filter(|channel| channel.secret.is_some());
    let fields: Vec<_> = secrets.map(|channel| channel.field.unraw().to_string()).collect();
    (!fields.is_empty()).then(|| quote!(.hiding(&[#(#fields),*])))
}

pub(super) fn is_secret(model: &StateModel, names: &StateNames) -> Option<TokenStream> {
    let known = &names.known;
    let secrets = model.channels.iter().filter(|channel| channel.secret.is_some());
    let own: Vec<_> = secrets.map(|channel| variant(&channel.field)).collect();
    let flattened = model.flattened.as_ref().map(|flattened| {
        let variant = variant(&flattened.field);
        quote!(Self::#variant(ref __write) => __hier::ChannelWrite::is_secret(__write),)
    });
    (!own.is_empty() || flattened.is_some()).then(|| {
        quote! {
            fn is_secret(&self) -> ::core::primitive::bool {
                #known
                match *self { #(Self::#own(..) => true,)* #flattened _ => false, }
            }
        }
    })
}

/// `impl Debug` for a state with a secret channel. It has the span of `secret`, so that the compiler shows the word
/// next to a derived `Debug`, which would show the value.
fn debug(model: &StateModel, names: &StateNames) -> Option<TokenStream> {
    let here = model.channels.iter().find_map(|channel| channel.secret)?;
    let StateNames { state, declared: generics, .. } = names;
    let (impl_generics, _, conditions) = generics.split_for_impl();
    let name = model.ident.unraw().to_string();
    let channels = model.channels.iter().map(|channel| (&channel.field, &channel.ty, channel.secret.is_some()));
    let flattened = model.flattened.iter().map(|flattened| (&flattened.field, &flattened.ty, false));
    let managed = model.managed.iter().map(|managed| (&managed.field, &managed.ty, false));
    let fields = channels.chain(flattened).chain(managed).map(|(field, ty, is_secret)| {
        let text = field.unraw().to_string();
        if is_secret {
            quote!(.field(#text, &__hier::Hidden))
        } else {
            quote!(.field(#text, __hier::DebugOf::<#ty>::TYPE.shown(&self.#field)))
        }
    });
    let header = quote_spanned!(here=> impl #impl_generics ::core::fmt::Debug for #state #conditions);
    Some(quote! {
        #[automatically_derived]
        #header {
            fn fmt(&self, __f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                __f.debug_struct(#name) #(#fields)* .finish()
            }
        }
    })
}
