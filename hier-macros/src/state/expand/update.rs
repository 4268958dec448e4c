//! `FilingWrite`, one write; `FilingUpdate`, a list of writes with a method for each channel; `FilingSetters`, the same
//! methods on the updates of states that flatten this one.

use proc_macro2::{Ident, TokenStream};
use quote::{format_ident, quote, quote_spanned};
use syn::parse_quote;
use syn::spanned::Spanned;

use super::{StateNames, each, secret};
use crate::diag::local;
use crate::state::model::{ChannelForm, ChannelModel, StateModel, is_primitive, is_texts, variant};

pub(super) fn expand(model: &StateModel, names: &StateNames) -> (TokenStream, TokenStream) {
    let types = [write_type(model, names), update_type(model, names), setters(model, names)];
    let impls = [
        channel_write(model, names),
        encoders(model, names),
        write_debug(names),
        update(names),
        conversions(model, names),
    ];
    (types.into_iter().collect(), impls.into_iter().collect())
}

fn write_type(model: &StateModel, names: &StateNames) -> TokenStream {
    let StateNames { write, generics, .. } = names;
    let (impl_generics, _, conditions) = generics.split_for_impl();
    let vis = &model.vis;
    let hier = &model.hier;
    let own = each(model, |_, channel| {
        let (variant, ty) = (variant(&channel.field), &channel.ty);
        if channel.is_reduced() { quote!(#variant(#hier::Write<#ty>),) } else { quote!(#variant(#ty),) }
    });
    let flattened = model.flattened.as_ref().map(|flattened| {
        let (variant, write) = (variant(&flattened.field), flattened.item(&model.hier, "Values", "Write"));
        quote!(#variant(#write),)
    });
    quote! {
        #[doc(hidden)]
        #[allow(non_camel_case_types, dead_code, deprecated, private_interfaces, clippy::large_enum_variant)]
        #[derive(::core::clone::Clone)]
        #vis enum #write #impl_generics #conditions { #(#own)* #flattened }
    }
}

fn channel_write(model: &StateModel, names: &StateNames) -> TokenStream {
    let StateNames { write, known, generics, .. } = names;
    let (impl_generics, arguments, conditions) = generics.split_for_impl();
    let flattened = model.flattened.as_ref();
    let own = model.channels.len();
    let indices = each(model, |index, ChannelModel { field, .. }| {
        let variant = variant(field);
        quote!(Self::#variant(..) => #index,)
    });
    let stored = each(model, write_stored);
    let into_any = each(model, |_, channel| {
        let variant = variant(&channel.field);
        let value = if channel.is_reduced() { quote!(__write) } else { quote!(__hier::Write::Merge(__write)) };
        quote!(Self::#variant(__write) => __hier::boxed(#value),)
    });
    let from_any = each(model, |index, channel| {
        let variant = variant(&channel.field);
        let unboxed = if channel.is_reduced() { quote!(unboxed) } else { quote!(unboxed_value) };
        quote!(#index => __hier::#unboxed(__write).map(Self::#variant),)
    });
    let inner = flattened.map(|flattened| (variant(&flattened.field), flattened.item(&model.hier, "Values", "Write")));
    let inner_arm =
        |call: TokenStream| inner.as_ref().map(|(variant, _)| quote!(Self::#variant(ref __write) => #call,));
    let inner_index = inner_arm(quote!(#own + __hier::ChannelWrite::channel(__write)));
    let inner_stored = inner_arm(quote!(__hier::ChannelWrite::stored(__write)));
    let inner_into =
        inner.as_ref().map(|(variant, _)| quote!(Self::#variant(__write) => __hier::ChannelWrite::into_any(__write),));
    let inner_from = inner.as_ref().map_or_else(
        || quote!(::core::option::Option::None),
        // A method of the standard library would show its source in the error for a type that is not a state.
        |(variant, inner)| {
            quote! {
                match <#inner as __hier::ChannelWrite>::from_any(__channel - #own, __spec, __write) {
                    ::core::option::Option::Some(__write) => ::core::option::Option::Some(Self::#variant(__write)),
                    ::core::option::Option::None => ::core::option::Option::None,
                }
            }
        },
    );
    let inner_name = inner_arm(quote!(__hier::ChannelWrite::name(__write)));
    let overwrites = overwrites(model);
    let merges = merges(model);
    let is_secret = secret::is_secret(model, names);
    quote! {
        #[automatically_derived]
        impl #impl_generics __hier::Sealed for #write #arguments #conditions {}

        #[automatically_derived]
        #[allow(unreachable_patterns, unused_variables)]
        impl #impl_generics __hier::ChannelWrite for #write #arguments #conditions {
            #[inline]
            fn channel(&self) -> ::core::primitive::usize {
                #known
                match *self { #(#indices)* #inner_index }
            }
            fn name(&self) -> &::core::primitive::str {
                #known
                match *self { #inner_name _ => __hier::name(__OWN, __hier::ChannelWrite::channel(self)) }
            }
            #[inline]
            fn is_overwrite(&self) -> ::core::primitive::bool {
                #known
                match *self { #overwrites }
            }
            #[inline]
            fn is_merged(&self) -> ::core::primitive::bool {
                #known
                match *self { #merges }
            }
            #is_secret
            fn stored(&self) -> ::core::option::Option<&dyn __hier::Stored> {
                #known
                match *self { #(#stored)* #inner_stored }
            }
            fn into_any(self) -> __hier::BoxedWrite {
                #known
                match self { #(#into_any)* #inner_into }
            }
            fn from_any(
                __channel: ::core::primitive::usize,
                __spec: &__hier::ChannelSpec,
                __write: __hier::BoxedWrite,
            ) -> ::core::option::Option<Self> {
                #known
                match __channel { #(#from_any)* _ => #inner_from, }
            }
        }
    }
}

fn overwrites(model: &StateModel) -> TokenStream {
    let own = |variant: Ident| quote!(Self::#variant(ref __write) => __write.is_overwrite(),);
    of_reduced(model, own, &quote!(is_overwrite))
}

fn merges(model: &StateModel) -> TokenStream {
    of_reduced(model, |variant| quote!(Self::#variant(..) => true,), &quote!(is_merged))
}

/// Generates the arms of a method that is false for channels without a reducer. Includes the arm of the flattened
/// state.
fn of_reduced(model: &StateModel, own: impl Fn(Ident) -> TokenStream, method: &TokenStream) -> TokenStream {
    let reduced = model.channels.iter().filter(|channel| channel.is_reduced());
    let own = reduced.map(|ChannelModel { field, .. }| own(variant(field)));
    let flattened = model.flattened.as_ref().map(|flattened| {
        let variant = variant(&flattened.field);
        quote!(Self::#variant(ref __write) => __hier::ChannelWrite::#method(__write),)
    });
    quote!(#(#own)* #flattened _ => false,)
}

fn write_stored(_: usize, channel: &ChannelModel) -> TokenStream {
    let variant = variant(&channel.field);
    let stored = stored(channel);
    match channel.kind {
        ChannelForm::Untracked => quote!(Self::#variant(..) => ::core::option::Option::None,),
        ChannelForm::Reduced { .. } | ChannelForm::Topic { .. } => {
            quote!(Self::#variant(ref __write) => ::core::option::Option::Some(Self::#stored(__write.value())),)
        }
        ChannelForm::Last | ChannelForm::Ephemeral => {
            quote!(Self::#variant(ref __write) => ::core::option::Option::Some(Self::#stored(__write)),)
        }
    }
}

/// The function that returns a channel's value for storage.
pub(super) fn stored(channel: &ChannelModel) -> Ident {
    format_ident!("__{}_stored", channel.field)
}

/// Defines the functions that [`stored`] names. Each has the span of its channel's type, so that the compiler reports a
/// type that cannot be persisted at this type. Values and writes share the function, so that the error appears once.
fn encoders(model: &StateModel, names: &StateNames) -> TokenStream {
    let StateNames { write, known, generics, .. } = names;
    let (impl_generics, arguments, conditions) = generics.split_for_impl();
    let functions = model.channels.iter().filter(|channel| channel.is_persisted()).map(|channel| {
        let (name, ty, value) = (stored(channel), &channel.ty, Ident::new("__value", channel.ty.span()));
        let body = quote_spanned!(ty.span()=> __hier::stored(#value));
        // The lifetime has a name, because the type may contain `'static`.
        quote!(fn #name<'__value>(#value: &'__value #ty) -> &'__value dyn __hier::Stored { #known #body })
    });
    quote! {
        #[automatically_derived]
        impl #impl_generics #write #arguments #conditions { #(#functions)* }
    }
}

/// `impl Debug` of a write: the channel's name, because its value may not implement `Debug`.
fn write_debug(names: &StateNames) -> TokenStream {
    let StateNames { write, generics, .. } = names;
    let (impl_generics, arguments, conditions) = generics.split_for_impl();
    quote! {
        #[automatically_derived]
        impl #impl_generics ::core::fmt::Debug for #write #arguments #conditions {
            fn fmt(&self, __f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                __f.write_str(__hier::ChannelWrite::name(self))
            }
        }
    }
}

fn update_type(model: &StateModel, names: &StateNames) -> TokenStream {
    let StateNames { update, state, declared, .. } = names;
    let (impl_generics, arguments, conditions) = declared.split_for_impl();
    let (vis, hier) = (&model.vis, &model.hier);
    let methods = settable(model).map(|channel| {
        let (doc, method) = setter(channel, names, &model.hier);
        let docs = &channel.docs;
        quote!(#doc #(#docs)* #vis #method)
    });
    // A write of a managed field gets a separate message.
    let managed = model.managed.iter().map(|managed| {
        let field = &managed.field;
        quote! {
            #[doc(hidden)]
            #vis fn #field<__Value: #hier::WritableChannel>(self, _: __Value) -> Self {
                self
            }
        }
    });
    let doc = format!(
        "An update of [`{}`], with a method for each channel. If you set a channel twice, its reducer merges both values. Without a reducer, the last value counts.",
        model.ident
    );
    quote! {
        #[doc = #doc]
        #[allow(deprecated)]
        #[must_use = "an update does nothing until a node returns it"]
        #vis struct #update #impl_generics (#hier::Writes<#state>) #conditions;

        #[automatically_derived]
        #[allow(dead_code, deprecated, non_snake_case, private_interfaces)]
        impl #impl_generics #update #arguments #conditions { #(#methods)* #(#managed)* }
    }
}

/// The trait with the same methods on every update that contains this one's channels.
fn setters(model: &StateModel, names: &StateNames) -> TokenStream {
    let StateNames { setters, state, declared: generics, .. } = names;
    let (vis, hier) = (&model.vis, &model.hier);
    let methods = settable(model).map(|channel| {
        let (doc, method) = setter(channel, names, &model.hier);
        quote!(#doc #method)
    });
    let contains = quote!(#hier::Contains<#state>);
    let mut trait_bounds = generics.clone();
    trait_bounds.make_where_clause().predicates.push(parse_quote!(Self::State: #contains));
    let (trait_generics, _, trait_conditions) = trait_bounds.split_for_impl();
    let mut implemented = generics.clone();
    implemented.params.push(parse_quote!(__Update: #hier::Update));
    implemented.make_where_clause().predicates.push(parse_quote!(__Update::State: #contains));
    let (impl_generics, _, conditions) = implemented.split_for_impl();
    let (_, arguments, _) = generics.split_for_impl();
    let doc =
        format!("The methods of [`{}`], for the updates of states that flatten [`{}`].", names.update, model.ident);
    quote! {
        #[doc = #doc]
        #[allow(dead_code, deprecated, non_snake_case, private_interfaces, private_bounds)]
        #vis trait #setters #trait_generics: #hier::Update #trait_conditions { #(#methods)* }

        #[automatically_derived]
        #[allow(deprecated)]
        impl #impl_generics #setters #arguments for __Update #conditions {}
    }
}

fn settable(model: &StateModel) -> impl Iterator<Item = &ChannelModel> {
    model.channels.iter().filter(|channel| !channel.is_internal())
}

/// A method of an update, after its doc comment: `fn findings(self, value: impl IntoWrite<Vec<Finding>>) -> Self`.
fn setter(channel: &ChannelModel, names: &StateNames, hier: &TokenStream) -> (TokenStream, TokenStream) {
    let StateNames { state, write, .. } = names;
    let ChannelModel { field, ty, name, .. } = channel;
    let doc = format!("Writes `{name}`.");
    let variant = variant(field);
    let (argument, value) = if channel.is_reduced() {
        (quote!(impl #hier::IntoWrite<#ty>), quote!(#hier::IntoWrite::into_write(__value)))
    } else if is_primitive(ty) {
        (quote!(#ty), quote!(__value))
    } else if is_texts(ty) {
        (quote!(impl #hier::IntoTexts<#ty>), quote!(#hier::IntoTexts::into_texts(__value)))
    } else {
        (quote!(impl #hier::IntoValue<#ty>), quote!(#hier::IntoValue::into_value(__value)))
    };
    let method = quote! {
        fn #field(self, __value: #argument) -> Self {
            #hier::set::<#state, Self>(self, #write::#variant(#value))
        }
    };
    (quote!(#[doc = #doc]), method)
}

/// `impl Update` and its supertraits.
fn update(names: &StateNames) -> TokenStream {
    let StateNames { update, state, generics, .. } = names;
    let (impl_generics, arguments, conditions) = generics.split_for_impl();
    quote! {
        #[automatically_derived]
        impl #impl_generics ::core::clone::Clone for #update #arguments #conditions {
            fn clone(&self) -> Self {
                Self(::core::clone::Clone::clone(&self.0))
            }
        }
        #[automatically_derived]
        impl #impl_generics ::core::default::Default for #update #arguments #conditions {
            fn default() -> Self {
                Self(__hier::Writes::new())
            }
        }
        #[automatically_derived]
        impl #impl_generics ::core::fmt::Debug for #update #arguments #conditions {
            fn fmt(&self, __f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                ::core::fmt::Debug::fmt(&self.0, __f)
            }
        }
        #[automatically_derived]
        impl #impl_generics __hier::Update for #update #arguments #conditions {
            type State = #state;
            fn writes(&self) -> &__hier::Writes<#state> {
                &self.0
            }
            fn writes_mut(&mut self) -> &mut __hier::Writes<#state> {
                &mut self.0
            }
            fn into_writes(self) -> __hier::Writes<#state> {
                self.0
            }
            fn from_writes(__writes: __hier::Writes<#state>) -> Self {
                Self(__writes)
            }
        }
    }
}

/// Conversions of an update and of a whole state into the output of a node and the input of a run.
fn conversions(model: &StateModel, names: &StateNames) -> TokenStream {
    let StateNames { update, state, write, generics, .. } = names;
    let (impl_generics, arguments, conditions) = generics.split_for_impl();
    let own = each(model, |_, channel| {
        let (field, variant) = (&channel.field, variant(&channel.field));
        let value = quote!(__state.#field);
        let value = if channel.is_reduced() { quote!(__hier::Write::Merge(#value)) } else { value };
        quote!(__writes.push(#write::#variant(#value));)
    });
    let flattened = model.flattened.as_ref().map(|flattened| {
        let (field, ty, variant) = (&flattened.field, flattened.checked(), variant(&flattened.field));
        let (writes, from) = (local("__writes", ty.span()), local("__state", ty.span()));
        quote_spanned!(ty.span()=> __hier::lift::<#ty, #state>(&mut #writes, #from.#field, #write::#variant);)
    });
    quote! {
        #[automatically_derived]
        impl #impl_generics ::core::convert::From<#state> for #update #arguments #conditions {
            #[allow(unused_mut, unused_variables)]
            fn from(__state: #state) -> Self {
                let mut __writes = __hier::Writes::new();
                #(#own)*
                #flattened
                Self(__writes)
            }
        }
        #[automatically_derived]
        impl #impl_generics __hier::IntoOutput<#state> for #update #arguments #conditions {
            fn into_output(self) -> __hier::NodeResult<#state> {
                ::core::result::Result::Ok(__hier::Output::update(self))
            }
        }
        #[automatically_derived]
        impl #impl_generics __hier::GraphInput<#state, __hier::FullState> for #update #arguments #conditions {
            fn into_input(self) -> __hier::Input<#state> {
                __hier::Input::New(self.0)
            }
        }
        #[automatically_derived]
        impl #impl_generics __hier::GraphInput<#state, __hier::FullState> for #state #conditions {
            fn into_input(self) -> __hier::Input<#state> {
                __hier::Input::Whole(<#update #arguments as ::core::convert::From<#state>>::from(self).0)
            }
        }
    }
}
