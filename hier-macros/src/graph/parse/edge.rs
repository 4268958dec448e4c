//! `START >> a >> [b, c]`, and `a >>` a route.

use syn::parse::ParseStream;
use syn::spanned::Spanned;
use syn::{Expr, Ident, Pat, Result, Token, braced, bracketed, parenthesized};

use super::super::ast::{Arm, ArmBody, Chain, Decision, Function, Goal, Link, Shape};
use super::super::text::the_state;
use super::{always, list, name};
use crate::diag::Errors;
use crate::words::Words;

/// One item of `edges`.
pub(super) fn chain(input: ParseStream<'_>, errors: &mut Errors) -> Result<Chain> {
    let mut links = vec![link(input, errors)?];
    while !input.is_empty() && !input.peek(Token![,]) {
        if !input.peek(Token![>>]) {
            return Err(input.error("expected `>>` or `,`: an edge is written `a >> b`"));
        }
        input.parse::<Token![>>]>()?;
        links.push(link(input, errors)?);
    }
    Ok(Chain(links))
}

fn link(input: ParseStream<'_>, errors: &mut Errors) -> Result<Link> {
    if let Some(shape) = decides(input) {
        let decision = decision(input, shape, errors)?;
        errors.words.statement(decision.outline());
        return Ok(Link::Choice(decision));
    }
    if input.peek(syn::token::Bracket) {
        let content;
        let bracket = bracketed!(content in input);
        let nodes = list(&content, errors, always, plain_name);
        if nodes.found.is_empty() && !nodes.broken {
            return Err(syn::Error::new(bracket.span.join(), "an empty list leads nowhere: name nodes in it, or END"));
        }
        return Ok(Link::Many(nodes.found, bracket.span.open()));
    }
    plain_name(input, errors).map(Link::One)
}

/// A node that is named and not sent anything.
fn plain_name(input: ParseStream<'_>, errors: &mut Errors) -> Result<Ident> {
    if input.peek(syn::token::Bracket) {
        return Err(input.error("a list of nodes holds names, no other lists"));
    }
    if decides(input).is_some() {
        return Err(input.error("a list holds nodes only: give the route an edge of its own, `a >> match …`"));
    }
    let name = name(input, "expected a node, `[…]`, `match`, `if` or `for`", Words::node, errors)?;
    if input.peek(syn::token::Paren) {
        let message = format!("an edge sends nothing: write `{name}`, or `a >> for item in items {{ {name}(item) }}`");
        return Err(input.error(message));
    }
    Ok(name)
}

/// Which kind of route begins here.
fn decides(input: ParseStream<'_>) -> Option<Shape> {
    match () {
        () if input.peek(Token![match]) => Some(Shape::Match),
        () if input.peek(Token![if]) => Some(Shape::If),
        () if input.peek(Token![for]) => Some(Shape::For),
        () => None,
    }
}

fn decision(input: ParseStream<'_>, shape: Shape, errors: &mut Errors) -> Result<Decision> {
    match shape {
        Shape::Match => by_match(input, errors),
        Shape::If => by_if(input, errors),
        Shape::For => by_for(input, errors),
    }
}

/// `match route { Pattern if guard => target, … }`
fn by_match(input: ParseStream<'_>, errors: &mut Errors) -> Result<Decision> {
    let span = input.parse::<Token![match]>()?.span;
    let function = function(input, Shape::Match)?;
    let content;
    if !input.peek(syn::token::Brace) {
        // What chooses is written, and no more yet.
        errors.combine(input.error("expected curly braces"));
        return Ok(Decision { span, shape: Shape::Match, function, arms: Vec::new(), broken: true });
    }
    braced!(content in input);
    let arms = list(
        &content,
        errors,
        |(_, needs_comma): &(Arm, bool)| *needs_comma,
        |input, errors| {
            let pattern = Pat::parse_multi_with_leading_vert(input)?;
            if !(input.peek(Token![=>]) || input.peek(Token![if])) {
                errors.words.pattern(&pattern);
            }
            let pattern = Some(pattern);
            let guard = match input.parse::<Option<Token![if]>>()? {
                Some(_) => Some(input.parse::<Expr>()?),
                None => None,
            };
            input.parse::<Token![=>]>()?;
            let ends_with_brace = input.peek(syn::token::Brace) || decides(input).is_some();
            let body = arm(input, errors)?;
            Ok((Arm { pattern, guard, body }, !ends_with_brace))
        },
    );
    let broken = arms.broken;
    let arms = arms.found.into_iter().map(|(arm, _)| arm).collect();
    Ok(Decision { span, shape: Shape::Match, function, arms, broken })
}

/// `if test { target } else { target }`, `else if`.
fn by_if(input: ParseStream<'_>, errors: &mut Errors) -> Result<Decision> {
    let span = input.parse::<Token![if]>()?.span;
    let function = function(input, Shape::If)?;
    let bare = |body| Arm { pattern: None, guard: None, body };
    let mut arms = vec![bare(block(input, errors)?)];
    let mut broken = false;
    if input.parse::<Option<Token![else]>>()?.is_some() {
        arms.push(bare(match decides(input) {
            Some(Shape::If) => ArmBody::Decide(Box::new(by_if(input, errors)?)),
            _ => block(input, errors)?,
        }));
    } else {
        errors.at(span, "this `if` does not say where to go otherwise: add `else { … }`, such as `else { END }`");
        broken = true;
    }
    Ok(Decision { span, shape: Shape::If, function, arms, broken })
}

/// `for item in items { node(item) }`
fn by_for(input: ParseStream<'_>, errors: &mut Errors) -> Result<Decision> {
    let span = input.parse::<Token![for]>()?.span;
    let pattern = Some(Pat::parse_multi_with_leading_vert(input)?);
    input.parse::<Token![in]>()?;
    let function = function(input, Shape::For)?;
    let inside = input.span();
    let body = block(input, errors)?;
    match &body {
        ArmBody::Decide(inner) => {
            let message = format!("inside a `for` only nodes can stand, no `{}`: `node(item)`", inner.shape.word());
            return Err(syn::Error::new(inner.span, message));
        }
        ArmBody::Go(goals) if goals.is_empty() => {
            return Err(syn::Error::new(inside, "inside a `for` stands the node that gets the item: `node(item)`"));
        }
        ArmBody::Go(goals) => {
            for Goal { name, .. } in goals.iter().filter(|goal| goal.item.is_none()) {
                errors.push(name, format!("inside a `for` a node is given its item: `{name}(item)`"));
            }
        }
    }
    Ok(Decision { span, shape: Shape::For, function, arms: vec![Arm { pattern, guard: None, body }], broken: false })
}

/// What chooses: the path of a function of the state, a closure in parentheses, or an expression with `state` in it.
fn function(input: ParseStream<'_>, shape: Shape) -> Result<Function> {
    let word = shape.word();
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
            Expr::Path(path) if path.qself.is_none() => return Ok(Function::Path(path.path)),
            Expr::Closure(closure) => return Ok(Function::Closure(closure)),
            expression if the_state(&expression).is_some() => return Ok(Function::Expression(expression)),
            Expr::Call(call) => {
                let function = super::super::text::compact(&call.func);
                return Err(syn::Error::new(
                    call.span(),
                    format!(
                        "the function is named, not called, and gets the state: write `{function}` alone, or give it what it \
                         needs of the state, `{function}(&state.…)`"
                    ),
                ));
            }
            Expr::Let(_) => {
                "an `if let` needs `state`: `if let Some(x) = state.field { … }`; with a function it is written as a \
                             `match`: `match route { Some(x) => …, None => … }`"
                    .to_owned()
            }
            _ => {
                let example = if shape == Shape::For { "state.items" } else { "state.seconds == 0" };
                format!(
                    "expected a function of the state, its path or a closure in parentheses, `{word} (|state| …)`, or an \
                     expression in which `state` is the state, `{word} {example}`"
                )
            }
        };
        return Err(syn::Error::new_spanned(expression, message));
    }
}

/// `{ target }`
fn block(input: ParseStream<'_>, errors: &mut Errors) -> Result<ArmBody> {
    if !input.peek(syn::token::Brace) {
        return Err(input.error("expected a target in braces: `{ node }`"));
    }
    let content;
    let brace = braced!(content in input);
    if content.is_empty() {
        return Err(syn::Error::new(brace.span.join(), "expected a target: a node or END"));
    }
    let body = arm(&content, errors)?;
    if !content.is_empty() {
        return Err(content.error("expected `}`: several targets are a list, `[a, b]`"));
    }
    Ok(body)
}

/// Where an arm leads: a target, a list of them, another route.
fn arm(input: ParseStream<'_>, errors: &mut Errors) -> Result<ArmBody> {
    if let Some(shape) = decides(input) {
        return decision(input, shape, errors).map(|inner| ArmBody::Decide(Box::new(inner)));
    }
    if input.peek(syn::token::Brace) {
        return block(input, errors);
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
        return Err(input.error("an arm leads to its targets and no further: give the next edge a line of its own"));
    }
    Ok(ArmBody::Go(goals))
}

/// `node`, `END`, or `node(item)`.
fn goal(input: ParseStream<'_>, errors: &mut Errors) -> Result<Goal> {
    let expected = "expected a target: a node, END, a list of them, or another `match`, `if` or `for`";
    let name = name(input, expected, Words::node, errors)?;
    if !input.peek(syn::token::Paren) {
        return Ok(Goal { name, item: None });
    }
    let content;
    let parentheses = parenthesized!(content in input);
    let wrong = || format!("a node is sent one value: `{name}(item)`, or a tuple `{name}((a, b))`");
    if content.is_empty() {
        return Err(syn::Error::new(parentheses.span.join(), wrong()));
    }
    let item: Expr = content.parse()?;
    let _ = content.parse::<Option<Token![,]>>();
    if content.is_empty() { Ok(Goal { name, item: Some(item) }) } else { Err(content.error(wrong())) }
}
