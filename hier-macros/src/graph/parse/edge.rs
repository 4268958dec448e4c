//! `START >> a >> [b, c]`, and routes.

use proc_macro2::{Group, Span, TokenTree};
use syn::parse::ParseStream;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{Expr, Ident, Pat, PatIdent, Result, Token, braced, bracketed, parenthesized};

use super::super::ast::{ArmBody, ChainLink, EdgeChain, RouteArm, RouteDecl, RouteKind, RouteTarget, Selector};
use super::super::text::{the_state, variable};
use super::{always, list, name};
use crate::diag::Errors;
use crate::words::Words;

pub(super) fn chain(input: ParseStream<'_>, errors: &mut Errors) -> Result<EdgeChain> {
    let mut links = vec![link(input, errors)?];
    while !input.is_empty() && !input.peek(Token![,]) {
        if !input.peek(Token![>>]) {
            return Err(input.error("expected `>>` or `,`: an edge is written `a >> b`"));
        }
        input.parse::<Token![>>]>()?;
        links.push(link(input, errors)?);
    }
    Ok(EdgeChain(links))
}

fn link(input: ParseStream<'_>, errors: &mut Errors) -> Result<ChainLink> {
    if let Some(shape) = decides(input) {
        let decision = decision(input, shape, &[], errors)?;
        errors.words.statement(decision.outline());
        return Ok(ChainLink::Choice(decision));
    }
    if input.peek(syn::token::Bracket) {
        let content;
        let bracket = bracketed!(content in input);
        let nodes = list(&content, errors, always, plain_name);
        if nodes.found.is_empty() && !nodes.broken {
            return Err(syn::Error::new(bracket.span.join(), "an empty list leads nowhere: name nodes or END in it"));
        }
        return Ok(ChainLink::Many(nodes.found, bracket.span.open()));
    }
    plain_name(input, errors).map(ChainLink::One)
}

fn plain_name(input: ParseStream<'_>, errors: &mut Errors) -> Result<Ident> {
    if input.peek(syn::token::Bracket) {
        return Err(input.error("a list of nodes cannot contain another list: write the names alone"));
    }
    if decides(input).is_some() {
        return Err(input.error("a list contains only nodes: write the route as a separate edge, `a >> match …`"));
    }
    if input.peek(syn::LitStr) {
        return Err(input.error("a node is named without quotes: write `a >> b`"));
    }
    if input.peek(syn::token::Paren) {
        return Err(input.error("an edge is written `a >> b`, without parentheses"));
    }
    let name = name(input, "expected a node, `[…]`, `match`, `if` or `for`", Words::node, errors)?;
    if input.peek(syn::token::Paren) {
        let message = if has_several(input) {
            format!("`{name}(…)` is not an edge: write `a >> b`, or a route such as `a >> match route {{ … }}`")
        } else {
            format!("a plain edge sends no item: write `{name}`, or `a >> for item in items {{ {name}(item) }}`")
        };
        return Err(input.error(message));
    }
    Ok(name)
}

/// Returns true if the next token is a group with a comma, such as the arguments of `add_edge(a, b)`.
fn has_several(input: ParseStream<'_>) -> bool {
    input.fork().parse::<Group>().is_ok_and(|group| {
        group.stream().into_iter().any(|token| matches!(token, TokenTree::Punct(punct) if punct.as_char() == ','))
    })
}

fn decides(input: ParseStream<'_>) -> Option<RouteKind> {
    match () {
        () if input.peek(Token![match]) => Some(RouteKind::Match),
        () if input.peek(Token![if]) => Some(RouteKind::If),
        () if input.peek(Token![for]) => Some(RouteKind::For),
        () => None,
    }
}

/// Parses a route in which outer patterns have bound some variables.
fn decision(input: ParseStream<'_>, shape: RouteKind, bound: &[Ident], errors: &mut Errors) -> Result<RouteDecl> {
    if let Some(name) = bound.iter().find(|name| **name == crate::symbol::STATE_VALUE) {
        errors.push(name, "`state` is the graph's state in an inner route: rename this variable".to_owned());
    }
    match shape {
        RouteKind::Match => by_match(input, bound, errors),
        RouteKind::If => by_if(input, bound, errors),
        RouteKind::For => by_for(input, bound, errors),
    }
}

/// Returns the variables of outer patterns and of this one.
fn with(bound: &[Ident], pattern: &Pat) -> Vec<Ident> {
    struct Names(Vec<Ident>);
    impl<'ast> Visit<'ast> for Names {
        fn visit_pat_ident(&mut self, name: &'ast PatIdent) {
            self.0.push(name.ident.clone());
            visit::visit_pat_ident(self, name);
        }
    }
    let mut names = Names(bound.to_vec());
    names.visit_pat(pattern);
    names.0
}

/// `match route { Pattern if guard => target, … }`
fn by_match(input: ParseStream<'_>, bound: &[Ident], errors: &mut Errors) -> Result<RouteDecl> {
    let span = input.parse::<Token![match]>()?.span;
    let function = function(input, RouteKind::Match, bound)?;
    let content;
    if !input.peek(syn::token::Brace) {
        // The user has written the selector but not the arms yet.
        errors.combine(input.error("expected curly braces"));
        return Ok(RouteDecl { span, shape: RouteKind::Match, function, arms: Vec::new(), broken: true });
    }
    let braces = braced!(content in input);
    let arms = list(
        &content,
        errors,
        |(_, needs_comma): &(RouteArm, bool)| *needs_comma,
        |input, errors| {
            let pattern = Pat::parse_multi_with_leading_vert(input)?;
            if !(input.peek(Token![=>]) || input.peek(Token![if])) {
                errors.words.pattern(&pattern);
            }
            let bound = with(bound, &pattern);
            let pattern = Some(pattern);
            let guard = match input.parse::<Option<Token![if]>>()? {
                Some(_) => Some(input.parse::<Expr>()?),
                None => None,
            };
            input.parse::<Token![=>]>()?;
            let ends_with_brace = input.peek(syn::token::Brace) || decides(input).is_some();
            let start = input.fork();
            let body = arm(input, &bound, errors)?;
            Ok((RouteArm { pattern, guard, body, end: last_token(&start, input) }, !ends_with_brace))
        },
    );
    let is_empty = arms.found.is_empty() && !arms.broken;
    if is_empty {
        errors.at(braces.span.join(), "a `match` needs arms: write `pattern => node`");
    }
    let broken = arms.broken || is_empty;
    let arms = arms.found.into_iter().map(|(arm, _)| arm).collect();
    Ok(RouteDecl { span, shape: RouteKind::Match, function, arms, broken })
}

/// Returns the span of the last token, or of the delimiter that closes the last group.
fn last_token(start: ParseStream<'_>, end: ParseStream<'_>) -> Span {
    let (mut cursor, mut last) = (start.cursor(), start.span());
    while cursor < end.cursor()
        && let Some((token, rest)) = cursor.token_tree()
    {
        (cursor, last) = (rest, if let TokenTree::Group(group) = &token { group.span_close() } else { token.span() });
    }
    last
}

/// `if test { target } else { target }`, `else if`.
fn by_if(input: ParseStream<'_>, bound: &[Ident], errors: &mut Errors) -> Result<RouteDecl> {
    let span = input.parse::<Token![if]>()?.span;
    let function = function(input, RouteKind::If, bound)?;
    let bare = |body| RouteArm { pattern: None, guard: None, body, end: span };
    let of_let = match &function {
        Selector::Expression(Expr::Let(condition)) => with(bound, &condition.pat),
        _ => bound.to_vec(),
    };
    let mut arms = vec![bare(block(input, &of_let, errors)?)];
    let mut broken = false;
    if next_word(input).is_some_and(|word| word == "elif") {
        return Err(input.error("another condition is written `else if`"));
    }
    if input.parse::<Option<Token![else]>>()?.is_some() {
        arms.push(bare(match decides(input) {
            Some(RouteKind::If) => ArmBody::Decide(Box::new(by_if(input, bound, errors)?)),
            _ => block(input, bound, errors)?,
        }));
    } else {
        errors.at(span, "this `if` has no `else`: add one, such as `else { END }`");
        broken = true;
    }
    Ok(RouteDecl { span, shape: RouteKind::If, function, arms, broken })
}

/// `for item in items { node(item) }`
fn by_for(input: ParseStream<'_>, bound: &[Ident], errors: &mut Errors) -> Result<RouteDecl> {
    let span = input.parse::<Token![for]>()?.span;
    let pattern = Pat::parse_multi_with_leading_vert(input)?;
    input.parse::<Token![in]>()?;
    let function = function(input, RouteKind::For, bound)?;
    let inside = input.span();
    let body = block(input, &with(bound, &pattern), errors)?;
    match &body {
        ArmBody::Decide(inner) => {
            let message = format!("a `for` contains only nodes, not a `{}`: write `node(item)`", inner.shape.word());
            return Err(syn::Error::new(inner.span, message));
        }
        ArmBody::Go(goals) if goals.is_empty() => {
            return Err(syn::Error::new(inside, "a `for` needs the node that receives the item: write `node(item)`"));
        }
        ArmBody::Go(goals) => {
            for RouteTarget { name, .. } in goals.iter().filter(|goal| goal.item.is_none()) {
                errors.push(name, format!("a node in a `for` receives an item: write `{name}(item)`"));
            }
        }
    }
    Ok(RouteDecl {
        span,
        shape: RouteKind::For,
        function,
        arms: vec![RouteArm { pattern: Some(pattern), guard: None, body, end: span }],
        broken: false,
    })
}

/// The path of a function of the state, a closure in parentheses, or an expression over `state` or a bound variable.
fn function(input: ParseStream<'_>, shape: RouteKind, bound: &[Ident]) -> Result<Selector> {
    let word = shape.word();
    let is_known = |expression: &Expr| {
        the_state(expression).is_some() || bound.iter().any(|name| variable(expression, &name.to_string()).is_some())
    };
    let mut expression = Expr::parse_without_eager_brace(input)?;
    loop {
        let message = match expression {
            Expr::Paren(inner) => {
                expression = *inner.expr;
                continue;
            }
            Expr::Group(inner) => {
                expression = *inner.expr;
                continue;
            }
            Expr::Path(path) if path.path.get_ident().is_some_and(|name| bound.contains(name)) => {
                return Ok(Selector::Expression(Expr::Path(path)));
            }
            Expr::Path(path) if path.path.is_ident("not") && !input.peek(syn::token::Brace) => {
                return Err(syn::Error::new_spanned(path, "a condition is negated with `!`: write `!state.done`"));
            }
            Expr::Path(path) if path.qself.is_none() => return Ok(Selector::Path(path.path)),
            Expr::Closure(closure) => return Ok(Selector::Closure(closure)),
            expression if is_known(&expression) => return Ok(Selector::Expression(expression)),
            Expr::Call(call) => {
                let function = super::super::text::compact(&call.func);
                return Err(syn::Error::new(
                    call.span(),
                    format!(
                        "a route calls its function with the state: write `{function}` without the call, or pass it a \
                         part of the state, `{function}(&state.…)`"
                    ),
                ));
            }
            Expr::Let(_) => {
                "an `if let` needs `state` or a variable of an outer pattern: write `if let Some(x) = state.field { … }`, or call a function with \
                 `match route { Some(x) => …, None => … }`"
                    .to_owned()
            }
            _ => {
                let example = if shape == RouteKind::For { "state.items" } else { "state.seconds == 0" };
                format!(
                    "expected the path of a function, a closure in parentheses such as `{word} (|state| …)`, or an \
                     expression with `state` or a variable of an outer pattern, such as `{word} {example}`"
                )
            }
        };
        return Err(syn::Error::new_spanned(expression, message));
    }
}

/// `{ target }`
fn block(input: ParseStream<'_>, bound: &[Ident], errors: &mut Errors) -> Result<ArmBody> {
    if !input.peek(syn::token::Brace) {
        return Err(input.error(match next_word(input) {
            Some(word) if word == "and" => "conditions are joined with `&&`: write `a && b`",
            Some(word) if word == "or" => "conditions are joined with `||`: write `a || b`",
            _ => "expected a target in braces, `{ node }`",
        }));
    }
    let content;
    let brace = braced!(content in input);
    if content.is_empty() {
        return Err(syn::Error::new(brace.span.join(), "expected a target: a node or END"));
    }
    let body = arm(&content, bound, errors)?;
    if !content.is_empty() {
        return Err(content.error("expected `}`: write several targets as a list, `[a, b]`"));
    }
    Ok(body)
}

fn next_word(input: ParseStream<'_>) -> Option<Ident> {
    input.fork().parse().ok()
}

/// A target, a list of targets, or another route.
fn arm(input: ParseStream<'_>, bound: &[Ident], errors: &mut Errors) -> Result<ArmBody> {
    if let Some(shape) = decides(input) {
        return decision(input, shape, bound, errors).map(|inner| ArmBody::Decide(Box::new(inner)));
    }
    if input.peek(syn::token::Brace) {
        return block(input, bound, errors);
    }
    let goals = if input.peek(syn::token::Bracket) {
        let content;
        let bracket = bracketed!(content in input);
        let goals = list(&content, errors, always, goal);
        if goals.found.is_empty() && !goals.broken {
            return Err(syn::Error::new(bracket.span.join(), "an empty list leads nowhere: write `END`"));
        }
        goals.found
    } else {
        vec![goal(input, errors)?]
    };
    if input.peek(Token![>>]) {
        return Err(input.error("an arm ends at its targets: write the next edge on a separate line"));
    }
    Ok(ArmBody::Go(goals))
}

fn goal(input: ParseStream<'_>, errors: &mut Errors) -> Result<RouteTarget> {
    if input.peek(syn::LitStr) {
        return Err(input.error("a target is named without quotes: write `node` or `END`"));
    }
    let expected = "expected a target: a node, END, a list of them, or another `match`, `if` or `for`";
    let name = name(input, expected, Words::node, errors)?;
    if !input.peek(syn::token::Paren) {
        return Ok(RouteTarget { name, item: None });
    }
    let content;
    let parentheses = parenthesized!(content in input);
    let wrong = || match &*name.to_string() {
        "Send" => "an item is sent with the name of its node: write `node(item)`".to_owned(),
        _ => format!("a node receives one item: write `{name}(item)`, or a tuple `{name}((a, b))`"),
    };
    if content.is_empty() {
        return Err(syn::Error::new(parentheses.span.join(), wrong()));
    }
    let item: Expr = content.parse()?;
    let _ = content.parse::<Option<Token![,]>>();
    if content.is_empty() { Ok(RouteTarget { name, item: Some(item) }) } else { Err(content.error(wrong())) }
}
