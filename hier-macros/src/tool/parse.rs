//! Reads the options and the function, and sorts its parameters by the source of their values.

use proc_macro2::{Delimiter, Punct, Spacing, TokenStream, TokenTree};
use quote::ToTokens;
use syn::ext::IdentExt;
use syn::parse::{ParseStream, Parser};
use syn::spanned::Spanned;
use syn::{
    Attribute, Block, Expr, FnArg, ForeignItemFn, GenericArgument, Ident, ItemFn, LitStr, Meta, Pat, Path,
    PathArguments, Token, Type,
};

use super::model::{Argument, Need, Param, ParamRole, ToolModel, ToolOptions};
use crate::approval::Approval;
use crate::diag::{Errors, unknown};
use crate::docs::Docs;
use crate::fragment;
use crate::graph;
use crate::symbol;

pub(super) fn options(tokens: TokenStream, errors: &mut Errors) -> ToolOptions {
    let mut options = ToolOptions::default();
    let parser = |input: ParseStream<'_>| {
        let mut given: Vec<Ident> = Vec::new();
        while !input.is_empty() {
            if let Ok(name) = input.fork().parse::<LitStr>() {
                let option = name.token();
                return Err(input.error(format!("the name of a tool is an option: write `name = {option}`")));
            }
            let word = input.call(Ident::parse_any)?;
            if given.contains(&word) {
                errors.push(&word, format!("`{word}` is given twice: remove one"));
            }
            if let Err(error) = option(&word, input, &mut options) {
                errors.combine(error);
                while !input.is_empty() && !input.peek(Token![,]) {
                    input.parse::<TokenTree>()?;
                }
            }
            given.push(word);
            if !input.is_empty() {
                input.parse::<Token![,]>()?;
            }
        }
        Ok(())
    };
    if let Err(error) = parser.parse2(tokens) {
        errors.combine(error);
    }
    options
}

fn option(word: &Ident, input: ParseStream<'_>, options: &mut ToolOptions) -> syn::Result<()> {
    let text = word.to_string();
    match text.as_str() {
        symbol::NEEDS_APPROVAL => options.needs_approval = alone(word, input)?,
        symbol::APPROVE => {
            input.parse::<Token![=]>()?;
            options.approve = Some((word.clone(), Approval::parse(input)?));
        }
        symbol::PRIVATE | symbol::UNTRUSTED | symbol::SENDS => {
            alone(word, input)?;
            options.labels.push(word.clone());
        }
        symbol::STEP => options.step = alone(word, input)?.then(|| word.clone()),
        symbol::CLIENT => {
            options.client = Some(word.clone());
            alone(word, input)?;
        }
        symbol::NAME => options.name = Some(value::<LitStr>(input)?),
        symbol::DESCRIPTION => options.description = Some(value::<LitStr>(input)?),
        symbol::TIMEOUT => {
            input.parse::<Token![=]>()?;
            options.timeout = Some(graph::positive(input, graph::NO_TIME)?);
        }
        symbol::RETRY => options.retry = Some(value::<Expr>(input)?),
        symbol::CRATE => {
            input.parse::<Token![=]>()?;
            options.home = Some(input.call(Path::parse_mod_style)?);
        }
        _ => return Err(syn::Error::new_spanned(word, unknown("option of `#[tool]`", &text, symbol::TOOL_OPTIONS))),
    }
    Ok(())
}

/// Returns true if an option has no value.
fn alone(word: &Ident, input: ParseStream<'_>) -> syn::Result<bool> {
    if input.is_empty() || input.peek(Token![,]) {
        return Ok(true);
    }
    Err(input.error(format!("`{word}` takes no value: write it alone")))
}

fn value<T: syn::parse::Parse>(input: ParseStream<'_>) -> syn::Result<T> {
    input.parse::<Token![=]>()?;
    input.parse()
}

/// Reads the function. Returns true if the function has a body. A function that ends with a semicolon gets an empty
/// body.
pub(super) fn function(item: &TokenStream, options: &ToolOptions, errors: &mut Errors) -> Option<(ItemFn, bool)> {
    if let Ok(function) = syn::parse2::<ItemFn>(item.clone()) {
        if let Some(word) = &options.client {
            let (name, here) = (&function.sig.ident, function.block.brace_token.span.open());
            errors.at(
                here,
                format!("the tool `{name}` runs in the client: write `;` instead of the body, or remove `{word}`"),
            );
        }
        return Some((function, true));
    }
    let Ok(declared) = syn::parse2::<ForeignItemFn>(item.clone()) else {
        if let Some(sign) = default_value(item) {
            errors.push(sign, "a default is an attribute of the argument: write `#[default = 3] limit: u32`");
            return None;
        }
        let needs = if options.client.is_some() {
            "`#[tool(client)]` needs an `async fn` that ends with `;`"
        } else {
            "`#[tool]` needs an `async fn` with a body"
        };
        errors.push(item, needs);
        return None;
    };
    let ForeignItemFn { attrs, vis, modifiers, sig, semi_token } = declared;
    if options.client.is_none() && sig.receiver().is_none() {
        let fix = "write one, or `#[tool(client)]` if it runs in the client";
        errors.push(semi_token, format!("the tool `{}` has no body: {fix}", sig.ident));
    }
    let block = Box::new(Block { brace_token: syn::token::Brace::default(), stmts: Vec::new() });
    Some((ItemFn { attrs, vis, modifiers, sig, block }, false))
}

/// Returns the `=` of `async fn find(limit: u32 = 3)`, which Rust does not allow.
fn default_value(item: &TokenStream) -> Option<Punct> {
    let mut tokens =
        item.clone().into_iter().skip_while(|token| !matches!(token, TokenTree::Ident(word) if word == "fn"));
    let arguments = tokens.find_map(|token| match token {
        TokenTree::Group(group) if group.delimiter() == Delimiter::Parenthesis => Some(group.stream()),
        _ => None,
    })?;
    arguments.into_iter().find_map(|token| match token {
        TokenTree::Punct(sign) if sign.as_char() == '=' && sign.spacing() == Spacing::Alone => Some(sign),
        _ => None,
    })
}

pub(super) fn tool((mut function, has_body): (ItemFn, bool), options: ToolOptions, errors: &mut Errors) -> ToolModel {
    let docs = Docs::read(&function.attrs);
    let params = function.sig.inputs.iter_mut().map(|input| param(input, errors)).collect();
    ToolModel { function, has_body, docs, options, params }
}

/// Reads a parameter and removes the attributes of this macro.
fn param(input: &mut FnArg, errors: &mut Errors) -> Param {
    let span = input.span();
    let role = match input {
        FnArg::Receiver(receiver) => {
            errors.push(
                receiver,
                "a tool is a free function without `self`: move it out of the block, and take what it needs from `&Run<…>` or the state",
            );
            ParamRole::Wrong
        }
        FnArg::Typed(typed) => {
            let attributes = std::mem::take(&mut typed.attrs);
            let (ours, rest) = attributes.into_iter().partition(|attribute| is_ours(attribute, errors));
            typed.attrs = rest;
            role(&ours, &typed.pat, &fragment::ty((*typed.ty).clone()), errors)
        }
    };
    Param { span, role }
}

/// Returns true for attributes of this macro, and false for attributes of the compiler.
fn is_ours(attribute: &Attribute, errors: &mut Errors) -> bool {
    let Some(word) = attribute.path().get_ident() else { return false };
    let word = word.to_string();
    if symbol::LINTS.contains(&word.as_str()) {
        return false;
    }
    if word == symbol::CFG {
        errors.push(attribute, "a tool always has the same arguments: write a second tool, and `#[cfg(…)]` above both");
    } else if word != symbol::DOC && !symbol::PARAMETER_ATTRIBUTES.contains(&word.as_str()) {
        errors.push(attribute.path(), unknown("attribute of an argument", &word, symbol::PARAMETER_ATTRIBUTES));
    }
    true
}

fn role(attributes: &[Attribute], pattern: &Pat, ty: &Type, errors: &mut Errors) -> ParamRole {
    let find = |word: &str| attributes.iter().find(|attribute| attribute.path().is_ident(word));
    let marks: Vec<_> = [symbol::INJECT, symbol::ARGS, symbol::DEFAULT].into_iter().filter_map(find).collect();
    if let [_, others @ ..] = marks.as_slice()
        && !others.is_empty()
    {
        for mark in &marks {
            errors.push(
                mark,
                "an argument has at most one of `#[inject]`, `#[args]` and `#[default]`: remove the others",
            );
        }
        return ParamRole::Wrong;
    }
    if let Some(mark) = find(symbol::INJECT) {
        return if bare(mark, errors) { injected(ty) } else { ParamRole::Wrong };
    }
    if let Some(mark) = find(symbol::ARGS) {
        return if bare(mark, errors) { ParamRole::Whole(ty.clone()) } else { ParamRole::Wrong };
    }
    let role = match ty {
        Type::Reference(reference) => borrowed(reference, errors),
        Type::Path(path) if last(&path.path.segments) == symbol::TOOL_CALL => {
            errors.push(ty, "a tool borrows its call: write `&ToolCall`");
            return ParamRole::Wrong;
        }
        Type::Path(path) if last(&path.path.segments) == symbol::TOOL_CALL_ID => ParamRole::CallId,
        Type::Path(_) if asked(ty).is_some() => injected(ty),
        _ => return argument(attributes, pattern, ty, find(symbol::DEFAULT), errors),
    };
    if let Some(mark) = find(symbol::DEFAULT) {
        errors.push(mark, "only an argument from the model has a default: remove this");
    }
    role
}

fn injected(ty: &Type) -> ParamRole {
    asked(ty).map_or_else(|| ParamRole::Inject(ty.clone()), |question| ParamRole::Ask(ty.clone(), Box::new(question)))
}

fn asked(ty: &Type) -> Option<Type> {
    let Type::Path(path) = ty else { return None };
    let last = path.path.segments.last().filter(|last| last.ident == symbol::ASK)?;
    only_type(&last.arguments)
}

/// Returns true if an attribute has no value. Reports a value of `#[inject]` or `#[args]`.
fn bare(mark: &Attribute, errors: &mut Errors) -> bool {
    errors.keep(mark.meta.require_path_only()).is_some()
}

/// Interprets a reference, which borrows from the task. The model passes only owned values.
fn borrowed(reference: &syn::TypeReference, errors: &mut Errors) -> ParamRole {
    if let Some(word) = &reference.mutability {
        errors.push(word, "a tool cannot change the state in place: take `&` and return a `Command` with an update");
        return ParamRole::Wrong;
    }
    match &*reference.elem {
        Type::Path(path) => {
            let segments = &path.path.segments;
            match last(segments).as_str() {
                symbol::RUN => ParamRole::Run(context(segments)),
                symbol::TOOL_CALL => ParamRole::Call,
                "str" => {
                    errors.push(reference, "an argument from the model is owned: write `String`");
                    ParamRole::Wrong
                }
                _ => ParamRole::State((*reference.elem).clone()),
            }
        }
        other => {
            errors.push(
                other,
                "a tool borrows its state (`&Filing`), `&Run<…>` or `&ToolCall`: make an argument from the model owned",
            );
            ParamRole::Wrong
        }
    }
}

fn last(segments: &syn::punctuated::Punctuated<syn::PathSegment, Token![::]>) -> String {
    segments.last().map(|segment| segment.ident.to_string()).unwrap_or_default()
}

/// The context of `Run<C>`. `Run` has the context `()`.
fn context(segments: &syn::punctuated::Punctuated<syn::PathSegment, Token![::]>) -> Type {
    let given = segments.last().and_then(|segment| only_type(&segment.arguments));
    given.unwrap_or_else(|| syn::parse_quote!(()))
}

fn only_type(arguments: &PathArguments) -> Option<Type> {
    let PathArguments::AngleBracketed(arguments) = arguments else { return None };
    arguments.args.iter().find_map(|argument| match argument {
        GenericArgument::Type(ty) => Some(ty.clone()),
        _ => None,
    })
}

fn argument(
    attributes: &[Attribute],
    pattern: &Pat,
    ty: &Type,
    default: Option<&Attribute>,
    errors: &mut Errors,
) -> ParamRole {
    let Pat::Ident(name) = pattern else {
        errors.push(
            pattern,
            "the model passes an argument by name: write `name: Type` here and destructure it in the body",
        );
        return ParamRole::Wrong;
    };
    if let Type::ImplTrait(ty) = ty {
        errors.push(ty, "`impl Trait` has no schema: write a concrete type");
        return ParamRole::Wrong;
    }
    let option = match ty {
        Type::Path(path) => path.path.segments.last().filter(|last| last.ident == symbol::OPTION),
        _ => None,
    };
    let inner = option.and_then(|option| only_type(&option.arguments));
    let need = match (default, inner) {
        (Some(default), Some(_)) => {
            errors.push(default, "an `Option` already defaults to `None`: remove this, or the `Option`");
            return ParamRole::Wrong;
        }
        (Some(default), None) => match errors.keep(default_of(default)) {
            Some(default) => Need::Default(default),
            None => return ParamRole::Wrong,
        },
        (None, Some(inner)) => Need::Optional(inner),
        (None, None) => Need::Required,
    };
    let (ident, ty, description) = (name.ident.clone(), ty.clone(), Docs::read(attributes));
    ParamRole::Argument(Box::new(Argument { ident, ty, description, need }))
}

fn default_of(attribute: &Attribute) -> syn::Result<Option<Expr>> {
    match &attribute.meta {
        Meta::Path(_) => Ok(None),
        Meta::NameValue(pair) => Ok(Some(fragment::expression(&pair.value).clone())),
        Meta::List(list) => Err(syn::Error::new_spanned(list, "write `#[default = …]`")),
    }
}

/// The states in the result type of a function.
pub(super) fn returned_states(ty: &Type) -> Vec<Type> {
    let Type::Path(path) = ty else { return Vec::new() };
    let Some(last) = path.path.segments.last() else { return Vec::new() };
    if symbol::STATEFUL_OUTPUTS.iter().any(|word| last.ident == word) {
        return only_type(&last.arguments).into_iter().collect();
    }
    let PathArguments::AngleBracketed(arguments) = &last.arguments else { return Vec::new() };
    let types = arguments.args.iter().filter_map(|argument| match argument {
        GenericArgument::Type(ty) => Some(ty),
        _ => None,
    });
    types.flat_map(returned_states).collect()
}

pub(super) fn text(tokens: &impl ToTokens) -> String {
    tokens.to_token_stream().to_string().replace(" < ", "<").replace(" >", ">").replace(" :: ", "::")
}
