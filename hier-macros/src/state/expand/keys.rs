//! `FilingChannels`, the typed keys; `impl State`, `impl Contains`.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::parse_quote;

use super::{StateNames, each, hash64};
use crate::state::model::{ChannelForm, ChannelModel, Merge, StateModel, variant};
use crate::symbol;

pub(super) fn expand(model: &StateModel, names: &StateNames) -> (TokenStream, TokenStream) {
    let (contains, conversation) = (contains(model, names), conversation(model, names));
    let state = state(model, names);
    let (keys, deref) = keys(model, names);
    (keys, quote!(#contains #conversation #state #deref))
}

fn keys(model: &StateModel, names: &StateNames) -> (TokenStream, TokenStream) {
    let StateNames { channels: keys, state, declared, .. } = names;
    let (impl_generics, arguments, conditions) = declared.split_for_impl();
    let vis = &model.vis;
    let own = each(model, |_, channel| {
        let ChannelModel { field, ty, name, .. } = channel;
        let hier = &model.hier;
        let kind = match channel {
            channel if channel.is_internal() => quote!(Internal),
            channel if channel.is_reduced() => quote!(Reduced),
            _ => quote!(Plain),
        };
        let doc = format!("The channel `{name}`.");
        quote!(#[doc = #doc] #vis #field: #hier::Channel<#state, #ty, #hier::#kind>,)
    });
    let hier = &model.hier;
    let managed = model.managed.iter().map(|managed| {
        let (field, ty) = (&managed.field, &managed.ty);
        let doc = format!("The managed field `{}`.", field.unraw());
        quote!(#[doc = #doc] #vis #field: #hier::ManagedValue<#state, #ty>,)
    });
    let flattened = model.flattened.as_ref().map(|flattened| {
        let keys = flattened.item(&model.hier, "State", "Channels");
        quote!(#[doc(hidden)] #vis __flattened: &'static #keys,)
    });
    let deref = model.flattened.as_ref().map(|flattened| {
        let target = flattened.item(&model.hier, "State", "Channels");
        quote! {
            #[automatically_derived]
            impl #impl_generics ::core::ops::Deref for #keys #arguments #conditions {
                type Target = #target;
                #[inline]
                fn deref(&self) -> &Self::Target {
                    self.__flattened
                }
            }
        }
    });
    let doc = format!("The typed keys of the channels of [`{}`].", model.ident);
    let text = keys.to_string();
    let item = quote! {
        #[doc = #doc]
        #[allow(dead_code, deprecated, non_snake_case, private_interfaces)]
        #vis struct #keys #impl_generics #conditions { #(#own)* #(#managed)* #flattened }
    };
    let impls = quote! {
        #[automatically_derived]
        impl #impl_generics ::core::fmt::Debug for #keys #arguments #conditions {
            fn fmt(&self, __f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                __f.write_str(#text)
            }
        }
        #deref
    };
    (item, impls)
}

fn state(model: &StateModel, names: &StateNames) -> TokenStream {
    let StateNames { channels: keys, state, write, known, generics, .. } = names;
    let (impl_generics, arguments, conditions) = generics.split_for_impl();
    let specs = each(model, |_, channel| spec(channel));
    let own = each(model, |_, ChannelModel { field, name, kind, .. }| {
        let variant = variant(field);
        // A write of a plain channel cannot be an overwrite.
        let set = match kind {
            ChannelForm::Reduced { .. } | ChannelForm::Topic { .. } => quote!(#write::#variant),
            _ => quote!(|__write| #write::#variant(__write.into_value())),
        };
        quote!(#field: __hier::Channel::new(#name, |__state| &__state.#field, #set),)
    });
    let managed = model.managed.iter().map(|managed| {
        let field = &managed.field;
        let name = field.unraw().to_string();
        quote!(#field: __hier::ManagedValue::new(#name, |__state| &__state.#field),)
    });
    let inner = model.flattened.as_ref().map(|flattened| {
        let keys = flattened.item(&model.hier, "State", "KEYS");
        quote!(__flattened: #keys,)
    });
    let base = model.flattened.as_ref().map_or_else(
        || quote!(::core::option::Option::None),
        |flattened| {
            let table = flattened.item(&model.hier, "State", "CHANNELS");
            quote!(::core::option::Option::Some(&#table))
        },
    );
    let hiding = super::secret::hiding(model);
    let distinct = distinct(model);
    let fields = fields(model);
    let (early, late) = if model.generics.params.is_empty() { (Some(distinct), None) } else { (None, Some(distinct)) };
    // The state's name is the user's own token, so that a missing `Default` is reported there.
    let this = quote_spanned!(model.ident.span()=> #state);
    quote! {
        const __OWN: &[__hier::ChannelSpec] = &[#(#specs),*];
        #[automatically_derived]
        impl #impl_generics __hier::HasInitial for #this #conditions {}

        #[automatically_derived]
        impl #impl_generics __hier::State for #this #conditions {
            type Channels = #keys #arguments;
            const CHANNELS: __hier::Table = {
                #known
                #late
                __hier::Table::new(__OWN, #base)#hiding
            };
            const KEYS: &'static Self::Channels = { #known &#keys { #(#own)* #(#managed)* #inner } };
            const FIELDS: __hier::Fields = { #known #fields };
        }
        #early
    }
}

/// Lists the fields by name. The fields of channels come first.
fn fields(model: &StateModel) -> TokenStream {
    let channels = model.channels.iter().map(|ChannelModel { field, name, has_initial, .. }| {
        let field = field.unraw().to_string();
        let initial = has_initial.then(|| quote!(.initial()));
        let hash = hash64(&field);
        quote!(__hier::Field::of(#field, #hash, #name)#initial)
    });
    let managed = model.managed.iter().map(|managed| {
        let field = managed.field.unraw().to_string();
        let hash = hash64(&field);
        quote!(__hier::Field::managed(#field, #hash))
    });
    let base = model.flattened.as_ref().map_or_else(
        || quote!(::core::option::Option::None),
        |flattened| {
            let table = flattened.item(&model.hier, "State", "FIELDS");
            quote!(::core::option::Option::Some(&#table))
        },
    );
    let count = model.channels.len();
    quote!(__hier::Fields::new(&[#(#channels,)* #(#managed,)*], #count, #base))
}

fn spec(channel: &ChannelModel) -> TokenStream {
    let (name, hidden) = (&channel.name, channel.secret.map(|_| quote!(.hidden())));
    let kind = match &channel.kind {
        ChannelForm::Last => quote!(Last),
        ChannelForm::Ephemeral => quote!(Ephemeral),
        ChannelForm::Untracked => quote!(Untracked),
        ChannelForm::Topic { accumulate: false } => quote!(Topic),
        ChannelForm::Topic { accumulate: true } => quote!(TopicAccumulate),
        ChannelForm::Reduced { reducer, delta } => {
            let reducer = match reducer {
                Merge::Builtin { word, .. } => word.unraw().to_string(),
                Merge::With(path) => format!("with = {}", path.to_token_stream().to_string().replace(' ', "")),
            };
            return quote!(__hier::ChannelSpec::reduced(#name, #reducer, #delta)#hidden);
        }
    };
    quote!(__hier::ChannelSpec::new(#name, __hier::Kind::#kind)#hidden)
}

/// Asserts that the flattened state has no channel of the same name. The assertion has the span of the user's field. In
/// a generic state, the assertions are part of the table, and the compiler evaluates them when the table is used.
fn distinct(model: &StateModel) -> TokenStream {
    let Some(flattened) = &model.flattened else { return TokenStream::new() };
    let (field, base) = (&flattened.field, flattened.item(&model.hier, "State", "CHANNELS"));
    let checks = model.channels.iter().map(|channel| {
        let name = &channel.name;
        let message = format!("the flattened `{field}` has a channel `{name}` too: {RENAME}");
        let assertion = quote_spanned!(channel.name_span=> ::core::assert!(!#base.contains(#name), #message));
        if model.generics.params.is_empty() { quote!(const _: () = #assertion;) } else { quote!(#assertion;) }
    });
    checks.collect()
}

const RENAME: &str = "rename this one with `#[state(rename = \"…\")]`";

/// Implements `Contains` for the state itself and for each state that the flattened state contains.
fn contains(model: &StateModel, names: &StateNames) -> TokenStream {
    let StateNames { state, write, generics, .. } = names;
    let (impl_generics, arguments, conditions) = generics.split_for_impl();
    let flattened = model.flattened.as_ref().map(|flattened| {
        let (field, ty, variant) = (&flattened.field, &flattened.ty, variant(&flattened.field));
        let own = model.channels.len();
        let mut generics = names.with(parse_quote!(__Part: __hier::Values));
        generics
            .make_where_clause()
            .predicates
            .push(parse_quote!(<__Part as __hier::Late<#ty>>::Type: __hier::Contains<__Part>));
        let (impl_generics, _, conditions) = generics.split_for_impl();
        quote! {
            #[automatically_derived]
            impl #impl_generics __hier::Contains<__Part> for #state #conditions {
                const FIRST: ::core::option::Option<::core::primitive::usize> =
                    __hier::behind(#own, <#ty as __hier::Contains<__Part>>::FIRST);
                #[inline]
                fn part(&self) -> &__Part {
                    __hier::Contains::part(&self.#field)
                }
                #[inline]
                fn lift(__write: __Part::Write) -> #write #arguments {
                    #write::#variant(<#ty as __hier::Contains<__Part>>::lift(__write))
                }
            }
        }
    });
    quote! {
        #[automatically_derived]
        impl #impl_generics __hier::Contains<#state> for #state #conditions {
            const FIRST: ::core::option::Option<::core::primitive::usize> = ::core::option::Option::Some(0);
            #[inline]
            fn part(&self) -> &Self {
                self
            }
            #[inline]
            fn lift(__write: #write #arguments) -> #write #arguments {
                __write
            }
        }
        #flattened
    }
}

/// `impl Conversation`, by the channel with the reducer `messages` or by the flattened state. The parameter makes the
/// implementation conditional on the flattened state.
fn conversation(model: &StateModel, names: &StateNames) -> TokenStream {
    let StateNames { state, write, known, .. } = names;
    let mut generics = names.with(parse_quote!(__Via));
    let converses = |channel: &&ChannelModel| matches!(&channel.kind, ChannelForm::Reduced { reducer: Merge::Builtin { name, .. }, .. } if name == symbol::MESSAGES);
    let mut own = model.channels.iter().filter(converses);
    let chosen = model.channels.iter().filter(converses).find(|channel| channel.name == symbol::MESSAGES);
    let own = chosen.or_else(|| own.next().filter(|_| own.next().is_none()));
    let (channel, get, said) = match (own, &model.flattened) {
        (Some(ChannelModel { field, name, .. }), _) => {
            let variant = variant(field);
            (
                quote!(#name),
                quote!(__hier::as_messages(&self.#field)),
                quote!(#write::#variant(__hier::Write::Merge(__hier::from_messages(__messages)))),
            )
        }
        (None, Some(flattened)) => {
            let (field, ty, variant) = (&flattened.field, &flattened.ty, variant(&flattened.field));
            generics
                .make_where_clause()
                .predicates
                .push(parse_quote!(<__Via as __hier::Late<#ty>>::Type: __hier::Conversation<__Via>));
            let inner = quote!(<#ty as __hier::Conversation<__Via>>);
            (
                quote!(#inner::CHANNEL),
                quote!(#inner::conversation(&self.#field)),
                quote!(#write::#variant(#inner::said(__messages))),
            )
        }
        (None, None) => return TokenStream::new(),
    };
    let (impl_generics, _, conditions) = generics.split_for_impl();
    quote! {
        #[automatically_derived]
        impl #impl_generics __hier::Conversation<__Via> for #state #conditions {
            const CHANNEL: &'static ::core::primitive::str = { #known #channel };
            fn conversation(&self) -> &__hier::Messages {
                #known
                #get
            }
            fn said(__messages: __hier::Messages) -> Self::Write {
                #known
                #said
            }
        }
    }
}
