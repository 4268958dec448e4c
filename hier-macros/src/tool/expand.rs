//! The code of a tool: the function, a type of the same name, and the implementation of `Tool`.

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::visit_mut::{self, VisitMut};
use syn::{Expr, Ident, ItemFn, Lifetime, Lit, ReturnType, Type, UnOp};

use super::arguments::{arguments, given};
use super::context::Context;
use super::model::{Argument, Need, ParamRole, ToolModel};
use super::{client, facts, parse, trust};
use crate::symbol;

/// After an error, generates the type with traits that do nothing.
pub(super) fn expand(tool: &ToolModel, hier: &TokenStream, sound: bool) -> TokenStream {
    let ToolModel { function, .. } = tool;
    let (ident, visibility) = (&function.sig.ident, &function.vis);
    let docs = function.attrs.iter().filter(|attribute| attribute.path().is_ident("doc"));
    // A condition that removes the function also removes the tool.
    let conditions = function.attrs.iter().filter(|attribute| attribute.path().is_ident(symbol::CFG));
    let name = tool.name();
    let (trust, implementation) = (trust::constant(tool), if sound { implementation(tool) } else { nothing(ident) });
    let secrets = sound.then(|| facts::secrets(tool));
    let questions = sound.then(|| facts::questions(tool));
    // The lints do not apply: a tool is always asynchronous, and the model determines its arguments.
    let emits_function = tool.has_body && tool.options.client.is_none();
    let function = emits_function.then(|| {
        quote! {
            #[allow(clippy::unused_async, clippy::too_many_arguments)]
            #function
        }
    });
    // The function of a server tool has the name of the tool, so the struct has braces and defines no value. A client
    // tool has no function, so its unit struct also defines the value.
    let fields = if emits_function { quote!({}) } else { quote!(;) };
    let (client, call) =
        (sound.then(|| client::implementation(tool, &args_type(tool))), sound.then(|| client::call_type(tool, hier)));
    let items = quote! {
        #call

        #[allow(deprecated, non_snake_case, unused_qualifications, clippy::significant_drop_tightening)]
        const _: () = {
            use #hier as __hier;

            #[automatically_derived]
            impl __hier::NamedTool for #ident {
                const NAME: &'static ::core::primitive::str = #name;
                const TOOL: Self = Self {};
                #trust
                #questions
            }
            #implementation
            #client
            #secrets
        };
    };
    quote! {
        #function

        #(#docs)*
        #(#conditions)*
        #[allow(non_camel_case_types, missing_docs)]
        #[derive(::core::clone::Clone, ::core::marker::Copy, ::core::fmt::Debug, ::core::default::Default, #hier::ToolItems)]
        #[tool_items { #items }]
        #visibility struct #ident #fields
    }
}

/// A method, next to which no type can be declared.
pub(super) fn method(tool: &ToolModel, errors: &TokenStream) -> TokenStream {
    let ItemFn { attrs, vis, sig, block, .. } = &tool.function;
    let body = if tool.has_body { block.to_token_stream() } else { quote!(;) };
    quote!(#(#attrs)* #vis #sig #body #errors)
}

/// `impl Tool` for a tool with an error.
fn nothing(ident: &Ident) -> TokenStream {
    let call = call_method(&quote!(__Context), &quote!(::core::unreachable!("the tool does not compile")));
    quote! {
        #[automatically_derived]
        impl __hier::DeclaredTool for #ident {
            fn declared() -> __hier::ToolSpec {
                ::core::unreachable!("the tool does not compile")
            }
        }
        #[automatically_derived]
        impl<__State: __hier::Values, __Context: 'static> __hier::Tool<__State, __Context> for #ident {
            fn spec(&self) -> __hier::ToolSpec {
                ::core::unreachable!("the tool does not compile")
            }
            #call
        }
    }
}

/// `Tool::call`, written out, because the `async_trait` attribute would move compiler messages from the function to the
/// macro.
fn call_method(context: &TokenStream, body: &TokenStream) -> TokenStream {
    quote! {
        fn call<'life0, 'life1, 'life2, 'async_trait>(
            &'life0 self,
            __call: &'life1 __hier::ToolCall,
            __task: &'life2 __hier::Task<__State, #context>,
        ) -> __hier::BoxFuture<
            'async_trait,
            ::core::result::Result<__hier::ToolOutput<__State>, __hier::NodeError>,
        >
        where
            'life0: 'async_trait,
            'life1: 'async_trait,
            'life2: 'async_trait,
            Self: 'async_trait,
        {
            #body
        }
    }
}

/// `impl Tool`, for every state and context that the parameters and the result allow.
fn implementation(tool: &ToolModel) -> TokenStream {
    let ident = &tool.function.sig.ident;
    let given = Context::of(tool);
    let (context, context_parameter) = (given.ty(), given.parameter(tool));
    let mut conditions = conditions(tool, &context);
    if let Some(clause) = &tool.function.sig.generics.where_clause {
        conditions.extend(clause.predicates.iter().map(ToTokens::to_token_stream));
    }
    let (needs_approval, description) = (tool.options.needs_approval, description(tool));
    let schema = schema(tool);
    let (mistake, trust) = (mistake(tool), trust::methods(tool, &given));
    let read_args = read_args(tool);
    let call = client::call(tool, &option(tool.options.timeout.as_ref())).unwrap_or_else(|| call(tool, &given));
    let call = call_method(&context, &call);
    quote! {
        #[automatically_derived]
        impl<__State: __hier::Values #context_parameter> __hier::Tool<__State, #context> for #ident
        where #(#conditions,)*
        {
            fn spec(&self) -> __hier::ToolSpec {
                __SPEC.clone()
            }
            fn needs_approval(&self) -> ::core::primitive::bool {
                #needs_approval
            }
            #trust
            #mistake
            #call
        }

        #[automatically_derived]
        impl __hier::DeclaredTool for #ident {
            fn declared() -> __hier::ToolSpec {
                __SPEC.clone()
            }
        }

        #read_args

        static __SPEC: ::std::sync::LazyLock<__hier::ToolSpec> = ::std::sync::LazyLock::new(|| __hier::ToolSpec {
            name: ::std::borrow::ToOwned::to_owned(<#ident as __hier::NamedTool>::NAME),
            description: ::std::borrow::ToOwned::to_owned(#description),
            parameters: #schema,
        });
    }
}

fn description(tool: &ToolModel) -> TokenStream {
    tool.options.description.as_ref().map_or_else(|| tool.docs.to_token_stream(), ToTokens::to_token_stream)
}

/// The bounds on the state and the context.
fn conditions(tool: &ToolModel, context: &TokenStream) -> Vec<TokenStream> {
    let mut conditions = Vec::new();
    for param in &tool.params {
        match &param.role {
            ParamRole::State(part) => conditions.push(quote_spanned!(part.span()=> __State: __hier::Contains<#part>)),
            ParamRole::Inject(ty) | ParamRole::Ask(ty, _) => {
                let mut ty = ty.clone();
                Elided.visit_type_mut(&mut ty);
                conditions.push(quote_spanned!(ty.span()=>
                    for<'__a> #ty: __hier::Extract<'__a, __State, #context, Accepts = __hier::NoPayload>
                ));
            }
            _ => {}
        }
    }
    if let (ReturnType::Type(_, ty), None) = (&tool.function.sig.output, &tool.options.client) {
        let parts = parse::returned_states(ty);
        conditions.extend(parts.iter().map(|part| quote_spanned!(part.span()=> __State: __hier::Contains<#part>)));
    }
    conditions
}

struct Elided;

impl VisitMut for Elided {
    fn visit_lifetime_mut(&mut self, lifetime: &mut Lifetime) {
        if lifetime.ident == "_" {
            *lifetime = Lifetime::new("'__a", lifetime.span());
        }
    }

    fn visit_type_reference_mut(&mut self, reference: &mut syn::TypeReference) {
        let span = reference.and_token.span();
        reference.lifetime.get_or_insert_with(|| Lifetime::new("'__a", span));
        visit_mut::visit_type_reference_mut(self, reference);
    }
}

fn schema(tool: &ToolModel) -> TokenStream {
    if let Some(ty) = whole(tool) {
        return quote_spanned!(ty.span()=> __hier::args_schema::<#ty>());
    }
    let arguments = tool.arguments().map(|argument| {
        let (name, description) = (argument.name(), &argument.description);
        match &argument.need {
            Need::Required => {
                let ty = &argument.ty;
                quote_spanned!(ty.span()=> .required::<#ty>(#name, #description))
            }
            Need::Optional(ty) => {
                quote_spanned!(ty.span()=> .optional::<#ty>(#name, #description, ::core::option::Option::None))
            }
            Need::Default(default) => {
                let ty = &argument.ty;
                let default = default.as_ref().and_then(literal_default).map_or_else(
                    || quote!(::core::option::Option::None),
                    |value| quote!(::core::option::Option::Some(<__hier::Value as ::core::convert::From<_>>::from(#value))),
                );
                quote_spanned!(ty.span()=> .optional::<#ty>(#name, #description, #default))
            }
        }
    });
    quote!(<__hier::ToolSchema as ::core::default::Default>::default() #(#arguments)* .finish())
}

fn whole(tool: &ToolModel) -> Option<&Type> {
    tool.params.iter().find_map(|param| match &param.role {
        ParamRole::Whole(ty) => Some(ty),
        _ => None,
    })
}

/// A literal default, which the schema can contain.
fn literal_default(default: &Expr) -> Option<TokenStream> {
    match default {
        Expr::Lit(literal) => match &literal.lit {
            Lit::Int(number) => number.base10_parse::<i64>().ok().map(ToTokens::into_token_stream),
            Lit::Float(number) => number.base10_parse::<f64>().ok().map(ToTokens::into_token_stream),
            Lit::Str(text) => Some(text.to_token_stream()),
            Lit::Bool(value) => Some(value.to_token_stream()),
            _ => None,
        },
        Expr::Unary(unary) if matches!(unary.op, UnOp::Neg(_)) => {
            literal_default(&unary.expr).map(|value| quote!(-#value))
        }
        _ => None,
    }
}

/// Generates the check of the arguments that runs before the call.
fn mistake(tool: &ToolModel) -> TokenStream {
    let args = args_type(tool);
    quote! {
        fn mistake(&self, __call: &__hier::ToolCall) -> ::core::option::Option<::std::string::String> {
            <Self as __hier::ToolArgs<#args>>::read_args(__call).err()
        }
    }
}

fn args_type(tool: &ToolModel) -> TokenStream {
    whole(tool).map_or_else(|| trust::arguments(tool).0.into_token_stream(), ToTokens::to_token_stream)
}

/// Generates the code that reads all arguments as one value.
fn read_args(tool: &ToolModel) -> TokenStream {
    let (ident, args, reader) = (&tool.function.sig.ident, args_type(tool), reader(tool));
    let (names, values) = arguments(tool);
    let (own, value) = if whole(tool).is_some() {
        (None, quote!(#(#names)*))
    } else {
        let (name, code) = trust::arguments(tool);
        let fields = tool.arguments().map(|argument| &argument.ident);
        (Some(code), quote!(#name { #(#fields: #names),* }))
    };
    quote! {
        #own
        #[automatically_derived]
        impl __hier::ToolArgs<#args> for #ident {
            fn read_args(__call: &__hier::ToolCall) -> ::core::result::Result<#args, ::std::string::String> {
                let mut __arguments = #reader;
                let (#(#names,)*) = (#(#values,)*);
                let (true, #(::core::option::Option::Some(#names),)*) = (__arguments.fit(), #(#names,)*) else {
                    return ::core::result::Result::Err(__arguments.report());
                };
                ::core::result::Result::Ok(#value)
            }
        }
    }
}

/// Reads the arguments, calls the function and converts its result.
fn call(tool: &ToolModel, context: &Context<'_>) -> TokenStream {
    let function = &tool.function.sig.ident;
    let output = match &tool.function.sig.output {
        ReturnType::Default => function.span(),
        ReturnType::Type(_, ty) => ty.span(),
    };
    let (names, values) = arguments(tool);
    let reader = reader(tool);
    let (run, given) = (context.run(), given(tool, context));
    let result = Ident::new("__result", output);
    let takes = quote_spanned!(output=> __hier::IntoToolOutput::<__State>::into_tool_output(#result));
    let attempt = quote! {
        let mut __arguments = #reader;
        let (#(#names,)*) = (#(#values,)*);
        let (true, #(::core::option::Option::Some(#names),)*) = (__arguments.fit(), #(#names,)*) else {
            return ::core::result::Result::Ok(__hier::ToolOutput::Invalid(__arguments.report()));
        };
        #run
        let #result = #function(#(#given),*).await;
        #takes
    };
    let attempt = match (&tool.options.timeout, &tool.options.retry) {
        (None, None) => attempt,
        (timeout, retry) => {
            let timeout = option(timeout.as_ref());
            let retry = retry.as_ref().map_or_else(|| quote!(1_u32), ToTokens::to_token_stream);
            // Lints do not look into the code of a macro.
            let here = Span::call_site().located_at(retry.span());
            let retry = quote_spanned!(here=> <__hier::Retry as ::core::convert::From<_>>::from(#retry));
            quote! {
                __hier::attempts(__task.run(), &__call.name, #timeout, #retry, move || async move { #attempt }).await
            }
        }
    };
    let attempt = if tool.options.step.is_some() {
        quote!(__hier::once(__task, __call, async move { #attempt }).await)
    } else {
        attempt
    };
    // The function makes the future not `Send`, so the compiler reports it there.
    quote_spanned!(function.span()=> ::std::boxed::Box::pin(async move { #attempt }))
}

fn option(value: Option<&impl ToTokens>) -> TokenStream {
    value.map_or_else(|| quote!(::core::option::Option::None), |value| quote!(::core::option::Option::Some(#value)))
}

fn reader(tool: &ToolModel) -> TokenStream {
    if whole(tool).is_some() {
        return quote!(__hier::ToolArguments::of_schema(__call, &__SPEC.parameters));
    }
    let names = tool.arguments().map(Argument::name);
    quote!(__hier::ToolArguments::new(__call, &[#(#names),*]).with_schema(&__SPEC.parameters))
}
