//! The code of agents, and of graphs as subagents. Each check of a condition on types has the span of the user's token
//! that the condition concerns.

use hier_spec::agent::AgentKind;
use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{Expr, Path, Type};

use super::super::agent::check::is_itself;
use super::super::agent::layers;
use super::super::agent::shape::{members, repeated};
use super::super::ast::agent::{AgentFields, AgentModelOptions, Attachment, MembershipFields, PolicyFields};
use super::super::model::GraphModel;
use super::{background, code, named, prompt, search, secret, tool_rules};

pub(in super::super) fn member(number: usize) -> Ident {
    format_ident!("__HIER_MEMBER_{number}")
}

/// Returns the members with their numbers. Omits the agent itself.
pub(in super::super) fn numbered<'a>(
    model: &'a GraphModel,
    agent: &'a AgentFields,
) -> impl Iterator<Item = (usize, &'a Attachment)> {
    let others = |(_, attachment): &(usize, &Attachment)| !is_itself(&model.head.name, &attachment.path);
    members(agent).enumerate().filter(others)
}

pub(in super::super) fn items(
    model: &GraphModel,
    agent: &AgentFields,
    state: &Type,
    context: &TokenStream,
) -> TokenStream {
    let members = numbered(model, agent).map(|(number, attachment)| {
        let here = span(&attachment.path);
        let (constant, path) = (member(number), &attachment.path);
        // A separate constant, so that an error of the graph is not shown at the policy.
        let (given, policy) = (
            Ident::new(&format!("__HIER_POLICY_{number}"), here),
            policy(attachment.policy.as_ref(), state, Some(path)),
        );
        quote_spanned! {here=>
            const #given: __hier::core::option::Option<__hier::PolicySpec> = #policy;
            const #constant: __hier::Member<#state, #context> = __hier::member::<#state, #context, #path>(#given);
        }
    });
    // After an error, the compiler would report the error again.
    let checks = (!agent.flawed).then(|| {
        [stages(model, agent), policies(model, agent, state), flows(model, agent, state), names(model, agent)]
    });
    let checks = checks.into_iter().flatten();
    let secrets = (!agent.flawed).then(|| secret::checks(agent, state));
    let prompt = prompt::check(model);
    let (builder, kind, name) = (builder(model, agent, state, context), kind(agent), &model.head.name);
    // One call with the span of the state's type: the compiler reports an unsuitable state or context there, and once.
    let make = quote_spanned! {state.span()=>
        __hier::agent::<#state, #context>(#kind, <#name as __hier::Graph>::SPEC, root, __hier_tell)
    };
    quote! {
        #(#members)*
        #(#checks)*
        #secrets
        #prompt
        fn __hier_parts(root: ::core::primitive::bool) -> __hier::Parts<#state, #context> { #make }
        fn __hier_tell(
            __agent: __hier::AgentBuilder<#state, #context>,
        ) -> __hier::AgentBuilder<#state, #context> {
            #builder
        }
    }
}

fn kind(agent: &AgentFields) -> TokenStream {
    match agent.kind {
        AgentKind::Agent => quote!(__hier::AgentKind::Agent),
        AgentKind::React => quote!(__hier::AgentKind::React),
        AgentKind::Todo => quote!(__hier::AgentKind::Todo),
    }
}

fn options(options: &AgentModelOptions) -> TokenStream {
    match options {
        AgentModelOptions::Given(given) => quote_spanned!(given.span()=> .options(#given)),
        AgentModelOptions::Fields(here, fields) => {
            let fields = fields.iter().map(|(option, value)| quote_spanned!(option.span()=> .#option(#value)));
            quote_spanned!(*here=> .options(__hier::ModelOptions::new() #(#fields)*))
        }
    }
}

pub(in super::super) fn methods(
    state: &Type,
    context: &TokenStream,
    marked: impl Fn(TokenStream) -> TokenStream,
) -> TokenStream {
    let parts = quote!(__hier::Parts<#state, #context>);
    let (member, root) = (marked(quote!(__hier_parts(false))), marked(quote!(__hier_parts(true))));
    quote! {
        fn parts() -> #parts { #member }
        fn root_parts() -> #parts { #root }
    }
}

/// Returns the node of a member in the spec. The node has the name of the graph, which only the compiler knows.
pub(in super::super) fn node(agent: &AgentFields, number: usize, guess: &str) -> TokenStream {
    let constant = member(number);
    let name = if repeated(agent)[number] { quote!(#guess) } else { quote!(#constant.name()) };
    quote! {
        __hier::NodeSpec::declared(#name, false, &[], const { &[] }, #constant.nested())
    }
}

fn stages(model: &GraphModel, agent: &AgentFields) -> TokenStream {
    let first = agent.subagents.len();
    let stages = numbered(model, agent).filter(|(number, _)| *number >= first);
    let checks = stages.map(|(number, attachment)| {
        let (constant, name) = (member(number), last(&attachment.path));
        let message = format!(
            "`{name}` asks a model, itself or in a subgraph, but front and back stages cannot: make it a subagent"
        );
        quote_spanned!(span(&attachment.path)=> const _: () = __hier::core::assert!(!#constant.asks_model(), #message);)
    });
    checks.collect()
}

/// Escapes braces for the format string of an assertion.
fn plainly(message: &str) -> String {
    message.replace('{', "{{").replace('}', "}}")
}

/// Checks that each policy fits both states and does not contradict the graph's own policy.
fn policies(model: &GraphModel, agent: &AgentFields, state: &Type) -> TokenStream {
    let checks = numbered(model, agent).map(|(number, attachment)| {
        let (constant, name, here) = (member(number), last(&attachment.path), span(&attachment.path));
        let both = format!("one of this policy and the policy of `{name}` merges a channel that the other discards: remove it from one");
        let lacks =
            format!("the policy of `{name}` names a channel that this agent's state does not have: replace its list here");
        let none = plainly(&format!("`{name}` has a different state than this agent, and no policy: write `{name} {{ … }}`"));
        let several = plainly(&format!(
            "each parallel subagent needs a policy: write `{name} {{ … }}`, or remove `parallel_subagents`"
        ));
        let plain = format!(
            "a channel that `{name}` returns has no reducer, but parallel subagents may write it at once: add one, or remove \
             `parallel_subagents`"
        );
        let table = quote!(<#state as __hier::State>::CHANNELS);
        let parallel = (agent.parallel && number < agent.subagents.len()).then(|| {
            quote_spanned! {here=>
                __hier::core::assert!(#constant.has_policy(), #several);
                __hier::core::assert!(#constant.merges_reduced(&#table), #plain);
            }
        });
        let returns = background::returns(attachment, &constant, &name);
        quote_spanned! {here=>
            const _: () = {
                #returns
                __hier::core::assert!(!#constant.merges_and_discards(), #both);
                __hier::core::assert!(#constant.fits(&#table), #lacks);
                __hier::core::assert!(#constant.may_share(&#table), #none);
                #parallel
            };
        }
    });
    checks.collect()
}

/// Checks that a subagent receives the channels that it and its prompt read, and that it can write the merged ones.
/// Each check is a separate constant, so that the compiler reports all mistakes.
fn flows(model: &GraphModel, agent: &AgentFields, state: &Type) -> TokenStream {
    let checks = numbered(model, agent).map(|(number, attachment)| {
        let (mut constant, name, here) = (member(number), last(&attachment.path), span(&attachment.path));
        constant.set_span(here);
        let table = quote!(<#state as __hier::State>::CHANNELS);
        let merged =
            attachment.policy.iter().filter_map(|policy| policy.merge_fields.as_ref()).flatten().map(|field| {
                let (text, mut constant) = (field.unraw().to_string(), member(number));
                constant.set_span(field.span());
                quote_spanned!(field.span()=> const _: () = #constant.check_merge(#name, #text);)
            });
        let needs = quote_spanned!(here=> const _: () = #constant.check_needs(#name, &#table););
        let prompt = quote_spanned!(here=> const _: () = #constant.check_prompt(#name););
        quote!(#needs #(#merged)* #prompt)
    });
    checks.collect()
}

/// Checks that no two tools or subagents of an agent have the same name.
fn names(model: &GraphModel, agent: &AgentFields) -> TokenStream {
    let tools = agent.tools.iter().map(|path| {
        let tool = named::tool(model, path);
        let name = quote_spanned!(span(path)=> <#tool as __hier::NamedTool>::NAME);
        (path, name, "tool", false)
    });
    let subagents = numbered(model, agent).take_while(|(number, _)| *number < agent.subagents.len());
    let subagents = subagents.map(|(number, attachment)| {
        let constant = member(number);
        (&attachment.path, quote!(#constant.name()), "subagent", true)
    });
    let all: Vec<_> = tools.chain(subagents).collect();
    let of = kind(agent);
    let names = all.iter().map(|(_, name, ..)| name);
    let checks = all.iter().enumerate().map(|(place, (path, name, what, is_node))| {
        let last = last(path);
        let doubled = format!("the {what} `{last}` has the name of another tool or subagent of this agent: rename one");
        let reserved = format!("the {what} `{last}` has a name that every agent reserves: rename it");
        let called = is_node.then(|| {
            let message = format!(
                "models cannot call the subagent `{last}`, because a name has 1 to 64 ASCII letters, digits, `_` and `-`: \
                 change its `name: \"…\"`"
            );
            quote_spanned!(span(path)=> const _: () = __hier::core::assert!(__hier::is_callable(#name), #message);)
        });
        let owner = format!("the {what} `{last}`");
        let searched = search::check(agent, span(path), name, &owner);
        let in_background = background::check(agent, span(path), name, &owner);
        quote_spanned! {span(path)=>
            const _: () = __hier::core::assert!(__HIER_DOUBLED != #place, #doubled);
            const _: () = __hier::core::assert!(!__hier::is_reserved(#of, #name, #is_node), #reserved);
            #called
            #searched
            #in_background
        }
    });
    quote! {
        #[allow(long_running_const_eval)]
        const __HIER_DOUBLED: usize = __hier::first_doubled(&[#(#names),*]);
        #(#checks)*
    }
}

fn builder(model: &GraphModel, agent: &AgentFields, state: &Type, context: &TokenStream) -> TokenStream {
    let set = |method: &str, value: &Option<Expr>| {
        let value = value.as_ref()?;
        let method = Ident::new(method, value.span());
        Some(quote_spanned!(value.span()=> .#method(#value)))
    };
    let fields = [
        secret::setter("system", agent.system.as_ref()),
        set("model", &agent.model),
        set("attempts", &agent.attempts),
        secret::setter("reasoning", agent.reasoning.as_ref()),
        set("tool_errors", &agent.tool_errors),
        set("max_iterations", &agent.max_iterations),
        set("max_repeats", &agent.max_repeats),
        set("reports_to_supervisor", &agent.reports),
        set("todo_check", &agent.todo_check),
        set("todo_refusal", &agent.todo_refusal),
    ];
    let fields = fields.into_iter().flatten();
    let into = agent.report_into.as_ref().map(|channel| {
        quote_spanned! {channel.span()=>
            .report_into(&<#state as __hier::State>::channels().#channel)
        }
    });
    let answer = agent.answer.as_ref().map(|channel| {
        quote_spanned! {channel.span()=>
            .answer(&<#state as __hier::State>::channels().#channel)
        }
    });
    let options = agent.options.as_ref().map(options);
    let search = agent.search.as_ref().map(search::setter);
    let tools = agent.tools.iter().zip(&agent.rules.named).map(|(path, options)| {
        let tool = tool_rules::ruled_tool(&named::tool(model, path), options, context);
        quote_spanned!(span(path)=> .tool(#tool))
    });
    let toolsets = agent.toolsets.iter().zip(&agent.rules.sets).map(|(choose, options)| {
        if let Some(options) = tool_rules::set_options(options, context) {
            quote_spanned!(choose.span()=> .toolset_with(#choose, #options))
        } else {
            quote_spanned!(choose.span()=> .toolset(#choose))
        }
    });
    let subagents = agent.subagents.len();
    let stages = subagents + agent.front.len();
    let members = numbered(model, agent).map(|(number, _)| {
        let constant = member(number);
        let method = if number < subagents {
            quote!(subagent)
        } else if number < stages {
            quote!(front)
        } else {
            quote!(back)
        };
        quote!(.#method(#constant.subagent()))
    });
    let parallel = agent.parallel;
    let layers = agent.layers.iter().map(|given| {
        let layer = layers::layer(given, &state.to_token_stream(), context);
        quote_spanned!(layers::span(given)=> .layer(#layer))
    });
    let parts = quote!(#into #answer #(#tools)* #(#toolsets)* #(#members)*);
    let built = quote!(__agent #(#fields)* #options #search #(#layers)* .parallel_subagents(#parallel) #parts);
    let Some(channel) = &agent.answer else { return built };
    let probe = tool_rules::probe(&state.to_token_stream(), channel);
    quote_spanned! {channel.span()=> {
        #[allow(unused_imports)]
        use __hier::{IsTextFree as _, MayHaveText as _};
        (&#probe).seal(#built)
    }}
}

/// Returns `Some(PolicySpec { … })` or `None`. With the path of the other graph, the code looks up the channels in both
/// states.
fn policy(policy: Option<&PolicyFields>, state: &Type, inner: Option<&Path>) -> TokenStream {
    let here = inner.map_or_else(Span::call_site, span);
    let Some(policy) = policy else { return quote_spanned!(here=> __hier::core::option::Option::None) };
    let option = |field: &str, value: &Option<Expr>| {
        let (field, value) = (Ident::new(field, Span::call_site()), value.as_ref()?);
        Some(quote!(#field: __hier::core::option::Option::Some(#value),))
    };
    let fields = |option: &str, channels: &Option<Vec<Ident>>| {
        let (option, channels) = (Ident::new(option, Span::call_site()), channels.as_ref()?);
        let written = channels.iter().map(|channel| channel.unraw().to_string());
        let names = channels.iter().map(|channel| {
            let key =
                |state: TokenStream| quote_spanned!(channel.span()=> &<#state as __hier::State>::channels().#channel);
            let outer = key(state.to_token_stream());
            let Some(path) = inner else {
                return quote_spanned!(channel.span()=> __hier::returnable(#outer));
            };
            let inner = key(quote!(<#path as __hier::Graph>::State));
            quote_spanned!(channel.span()=> __hier::crosses(#outer, #inner))
        });
        let free = channels.iter().map(|channel| tool_rules::is_channel_text_free(&state.to_token_stream(), channel));
        Some(quote! {
            #option: __hier::core::option::Option::Some(__hier::FieldsSpec {
                written: &[#(#written),*],
                names: || __hier::std::vec![#(#names),*],
                text_free: true #(&& #free)*,
            }),
        })
    };
    let given = [
        option("clear_messages", &policy.clear_messages),
        option("preserve_chat_with_operator", &policy.preserve_chat),
        option("reset_iteration", &policy.reset_iteration),
        option("max_iterations", &policy.max_iterations),
        Some(background::fields(policy)),
        fields("merge_fields", &policy.merge_fields),
        fields("discard_fields", &policy.discard_fields),
    ];
    let given = given.into_iter().flatten();
    quote_spanned! {here=>
        __hier::core::option::Option::Some(__hier::PolicySpec {
            #(#given)*
            ..__hier::PolicySpec::NONE
        })
    }
}

/// The item of `impl Graph` with the code that runs when the graph is entered and left.
pub(in super::super) fn hooks(member: &MembershipFields, state: &Type, context: &TokenStream) -> Option<TokenStream> {
    let hook = |method: &str, path: &Path| {
        let here = span(path);
        let (method, site) = (Ident::new(method, here), code::site_at(here));
        quote_spanned!(here=> .#method(|task| (#site.hook(&#path).0)(#path, task)))
    };
    let entry = member.on_entry.as_ref().map(|path| hook("on_entry", path));
    let exit = member.on_exit.as_ref().map(|path| hook("on_exit", path));
    (entry.is_some() || exit.is_some()).then(|| {
        quote! {
            fn hooks() -> __hier::Hooks<#state, #context> {
                __hier::Hooks::default() #entry #exit
            }
        }
    })
}

/// The item of `impl Graph` with the channel for messages from outside.
pub(in super::super) fn inbox(member: &MembershipFields, state: &Type) -> Option<TokenStream> {
    let channel = member.inbox.as_ref()?;
    Some(quote_spanned! {channel.span()=>
        fn inbox() -> ::core::option::Option<::std::string::String> {
            __hier::core::option::Option::Some(__hier::inbox(&<#state as __hier::State>::channels().#channel))
        }
    })
}

pub(in super::super) fn membership(model: &GraphModel, state: &Type) -> TokenStream {
    let (name, member, prompt) = (&model.head.name, &model.member, prompt::constant(model));
    let policy = policy(member.policy.as_ref(), state, None);
    let args = member.args.as_ref().map(|args| {
        quote_spanned! {args.span()=>
            fn args() -> ::core::option::Option<__hier::ArgsSpec> {
                __hier::core::option::Option::Some(__hier::ArgsSpec::of_type::<#args>())
            }
        }
    });
    quote! {
        impl __hier::Membership for #name {
            const POLICY: ::core::option::Option<__hier::PolicySpec> = #policy;
            #prompt
            #args
        }
    }
}

fn span(path: &Path) -> Span {
    code::span(path)
}

fn last(path: &Path) -> String {
    path.segments.last().map(|last| last.ident.unraw().to_string()).unwrap_or_default()
}
