//! `fetch`, `name = path { retry: 3, timeout: 5s }`

use syn::ext::IdentExt;
use syn::parse::ParseStream;
use syn::{ExprClosure, Ident, Path, PathArguments, Result, Token};

use super::super::ast::agent::{ToolRules, parted};
use super::super::ast::{Length, NodeDecl, NodeOptions};
use super::{bracket, colon, duration, names, no_such, skip_value};
use crate::diag::Errors;
use crate::symbol;
use crate::words::Words;

pub(super) fn node(input: ParseStream<'_>, errors: &mut Errors) -> Result<NodeDecl> {
    if input.peek(Ident) && input.peek2(Token![:]) && !input.peek2(Token![::]) {
        let name: Ident = input.parse()?;
        return Err(input.error(format!("a node gets another name with `=`: write `{name} = path`")));
    }
    let name = if input.peek2(Token![=]) && !input.peek2(Token![==]) {
        let name: Ident = input.parse()?;
        input.parse::<Token![=]>()?;
        Some(name)
    } else {
        None
    };
    let (path, tools, rules) = match tools(input, errors)? {
        Some((path, (named, sets, rules))) => (path, Some((named, sets)), rules),
        None => (path(input, errors)?, None, ToolRules::default()),
    };
    let last = path.segments.last().map(|segment| segment.ident.clone());
    let Some(name) = name.or(last) else { return Err(input.error("expected a node")) };
    if PATH_KEYWORDS.iter().any(|keyword| name == keyword) {
        let message = format!(
            "`{name}` cannot be the name of a node: write `name = path` with the path of a function or a graph"
        );
        return Err(syn::Error::new_spanned(name, message));
    }
    let options = if input.peek(syn::token::Brace) { options(input, errors)? } else { NodeOptions::default() };
    if let (None, Some((word, _))) = (&tools, &options.tool_errors) {
        errors.push(word, format!("`{name}` calls no tools: remove `{word}`, which is an option of `tools![…]`"));
    }
    Ok(NodeDecl { name, path, tools, rules, options })
}

/// Keywords at the start of a path. Not even their raw forms can name an item.
const PATH_KEYWORDS: [&str; 4] = ["crate", "self", "Self", "super"];

type Tools = (Vec<Path>, Vec<ExprClosure>, ToolRules);

/// Parses `tools![lookup, refund]`. Returns a path for the generated graph, and the tools.
fn tools(input: ParseStream<'_>, errors: &mut Errors) -> Result<Option<(Path, Tools)>> {
    if !(input.peek(Ident) && input.peek2(Token![!])) {
        return Ok(None);
    }
    let word: Ident = input.parse()?;
    input.parse::<Token![!]>()?;
    if word != symbol::TOOLS {
        let message = format!(
            "`{word}!` is not a node: write the path of an `async fn` or of a graph, or `tools![lookup, refund]`"
        );
        return Err(syn::Error::new_spanned(word, message));
    }
    let found = bracket(input, "the tools that are called", errors, super::agent::tool)?;
    if found.found.is_empty() && !found.broken {
        return Err(syn::Error::new_spanned(&word, "`tools![]` needs a tool: `tools![lookup]`"));
    }
    Ok(Some((Path::from(word), parted(found.found))))
}

fn path(input: ParseStream<'_>, errors: &mut Errors) -> Result<Path> {
    if input.peek(syn::LitStr) {
        return Err(
            input.error("a node is the path of a function: remove the quotes, and rename the node with `name = path`")
        );
    }
    if input.peek(Token![|]) || input.peek(Token![async]) || input.peek(Token![move]) {
        return Err(input.error("a node is the path of an `async fn` or of a graph: move this code into a function"));
    }
    if input.peek(syn::token::Paren) {
        return Err(
            input.error("a node is the path of a function, without parentheses: to rename it, write `name = path`")
        );
    }
    if input.peek(Token![<]) {
        return Err(input.error(
            "a node is a path without `<…>` before it: write `name = Type::function`, or call the function in a node of its own",
        ));
    }
    let path: Path = input
        .parse()
        .map_err(|error| syn::Error::new(error.span(), "expected a node: the path of an `async fn` or of a graph"))?;
    if input.peek(syn::token::Paren)
        || path.segments.iter().any(|segment| matches!(segment.arguments, PathArguments::Parenthesized(_)))
    {
        return Err(syn::Error::new_spanned(
            path,
            "a node is named, not called: remove the parentheses; the node can take its context as `&Run<Desk>`",
        ));
    }
    if input.peek(Token![as]) {
        return Err(input.error("a node gets another name with `=`, and not with `as`: write `name = path`"));
    }
    let path = as_value(path)?;
    errors.words.value(&path);
    Ok(path)
}

fn options(input: ParseStream<'_>, errors: &mut Errors) -> Result<NodeOptions> {
    let mut options = NodeOptions::default();
    super::options(input, Some("Node"), errors, |input, word, errors| option(input, word, &mut options, errors))?;
    Ok(options)
}

fn option(input: ParseStream<'_>, word: &Ident, options: &mut NodeOptions, errors: &mut Errors) -> Result<()> {
    match &*word.to_string() {
        symbol::RETRY => {
            colon(input, word, "3")?;
            options.retry = Some(duration::retry(input, errors)?);
        }
        symbol::TIMEOUT => options.timeout = Some(length(input, word, errors)?),
        symbol::IDLE_TIMEOUT => options.idle_timeout = Some(length(input, word, errors)?),
        symbol::CACHE => {
            colon(input, word, "60s")?;
            options.cache = Some(duration::cache(input, errors)?);
        }
        symbol::DEFER => {
            options.defer = true;
            if !input.is_empty() && !input.peek(Token![,]) {
                let error = input.error("`defer` takes no value: write it alone");
                skip_value(input);
                errors.combine(error);
            }
        }
        symbol::ON_ERROR => {
            colon(input, word, "handler")?;
            options.on_error = Some(path(input, errors)?);
        }
        symbol::WRITES => {
            colon(input, word, "[channel]")?;
            options.writes = names(input, "a list of channels", Words::channel, errors)?;
        }
        symbol::GOTO => {
            colon(input, word, "[node, END]")?;
            options.goto = names(input, "a list of nodes", Words::node, errors)?;
        }
        symbol::TOOL_ERRORS => {
            colon(input, word, "ToolErrors::Tell")?;
            options.tool_errors = Some((word.clone(), super::value(input, errors)?));
        }
        symbol::CHECKPOINTS => {
            colon(input, word, "per_thread")?;
            options.checkpoints = checkpoints(input, errors)?;
        }
        symbol::SEARCH => {
            skip_value(input);
            errors.push(word, NO_SEARCH);
        }
        _ => {
            skip_value(input);
            let foreign = symbol::FOREIGN_NODE_OPTIONS.iter().find(|(foreign, _)| word == foreign);
            errors.push(
                word,
                foreign.map_or_else(
                    || no_such("a node", "option", word, symbol::NODE_OPTIONS),
                    |(_, ours)| format!("a node has no option `{word}`; did you mean `{ours}`?"),
                ),
            );
        }
    }
    Ok(())
}

/// The tools that a model has found must be in its next request, which a node `tools![…]` does not send.
const NO_SEARCH: &str = "a node has no option `search`, because another node chooses the tools of the request: in place of \
                         both nodes, list an agent with `tools` and `search`";

fn checkpoints(input: ParseStream<'_>, errors: &mut Errors) -> Result<Option<Ident>> {
    let word = input.call(Ident::parse_any)?;
    errors.words.one_of("checkpoints", &word);
    let known = symbol::CHECKPOINTS_VALUES;
    if let Some((_, variant)) = known.iter().find(|(name, _)| word == name) {
        return Ok(Some(Ident::new(variant, word.span())));
    }
    let (text, known) = (word.to_string(), known.iter().map(|(name, _)| *name));
    let tail = hier_spec::did_you_mean(&text, known);
    Err(syn::Error::new_spanned(&word, format!("`checkpoints` cannot be `{text}`{tail}")))
}

fn length(input: ParseStream<'_>, word: &Ident, errors: &mut Errors) -> Result<Length> {
    colon(input, word, "5s")?;
    let length = duration::positive(input, duration::NO_TIME)?;
    errors.words.value(&length);
    Ok(length)
}

/// Adds the `::` before `<…>` that an expression needs, because the generated code must always parse.
fn as_value(mut path: Path) -> Result<Path> {
    for (place, segment) in path.segments.iter_mut().enumerate() {
        let text = segment.ident.to_string();
        if (place > 0 && ["crate", "self", "Self"].contains(&&*text)) || text == "_" {
            let message = format!("`{text}` is not allowed here in a path: name a function or a graph");
            return Err(syn::Error::new_spanned(&segment.ident, message));
        }
        if let PathArguments::AngleBracketed(arguments) = &mut segment.arguments {
            arguments.colon2_token.get_or_insert_default();
        }
    }
    Ok(path)
}
