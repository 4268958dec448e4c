//! `impl Values`: what the engine does with the state.

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;

use super::{Names, each};
use crate::state::model::{Channel, Kind, Merge, Model};

/// The implementation.
pub(super) fn expand(model: &Model, names: &Names) -> TokenStream {
    let Names { state, write, update, generics, .. } = names;
    let (impl_generics, arguments, conditions) = generics.split_for_impl();
    // The state's name is the user's own token, so that a missing `Clone` is reported there.
    let this = quote_spanned!(model.ident.span()=> #state);
    let reduce = reduce(model, names);
    let by_index = by_index(model);
    let steps = model.managed.iter().map(|managed| {
        let (field, method) = (&managed.field, &managed.method);
        quote!(self.#field = steps.#method();)
    });
    let inner_steps = model.flattened.as_ref().map(|flattened| {
        let field = &flattened.field;
        quote!(__hier::Values::set_steps(&mut self.#field, steps);)
    });
    quote! {
        #[automatically_derived]
        #[allow(unused_variables)]
        impl #impl_generics __hier::Values for #this #conditions {
            type Write = #write #arguments;
            type Update = #update #arguments;
            #reduce
            #by_index
            fn channel(&self, channel: usize) -> ::core::option::Option<&__hier::ChannelSpec> {
                <Self as __hier::State>::CHANNELS.get(channel)
            }
            #[inline]
            fn set_steps(&mut self, steps: __hier::Steps) {
                #(#steps)*
                #inner_steps
            }
        }
    }
}

/// One write, merged.
fn reduce(model: &Model, names: &Names) -> TokenStream {
    let write = &names.write;
    let own = each(model, |_, channel| {
        let field = &channel.field;
        let merged = match &channel.kind {
            Kind::Last | Kind::Ephemeral | Kind::Untracked => {
                quote!({ self.#field = write; ::core::result::Result::Ok(()) })
            }
            Kind::Topic { .. } => quote!(__hier::reduce(&mut self.#field, write, __hier::builtin::append)),
            Kind::Reduced { reducer, .. } => {
                let reducer = reducer_path(reducer);
                quote!(__hier::reduce(&mut self.#field, write, #reducer))
            }
        };
        quote!(#write::#field(write) => #merged,)
    });
    let inner = model.flattened.as_ref().map(|flattened| {
        let field = &flattened.field;
        quote!(#write::#field(write) => __hier::Values::reduce(&mut self.#field, write),)
    });
    quote! {
        fn reduce(&mut self, write: Self::Write) -> ::core::result::Result<(), __hier::ReduceError> {
            match write { #(#own)* #inner }
        }
    }
}

/// The function that merges. A built-in one is named with the user's own token, so that a type that cannot bear it is
/// reported there.
fn reducer_path(reducer: &Merge) -> TokenStream {
    match reducer {
        Merge::Builtin { name, .. } => quote_spanned!(name.span()=> ::hier_core::__private::builtin::#name),
        Merge::With(path) => quote!(#path),
    }
}

/// What is done with a channel that is given by its index.
fn by_index(model: &Model) -> TokenStream {
    let own = model.channels.len();
    let inner = |call: fn(&TokenStream, TokenStream) -> TokenStream, none: TokenStream| match &model.flattened {
        Some(flattened) => {
            let field = &flattened.field;
            let call = call(&quote!(self.#field), quote!(channel - #own));
            quote!(_ => #call,)
        }
        None => quote!(_ => #none,),
    };
    let clear = each(model, |index, channel| {
        let field = &channel.field;
        match channel.expires() {
            true => quote!(#index => self.#field = ::core::default::Default::default(),),
            false => TokenStream::new(),
        }
    });
    let reset = (model.channels.iter().any(|channel| !channel.expires())).then(|| quote!(0..#own => __hier::reset(self, channel),));
    let inner_clear = inner(|part, index| quote!(__hier::Values::clear(&mut #part, #index)), quote!({}));
    let to_json = each(model, value_to_json);
    let inner_json =
        inner(|part, index| quote!(__hier::Values::to_json(&#part, #index)), quote!(::core::result::Result::Ok(::core::option::Option::None)));
    let get = each(model, |index, Channel { field, .. }| quote!(#index => ::core::option::Option::Some(&self.#field),));
    let inner_get = inner(|part, index| quote!(__hier::Values::get_any(&#part, #index)), quote!(::core::option::Option::None));
    let set = each(model, |index, Channel { field, .. }| quote!(#index => __hier::copy(&mut self.#field, value),));
    let inner_set = inner(|part, index| quote!(__hier::Values::set_any(&mut #part, #index, value)), quote!({}));
    quote! {
        fn clear(&mut self, channel: usize) {
            match channel { #(#clear)* #reset #inner_clear }
        }
        fn to_json(&self, channel: usize) -> ::core::result::Result<::core::option::Option<__hier::Value>, __hier::JsonError> {
            match channel { #(#to_json)* #inner_json }
        }
        fn get_any(&self, channel: usize) -> ::core::option::Option<&dyn ::core::any::Any> {
            match channel { #(#get)* #inner_get }
        }
        fn set_any(&mut self, channel: usize, value: &dyn ::core::any::Any) {
            match channel { #(#set)* #inner_set }
        }
    }
}

/// The arm that makes JSON of a value. It carries the span of the type, so that a type that cannot be persisted is
/// reported once.
fn value_to_json(index: usize, channel: &Channel) -> TokenStream {
    let Channel { field, ty, .. } = channel;
    if !channel.is_persisted() {
        return quote!(#index => ::core::result::Result::Ok(::core::option::Option::None),);
    }
    let json = quote_spanned!(ty.span()=> __hier::json(&self.#field));
    quote!(#index => #json.map(::core::option::Option::Some),)
}
