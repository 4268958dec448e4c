//! `impl Values`, through which the engine accesses the state.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::spanned::Spanned;

use super::update::stored;
use super::{StateNames, each};
use crate::diag::local;
use crate::state::model::{ChannelForm, ChannelModel, Flattened, Merge, StateModel, variant};

pub(super) fn expand(model: &StateModel, names: &StateNames) -> TokenStream {
    let StateNames { state, write, update, known, generics, .. } = names;
    let (impl_generics, arguments, conditions) = generics.split_for_impl();
    // The state's name is the user's own token, so that a missing `Clone` is reported there.
    let this = quote_spanned!(model.ident.span()=> #state);
    let reduce = reduce(model, names);
    let (by_index, stored_by_index) = (by_index(model, names), stored_by_index(model, names));
    let write_from = write_from(model, names);
    let version = version(model, names);
    let steps = model.managed.iter().map(|managed| {
        let (field, method) = (&managed.field, &managed.method);
        quote!(self.#field = __steps.#method();)
    });
    let inner_steps = model.flattened.as_ref().map(|flattened| {
        let (field, ty) = (&flattened.field, flattened.checked());
        quote!(<#ty as __hier::Values>::set_steps(&mut self.#field, __steps);)
    });
    let channel_schema = channel_schema(model, names);
    let managed = !model.managed.is_empty();
    let inner_managed = model.flattened.as_ref().map(|flattened| {
        let ty = flattened.checked();
        quote!(|| <#ty as __hier::Values>::MANAGED)
    });
    quote! {
        #[automatically_derived]
        impl #impl_generics __hier::Sealed for #this #conditions {}

        #[automatically_derived]
        #[allow(unused_variables)]
        impl #impl_generics __hier::Values for #this #conditions {
            const MANAGED: ::core::primitive::bool = { #known #managed #inner_managed };
            type Write = #write #arguments;
            type Update = #update #arguments;
            #version
            #reduce
            #by_index
            #write_from
            fn channel(&self, __channel: ::core::primitive::usize) -> ::core::option::Option<&__hier::ChannelSpec> {
                #known
                <Self as __hier::State>::CHANNELS.get(__channel)
            }
            #channel_schema
            #[inline]
            fn set_steps(&mut self, __steps: __hier::Steps) {
                #known
                #(#steps)*
                #inner_steps
            }
        }

        #[automatically_derived]
        #[allow(unused_variables)]
        impl #impl_generics __hier::StoredValues for #this #conditions {
            #stored_by_index
        }
    }
}

/// The schemas of the channels whose types have one.
fn channel_schema(model: &StateModel, names: &StateNames) -> TokenStream {
    let known = &names.known;
    let own = model.channels.len();
    let schemas = each(
        model,
        |index, ChannelModel { ty, .. }| quote!(#index => __hier::SchemaOf::<#ty>::TYPE.schema(__generator),),
    );
    let inner = if let Some(ty) = model.flattened.as_ref().map(Flattened::checked) {
        quote!(<#ty as __hier::Values>::channel_schema(__channel - #own, __generator))
    } else {
        quote!(::core::option::Option::None)
    };
    quote! {
        fn channel_schema(
            __channel: ::core::primitive::usize,
            __generator: &mut __hier::SchemaGenerator,
        ) -> ::core::option::Option<__hier::Schema> {
            #known
            match __channel {
                #(#schemas)*
                _ => #inner,
            }
        }
    }
}

fn reduce(model: &StateModel, names: &StateNames) -> TokenStream {
    let StateNames { write, known, .. } = names;
    let own = each(model, |_, channel| {
        let (field, variant) = (&channel.field, variant(&channel.field));
        let merged = match &channel.kind {
            ChannelForm::Last | ChannelForm::Ephemeral | ChannelForm::Untracked => {
                quote!({ self.#field = __write; ::core::result::Result::Ok(()) })
            }
            ChannelForm::Topic { .. } => quote!(__hier::reduce(&mut self.#field, __write, __hier::builtin::append)),
            ChannelForm::Reduced { reducer, .. } => merged(channel, reducer),
        };
        quote!(#write::#variant(__write) => #merged,)
    });
    let inner = model.flattened.as_ref().map(|flattened| {
        let (field, variant, ty) = (&flattened.field, variant(&flattened.field), flattened.checked());
        quote!(#write::#variant(__write) => <#ty as __hier::Values>::reduce(&mut self.#field, __write),)
    });
    quote! {
        fn reduce(&mut self, __write: Self::Write) -> ::core::result::Result<(), __hier::ReduceError> {
            #known
            match __write { #(#own)* #inner }
        }
    }
}

/// Generates the call that merges a write. With a built-in reducer, the call has the span of the user's word, where the
/// compiler reports an unsuitable type.
fn merged(ChannelModel { field, ty, secret, .. }: &ChannelModel, reducer: &Merge) -> TokenStream {
    let reduce = |here: Span| Ident::new(if secret.is_some() { "reduce_secret" } else { "reduce" }, here);
    match reducer {
        Merge::Builtin { name, .. } => {
            let reduce = reduce(name.span());
            let (this, write) = (local("self", name.span()), local("__write", name.span()));
            quote_spanned!(name.span()=> __hier::#reduce(&mut #this.#field, #write, __hier::builtin::#name))
        }
        // The compiler reports an error of the user's function at the path of the function.
        Merge::With(path) => {
            let reduce = reduce(Span::call_site());
            let [old, new] = ["__old", "__new"].map(|name| local(name, path.span()));
            let merge = quote_spanned!(path.span()=> __hier::merge_with(#old, #new, #path));
            quote!(__hier::#reduce(&mut self.#field, __write, |#old: &mut #ty, #new| #merge))
        }
    }
}

/// Generates a call from the implementation of a trait, the field of the flattened state, and the channel's index in
/// that state.
type InPart = fn(TokenStream, &Ident, TokenStream) -> TokenStream;

/// Generates the access to a channel of the flattened state, with the trait `of`. The indices of these channels follow
/// the indices of this state's channels. Returns `none` if the state flattens no other state.
fn in_flattened(model: &StateModel, of: &str, call: InPart, none: TokenStream) -> TokenStream {
    let Some(flattened) = &model.flattened else { return none };
    let (own, ty, of) = (model.channels.len(), flattened.checked(), Ident::new(of, Span::call_site()));
    call(quote!(<#ty as __hier::#of>), &flattened.field, quote!(__channel - #own))
}

fn by_index(model: &StateModel, names: &StateNames) -> TokenStream {
    let known = &names.known;
    let own = model.channels.len();
    let inner = |call: InPart, none: TokenStream| in_flattened(model, "Values", call, none);
    let none = quote!(::core::option::Option::None);
    let inner_clear = inner(|values, part, index| quote!(#values::clear(&mut self.#part, #index)), quote!({}));
    let inner_get = inner(|values, part, index| quote!(#values::get_any(&self.#part, #index)), none);
    let inner_set = inner(|values, part, index| quote!(#values::set_any(&mut self.#part, #index, __value)), quote!({}));
    let clear = each(model, clear);
    let lasts = model.channels.iter().any(|channel| !channel.expires());
    let reset = lasts.then(|| quote!(0..#own => __hier::reset(self, __channel),));
    let get =
        each(model, |index, ChannelModel { field, .. }| quote!(#index => ::core::option::Option::Some(&self.#field),));
    let set =
        each(model, |index, ChannelModel { field, .. }| quote!(#index => __hier::copy(&mut self.#field, __value),));
    quote! {
        fn clear(&mut self, __channel: ::core::primitive::usize) {
            #known
            match __channel { #(#clear)* #reset _ => #inner_clear, }
        }
        fn get_any(&self, __channel: ::core::primitive::usize) -> ::core::option::Option<&dyn ::core::any::Any> {
            #known
            match __channel { #(#get)* _ => #inner_get, }
        }
        fn set_any(&mut self, __channel: ::core::primitive::usize, __value: &dyn ::core::any::Any) {
            #known
            match __channel { #(#set)* _ => #inner_set, }
        }
    }
}

fn stored_by_index(model: &StateModel, names: &StateNames) -> TokenStream {
    let known = &names.known;
    let inner = |call: InPart, none: TokenStream| in_flattened(model, "StoredValues", call, none);
    let no_channel = || quote!(::core::result::Result::Err(__hier::no_channel(__channel)));
    let inner_stored =
        inner(|values, part, index| quote!(#values::stored(&self.#part, #index)), quote!(::core::option::Option::None));
    let inner_load = inner(|values, part, index| quote!(#values::load(&mut self.#part, #index, __bytes)), no_channel());
    let inner_merge = inner(
        |values, part, index| quote!(#values::merge_stored(&mut self.#part, #index, __rule, __bytes)),
        no_channel(),
    );
    let stored = each(model, value_stored);
    let load = each(model, load);
    let merge = each(model, merge_stored);
    quote! {
        fn stored(&self, __channel: ::core::primitive::usize) -> ::core::option::Option<&dyn __hier::Stored> {
            #known
            match __channel { #(#stored)* _ => #inner_stored, }
        }
        fn load(
            &mut self,
            __channel: ::core::primitive::usize,
            __bytes: &[::core::primitive::u8],
        ) -> ::core::result::Result<(), __hier::CodecError> {
            #known
            match __channel { #(#load)* _ => #inner_load, }
        }
        fn merge_stored(
            &mut self,
            __channel: ::core::primitive::usize,
            __rule: &__hier::Rule<'_>,
            __bytes: &[::core::primitive::u8],
        ) -> ::core::result::Result<::core::primitive::bool, __hier::CodecError> {
            #known
            match __channel { #(#merge)* _ => #inner_merge, }
        }
    }
}

/// The arm of a channel that expires when a superstep ends.
fn clear(index: usize, channel: &ChannelModel) -> TokenStream {
    let field = &channel.field;
    if channel.expires() {
        let initial = quote_spanned!(channel.ty.span()=> ::core::default::Default::default());
        quote!(#index => self.#field = #initial,)
    } else {
        TokenStream::new()
    }
}

fn value_stored(index: usize, channel: &ChannelModel) -> TokenStream {
    let field = &channel.field;
    if !channel.is_persisted() {
        return quote!(#index => ::core::option::Option::None,);
    }
    let stored = stored(channel);
    quote!(#index => ::core::option::Option::Some(<<Self as __hier::Values>::Write>::#stored(&self.#field)),)
}

fn decoder(ChannelModel { ty, secret, .. }: &ChannelModel) -> TokenStream {
    if secret.is_some() {
        return quote_spanned!(ty.span()=> __hier::load_secret::<#ty>);
    }
    quote_spanned!(ty.span()=> __hier::load::<#ty>)
}

/// The arm that reads a stored value. It has the span of the channel's type, where a type that cannot be stored is
/// already reported.
fn load(index: usize, channel: &ChannelModel) -> TokenStream {
    let field = &channel.field;
    if !channel.is_persisted() {
        return quote!(#index => ::core::result::Result::Ok(()),);
    }
    let load = decoder(channel);
    quote!(#index => #load(__bytes).map(|__value| self.#field = __value),)
}

/// The arm that merges a part of a value that was stored with another reducer.
fn merge_stored(index: usize, channel: &ChannelModel) -> TokenStream {
    let field = &channel.field;
    if !channel.is_persisted() {
        return quote!(#index => ::core::result::Result::Ok(true),);
    }
    let (ty, load) = (&channel.ty, decoder(channel));
    let of = quote!(__hier::MergeOf::<#ty>::TYPE);
    quote! {
        #index => __hier::merge_stored(
            &mut self.#field,
            __rule,
            || #load(__bytes),
            [#of.append(), #of.extend(), #of.by_id(), #of.messages()],
        ),
    }
}

fn write_from(model: &StateModel, names: &StateNames) -> TokenStream {
    let StateNames { write, known, .. } = names;
    let own = model.channels.len();
    let arms = each(model, |index, channel| {
        let variant = variant(&channel.field);
        if !channel.is_persisted() {
            return TokenStream::new();
        }
        let load = decoder(channel);
        let written =
            if channel.is_reduced() { quote!(__hier::load_write(__overwrite, __value)) } else { quote!(__value) };
        quote!(#index => #load(__bytes).map(|__value| #write::#variant(#written)),)
    });
    let inner = if let Some(flattened) = &model.flattened {
        let (field, variant, ty) = (&flattened.field, variant(&flattened.field), flattened.checked());
        let read = quote!(<#ty as __hier::Values>::write_from(&self.#field, __channel - #own, __overwrite, __bytes)?);
        quote!(::core::result::Result::Ok(#write::#variant(#read)))
    } else {
        quote!(::core::result::Result::Err(__hier::no_channel(__channel)))
    };
    // An untracked channel of this state is not a channel of the flattened one.
    let untracked = model
        .channels
        .iter()
        .enumerate()
        .filter(|(_, channel)| !channel.is_persisted())
        .map(|(index, _)| quote!(#index => ::core::result::Result::Err(__hier::no_channel(__channel)),));
    quote! {
        fn write_from(
            &self,
            __channel: ::core::primitive::usize,
            __overwrite: ::core::primitive::bool,
            __bytes: &[::core::primitive::u8],
        ) -> ::core::result::Result<Self::Write, __hier::CodecError> {
            #known
            match __channel { #(#arms)* #(#untracked)* _ => #inner, }
        }
    }
}

/// The constants that identify the version of a state.
fn version(model: &StateModel, names: &StateNames) -> TokenStream {
    let known = &names.known;
    let version = model.version;
    let migrations = &model.migrations;
    let text: String = model.channels.iter().filter_map(fingerprinted).collect();
    let fingerprint = super::hash64(&text);
    let fingerprint = if let Some(flattened) = &model.flattened {
        let inner = flattened.item(&model.hier, "Values", "FINGERPRINT");
        quote!(__hier::fingerprint(#fingerprint, #inner))
    } else {
        quote!(#fingerprint)
    };
    quote! {
        const VERSION: ::core::primitive::u32 = #version;
        const MIGRATIONS: &'static [__hier::Migration] = { #known &[#(#migrations),*] };
        const FINGERPRINT: ::core::primitive::u64 = { #known #fingerprint };
    }
}

/// The part of the fingerprint that changes with the channel. `None` for a channel that is not stored.
fn fingerprinted(channel: &ChannelModel) -> Option<String> {
    let kind = match &channel.kind {
        ChannelForm::Last => "last",
        ChannelForm::Ephemeral => "ephemeral",
        ChannelForm::Untracked => return None,
        ChannelForm::Topic { accumulate: false } => "topic",
        ChannelForm::Topic { accumulate: true } => "topic accumulate",
        ChannelForm::Reduced { .. } => "reduced",
    };
    let ty = channel.ty.to_token_stream().to_string().replace(' ', "");
    Some(format!("{}:{kind}:{ty};", channel.name))
}
