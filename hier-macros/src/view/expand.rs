//! The code of a view.

use proc_macro2::{Ident, TokenStream};
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Generics, Type, parse_quote};

use super::parse::View;

pub(super) fn expand(view: &View, hier: &TokenStream) -> TokenStream {
    let code = match &view.lifetime {
        Some(_) => borrowed(view),
        None => owned(view),
    };
    quote! {
        #[allow(unused_qualifications)]
        const _: () = {
            use #hier as __hier;
            #code
        };
    }
}

/// The view's generics, with a state that contains the viewed one, and more parameters.
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

/// `impl Extract`, which borrows each field from the state.
fn borrowed(view: &View) -> TokenStream {
    let View { ident, of, lifetime, .. } = view;
    let generics = over(view, &["__Context"]);
    let (impl_generics, _, conditions) = generics.split_for_impl();
    let (_, arguments, _) = view.generics.split_for_impl();
    let body = body(view, |field, ty| {
        let (keys, state, bind) = bound(ty);
        let value = quote_spanned!(ty.span()=> #keys.#field.get(#state));
        quote!(#field: { #bind #value },)
    });
    // Written as in `body`, so that the compiler reports an error of a field once.
    let names = view.fields.iter().map(|(field, _)| quote!(__keys.#field.input_name()));
    let reads = view.sound.then(|| {
        quote! {
            const READS: __hier::Reads = __hier::Reads::Channels(|| {
                let __keys = <#of as __hier::State>::KEYS;
                let _ = __keys;
                ::std::vec![#(#names),*]
            });
        }
    });
    quote! {
        #[automatically_derived]
        impl #impl_generics __hier::Extract<#lifetime, __State, __Context> for #ident #arguments #conditions {
            type Accepts = __hier::NoPayload;
            const QUESTIONS: __hier::QuestionFacts = __hier::QuestionFacts::Nothing;
            #reads
            #[allow(unreachable_code)]
            fn extract(
                __task: &#lifetime __hier::Task<__State, __Context>,
            ) -> ::core::result::Result<Self, __hier::NodeError> {
                let __state = <__State as __hier::Contains<#of>>::part(__task.state());
                ::core::result::Result::Ok(#body)
            }
        }
    }
}

/// `impl GraphInput`, which writes each field, and `impl GraphOutput`, which copies each field.
fn owned(view: &View) -> TokenStream {
    let View { ident, of, .. } = view;
    let generics = over(view, &[]);
    let (impl_generics, _, conditions) = generics.split_for_impl();
    let (_, arguments, _) = view.generics.split_for_impl();
    let writes = view.fields.iter().filter(|_| view.sound).map(|(field, ty)| {
        // Everything except the key has the span of the type, so that a mistake is reported there and once.
        let [writes, key, value] = ["__writes", "__key", "__value"].map(|name| Ident::new(name, ty.span()));
        let write = quote_spanned!(ty.span()=> __hier::write_field::<__State, #of, _>(#writes, #key, #value));
        quote!({
            let (#writes, #key, #value) = (&mut __writes, &__keys.#field, self.#field);
            #write;
        })
    });
    let body = body(view, |field, ty| {
        let (keys, state, bind) = bound(ty);
        let value = quote_spanned!(ty.span()=> __hier::cloned(#keys.#field.get(#state)));
        quote!(#field: { #bind #value },)
    });
    quote! {
        #[automatically_derived]
        impl #impl_generics __hier::GraphInput<__State, #ident #arguments> for #ident #arguments #conditions {
            #[allow(unused_mut, unused_variables)]
            fn into_input(self) -> __hier::Input<__State> {
                let __keys = <#of as __hier::State>::KEYS;
                let mut __writes = __hier::Writes::new();
                #(#writes)*
                __hier::Input::New(__writes)
            }
        }
        #[automatically_derived]
        impl #impl_generics __hier::GraphOutput<__State> for #ident #arguments #conditions {
            fn from_state(__state: &__State) -> Self {
                let __state = <__State as __hier::Contains<#of>>::part(__state);
                #body
            }
        }
    }
}

/// The keys and the state, with the span of the type. In a `macro_rules!`, the type comes from the caller, so its names
/// may differ from those of the surrounding code.
fn bound(ty: &Type) -> (Ident, Ident, TokenStream) {
    let [keys, state] = ["__keys", "__state"].map(|name| Ident::new(name, ty.span()));
    let bind = quote!(let (#keys, #state) = (__keys, __state););
    (keys, state, bind)
}

/// The view as an expression. A view with an error is never constructed.
fn body(view: &View, value: impl Fn(&Ident, &Type) -> TokenStream) -> TokenStream {
    if !view.sound {
        return quote!({
            let _ = __state;
            ::core::unreachable!("the view does not compile")
        });
    }
    let of = &view.of;
    let fields = view.fields.iter().map(|(field, ty)| value(field, ty));
    quote!({ let __keys = <#of as __hier::State>::KEYS; let _ = (__keys, __state); Self { #(#fields)* } })
}
