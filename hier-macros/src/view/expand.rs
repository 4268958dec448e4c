//! The code of a view.

use proc_macro2::{Ident, TokenStream};
use quote::{quote, quote_spanned};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{Generics, Type, parse_quote};

use super::parse::{FieldWrite, View, ViewField};

pub(super) fn expand(view: &View, hier: &TokenStream) -> TokenStream {
    let code = match &view.lifetime {
        Some(_) => borrowed(view),
        None => owned(view),
    };
    let shows = shows(view);
    quote! {
        #[allow(non_snake_case, unused_qualifications)]
        const _: () = {
            use #hier as __hier;
            #code
            #shows
        };
    }
}

/// Returns the view's generics with a parameter for a state that contains the viewed state, and with more parameters.
fn over(view: &View, more: &[&str]) -> Generics {
    let of = &view.of;
    let mut generics = view.generics.clone();
    generics.params.push(parse_quote!(__State: __hier::Contains<#of>));
    generics.params.extend(more.iter().map(|name| -> syn::GenericParam {
        let name = Ident::new(name, proc_macro2::Span::call_site());
        parse_quote!(#name)
    }));
    generics
}

fn shows(view: &View) -> TokenStream {
    let View { ident, of, .. } = view;
    let (impl_generics, arguments, conditions) = view.generics.split_for_impl();
    let fields = view.fields.iter().filter(|_| view.sound).map(|field| field.name.unraw().to_string());
    let hashes = hashes(view, |_| view.sound);
    quote! {
        #[automatically_derived]
        impl #impl_generics __hier::Shows for #ident #arguments #conditions {
            const SHOWS: __hier::ShownChannels = __hier::ShownChannels::of(
                <#of as __hier::State>::CHANNELS,
                <#of as __hier::State>::FIELDS,
                [#((#fields, #hashes)),*],
            );
        }
    }
}

/// `impl BorrowedFrom`, which borrows each field from the state, and `impl Extract`.
fn borrowed(view: &View) -> TokenStream {
    let View { ident, of, lifetime, .. } = view;
    let generics = over(view, &["__Context"]);
    let (impl_generics, _, conditions) = generics.split_for_impl();
    let of_state = over(view, &[]);
    let (impl_borrowed, _, borrowed_conditions) = of_state.split_for_impl();
    let (_, arguments, _) = view.generics.split_for_impl();
    let body = body(view, |ViewField { name, ty, .. }| {
        let (keys, state, bind) = bound(ty);
        let value = quote_spanned!(ty.span()=> #keys.#name.get(#state));
        quote!(#name: { #bind #value },)
    });
    let reads = view.sound.then(|| {
        let channels = channels(view, |_| true);
        quote!(const READS: __hier::Reads = __hier::Reads::channels(#channels);)
    });
    quote! {
        #[automatically_derived]
        impl #impl_borrowed __hier::BorrowedFrom<#lifetime, __State> for #ident #arguments #borrowed_conditions {
            #[allow(unreachable_code)]
            fn borrowed_from(__state: &#lifetime __State) -> Self {
                let __state = <__State as __hier::Contains<#of>>::part(__state);
                #body
            }
        }
        #[automatically_derived]
        impl #impl_generics __hier::Extract<#lifetime, __State, __Context> for #ident #arguments #conditions {
            type Accepts = __hier::NoPayload;
            const QUESTIONS: __hier::QuestionFacts = __hier::QuestionFacts::Nothing;
            #reads
            fn extract(
                __task: &#lifetime __hier::Task<__State, __Context>,
            ) -> ::core::result::Result<Self, __hier::NodeError> {
                ::core::result::Result::Ok(<Self as __hier::BorrowedFrom<#lifetime, __State>>::borrowed_from(__task.state()))
            }
        }
    }
}

fn channels(view: &View, chosen: impl Fn(&ViewField) -> bool) -> TokenStream {
    let (of, fields) = (&view.of, hashes(view, chosen));
    quote! {
        <#of as __hier::State>::FIELDS.set(<__State as __hier::Contains<#of>>::FIRST, [#(#fields),*])
    }
}

fn hashes(view: &View, chosen: impl Fn(&ViewField) -> bool) -> Vec<u64> {
    let fields = view.fields.iter().filter(|field| chosen(field));
    fields.map(|field| crate::state::field_hash(&field.name)).collect()
}

/// Generates three implementations: `IntoUpdate`, which writes each field, the output of nodes, which consists of these
/// writes, and `GraphOutput`, which copies each field.
fn owned(view: &View) -> TokenStream {
    let ident = &view.ident;
    let update = update(view);
    let output = output(view);
    let (impl_generics, arguments, conditions) = view.generics.split_for_impl();
    let of_state = over(view, &[]);
    let (impl_output, _, output_conditions) = of_state.split_for_impl();
    quote! {
        #[automatically_derived]
        impl #impl_generics __hier::OwnedView for #ident #arguments #conditions {}
        #update
        #[automatically_derived]
        impl #impl_output __hier::IntoOutput<__State> for #ident #arguments #output_conditions {
            const WRITES: __hier::WriteClaim = <Self as __hier::IntoUpdate<__State>>::WRITES;
            fn into_output(self) -> __hier::NodeResult<__State> {
                ::core::result::Result::Ok(__hier::Output::written(self))
            }
        }
        #output
    }
}

fn update(view: &View) -> TokenStream {
    let View { ident, of, .. } = view;
    let generics = over(view, &[]);
    let (impl_generics, _, conditions) = generics.split_for_impl();
    let (_, arguments, _) = view.generics.split_for_impl();
    let writes = view.fields.iter().filter(|_| view.sound).map(|ViewField { name, ty, write }| {
        // All names except the key have the span of the type, so that the compiler reports a mistake there and once.
        let [writes, key, value] = ["__writes", "__key", "__value"].map(|name| Ident::new(name, ty.span()));
        let function = match write {
            FieldWrite::Always => "write_field",
            FieldWrite::Optional => "write_optional",
            FieldWrite::Replace => "replace_field",
        };
        let function = Ident::new(function, ty.span());
        let write = quote_spanned!(ty.span()=> __hier::#function::<__State, #of, _>(#writes, #key, #value));
        quote!({
            let (#writes, #key, #value) = (&mut *__writes, &__keys.#name, self.#name);
            #write;
        })
    });
    let claim = view.sound.then(|| {
        let always = channels(view, |field| field.write != FieldWrite::Optional);
        let sometimes = channels(view, |field| field.write == FieldWrite::Optional);
        quote!(const WRITES: __hier::WriteClaim = __hier::WriteClaim::of(#always, #sometimes);)
    });
    quote! {
        #[automatically_derived]
        impl #impl_generics __hier::IntoUpdate<__State> for #ident #arguments #conditions {
            #claim
            #[allow(unused_variables)]
            fn write_into(self, __writes: &mut __hier::Writes<__State>) {
                let __keys = <#of as __hier::State>::KEYS;
                #(#writes)*
            }
        }
    }
}

/// Implements `GraphOutput`. A view with an `Overwrite` can only write.
fn output(view: &View) -> Option<TokenStream> {
    let View { ident, of, .. } = view;
    if view.fields.iter().any(|field| field.write == FieldWrite::Replace) {
        return None;
    }
    let generics = over(view, &[]);
    let (impl_generics, _, conditions) = generics.split_for_impl();
    let (_, arguments, _) = view.generics.split_for_impl();
    let body = body(view, |ViewField { name, ty, write }| {
        let (keys, state, bind) = bound(ty);
        let value = quote_spanned!(ty.span()=> __hier::cloned(#keys.#name.get(#state)));
        if *write == FieldWrite::Optional {
            quote!(#name: { #bind ::core::option::Option::Some(#value) },)
        } else {
            quote!(#name: { #bind #value },)
        }
    });
    Some(quote! {
        #[automatically_derived]
        impl #impl_generics __hier::GraphOutput<__State> for #ident #arguments #conditions {
            fn from_state(__state: &__State) -> Self {
                let __state = <__State as __hier::Contains<#of>>::part(__state);
                #body
            }
        }
    })
}

/// The keys and the state, with the span of the type. In a `macro_rules!`, the type comes from the caller, so its names
/// may differ from those of the surrounding code.
fn bound(ty: &Type) -> (Ident, Ident, TokenStream) {
    let [keys, state] = ["__keys", "__state"].map(|name| Ident::new(name, ty.span()));
    let bind = quote!(let (#keys, #state) = (__keys, __state););
    (keys, state, bind)
}

/// The view as an expression. A view with an error is never constructed.
fn body(view: &View, value: impl Fn(&ViewField) -> TokenStream) -> TokenStream {
    if !view.sound {
        return quote!({
            let _ = __state;
            ::core::unreachable!("the view does not compile")
        });
    }
    let of = &view.of;
    let fields = view.fields.iter().map(value);
    quote!({ let __keys = <#of as __hier::State>::KEYS; let _ = (__keys, __state); Self { #(#fields)* } })
}
