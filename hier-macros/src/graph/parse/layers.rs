//! Layers: `layers: [Limit { model_calls: 50 }, Redact(Emails)]`.
//!
//! Layers of the library have optional fields and closures of known types. The macro passes any other expression on
//! unchanged.

use quote::ToTokens;
use syn::parse::{ParseStream, Parser};
use syn::{Expr, ExprCall, ExprMethodCall, ExprStruct, Ident, Lit, Member, Path, Result, UnOp};

use super::super::ast::agent::LayerExpr;
use super::{doubled, duration, no_such};
use crate::diag::Errors;
use crate::symbol::{self, LayerForm};

pub(super) fn layer(input: ParseStream<'_>, errors: &mut Errors) -> Result<LayerExpr> {
    if input.peek(syn::LitStr) {
        return Err(input.error("a layer is a value: write `Limit { model_calls: 50 }`, or a value of a custom type"));
    }
    read(input.parse()?, errors)
}

fn read(expression: Expr, errors: &mut Errors) -> Result<LayerExpr> {
    match expression {
        Expr::Struct(literal) => with_fields(literal, errors),
        Expr::Call(call) => with_arguments(call, errors),
        Expr::Path(path) => alone(path, errors),
        Expr::MethodCall(call) => with_method(call, errors),
        other => Ok(LayerExpr::Given(other)),
    }
}

fn form(path: &Path) -> Option<LayerForm> {
    let last = &path.segments.last()?.ident;
    symbol::READY_LAYERS.iter().find(|(name, _)| last == name).map(|(_, form)| *form)
}

/// Returns an error that shows the form of a layer.
fn wrong(path: &Path, form: LayerForm) -> syn::Error {
    let name = path.segments.last().map(|last| last.ident.to_string()).unwrap_or_default();
    syn::Error::new_spanned(
        path,
        match form {
            LayerForm::Fields(fields) => {
                let first = fields.first().copied().unwrap_or("at");
                format!("`{name}` needs its fields: `{name} {{ {first}: … }}`")
            }
            LayerForm::Retry => format!("`{name}` needs its fields: `{name} {{ attempts: 3 }}`"),
            LayerForm::Made(_, what, example) => format!("`{name}` takes {what}: `{name}({example})`"),
            LayerForm::Wrapper => format!("`{name}` takes a layer: `{name}(Limit {{ model_calls: 50 }})`"),
        },
    )
}

fn with_fields(literal: ExprStruct, errors: &mut Errors) -> Result<LayerExpr> {
    let Some(form) = form(&literal.path).filter(|_| literal.rest.is_none()) else {
        return foreign(&literal.path, Expr::Struct(literal.clone()));
    };
    let path = literal.path.clone();
    match form {
        LayerForm::Fields(known) => {
            if literal.fields.is_empty() && !known.is_empty() {
                let name = path.segments.last().map(|last| last.ident.to_string()).unwrap_or_default();
                let known: Vec<String> = known.iter().map(|field| format!("`{field}`")).collect();
                let message = format!("`{name}` without a field does nothing: add {}", known.join(" or "));
                return Err(syn::Error::new_spanned(&path, message));
            }
            let fields = fields(literal, known, errors);
            for (_, amount) in fields.iter().filter(|(field, value)| field == symbol::COST && is_negative(value)) {
                errors.push(amount, "a limit of cost is at least 0 US dollars: `cost: 2.00` means two dollars");
            }
            Ok(LayerExpr::Fields(path, fields))
        }
        LayerForm::Retry => {
            let known: Vec<_> = symbol::RETRY_FIELDS.iter().map(|(name, _)| *name).collect();
            let fields = fields(literal, &known, errors).into_iter().map(|(field, value)| {
                let timed = symbol::RETRY_FIELDS.iter().any(|(name, timed)| field == name && *timed);
                let tokens = value.to_token_stream();
                if timed {
                    return Ok((field, duration::length.parse2(tokens)?.into_token_stream()));
                }
                if field == symbol::ATTEMPTS && is_zero(&value) {
                    let message = "a model has at least one attempt: `1` means no retry, `3` means two retries";
                    return Err(syn::Error::new_spanned(value, message));
                }
                Ok((field, tokens))
            });
            Ok(LayerExpr::Literal(path, fields.collect::<Result<_>>()?))
        }
        form @ (LayerForm::Made(..) | LayerForm::Wrapper) => Err(wrong(&path, form)),
    }
}

/// Returns the known fields of a literal, each once. Reports the others. Returns all fields if `known` is empty.
fn fields(literal: ExprStruct, known: &[&str], errors: &mut Errors) -> Vec<(Ident, Expr)> {
    let owner = literal.path.segments.last().map(|last| format!("`{}`", last.ident)).unwrap_or_default();
    let (mut given, mut fields) = (Vec::new(), Vec::new());
    for field in literal.fields {
        let Member::Named(word) = field.member else {
            errors.push(field.member, "expected the name of a field");
            continue;
        };
        doubled("field", &word, &mut given, errors);
        if known.is_empty() || known.contains(&&*word.to_string()) {
            fields.push((word, field.expr));
        } else {
            errors.push(&word, no_such(&owner, "field", &word, known));
        }
    }
    fields
}

fn is_zero(value: &Expr) -> bool {
    matches!(value, Expr::Lit(literal) if matches!(&literal.lit, Lit::Int(number) if number.base10_digits() == "0"))
}

fn is_negative(value: &Expr) -> bool {
    let Expr::Unary(syn::ExprUnary { op: UnOp::Neg(_), expr, .. }) = value else { return false };
    let Expr::Lit(literal) = &**expr else { return false };
    match &literal.lit {
        Lit::Int(number) => number.base10_digits() != "0",
        Lit::Float(number) => number.base10_parse::<f64>().is_ok_and(|number| number > 0.0),
        _ => false,
    }
}

fn with_arguments(call: ExprCall, errors: &mut Errors) -> Result<LayerExpr> {
    let Expr::Path(function) = &*call.func else { return Ok(LayerExpr::Given(Expr::Call(call))) };
    let path = function.path.clone();
    let Some(form) = form(&path) else { return foreign(&path, Expr::Call(call)) };
    match form {
        LayerForm::Made(infer, ..) if call.args.len() == 1 => {
            Ok(LayerExpr::Made(path, infer, call.args.into_iter().collect()))
        }
        LayerForm::Wrapper if call.args.len() == 1 => {
            let inner = call.args.into_iter().next().map(|inner| read(inner, errors)).transpose()?;
            inner.map(|inner| LayerExpr::Wrapper(path.clone(), Box::new(inner))).ok_or_else(|| wrong(&path, form))
        }
        form => Err(wrong(&path, form)),
    }
}

/// Parses a layer without fields, such as `Compact`, which gets the defaults of its fields.
fn alone(path: syn::ExprPath, _: &mut Errors) -> Result<LayerExpr> {
    match form(&path.path) {
        None => foreign(&path.path.clone(), Expr::Path(path)),
        Some(LayerForm::Fields([])) => Ok(LayerExpr::Fields(path.path, Vec::new())),
        Some(LayerForm::Retry) => Ok(LayerExpr::Literal(path.path, Vec::new())),
        Some(form) => Err(wrong(&path.path, form)),
    }
}

fn with_method(call: ExprMethodCall, errors: &mut Errors) -> Result<LayerExpr> {
    let receiver = read((*call.receiver).clone(), errors)?;
    Ok(match receiver {
        LayerExpr::Given(_) => LayerExpr::Given(Expr::MethodCall(call)),
        receiver => LayerExpr::Method(Box::new(receiver), call),
    })
}

/// Accepts an expression that is not a layer of the library. Reports the names of other frameworks' layers.
fn foreign(path: &Path, expression: Expr) -> Result<LayerExpr> {
    let word = path.get_ident().map(ToString::to_string).unwrap_or_default();
    match symbol::FOREIGN_LAYERS.iter().find(|(name, _)| *name == word) {
        Some((_, ours)) => {
            Err(syn::Error::new_spanned(path, format!("`{word}` is not a layer of hier: write `{ours}`")))
        }
        None => Ok(LayerExpr::Given(expression)),
    }
}
