//! Durations, retry policies and cache policies.

use quote::ToTokens;
use syn::parse::ParseStream;
use syn::parse::discouraged::Speculative;
use syn::{Expr, ExprUnary, Ident, Lit, Path, Result, UnOp, braced};

use super::super::ast::{CacheOption, Length, RetryOption};
use super::{always, colon, doubled, list, no_such, skip_value};
use crate::diag::{Errors, unknown};
use crate::fragment;
use crate::symbol;

/// `5s`, `100ms`, or an expression of the type `Duration`.
pub(crate) fn length(input: ParseStream<'_>) -> Result<Length> {
    let expression: Expr = input.parse()?;
    if let Expr::Unary(ExprUnary { op: UnOp::Neg(_), expr, .. }) = &expression
        && matches!(**expr, Expr::Lit(_))
    {
        return Err(syn::Error::new_spanned(expression, "a duration cannot be negative"));
    }
    let Expr::Lit(literal) = fragment::expression(&expression) else { return Ok(Length::Given(expression)) };
    let (digits, suffix) = match &literal.lit {
        Lit::Int(number) => (number.base10_digits(), number.suffix()),
        Lit::Float(number) => (number.base10_digits(), number.suffix()),
        other => return Err(syn::Error::new_spanned(other, "expected a duration, such as `5s` or `100ms`")),
    };
    let units: Vec<_> = symbol::UNITS.iter().map(|(unit, ..)| *unit).collect();
    let Some((_, times, per)) = symbol::UNITS.iter().find(|(unit, ..)| *unit == suffix) else {
        let message = if suffix.is_empty() {
            format!("a duration needs its unit: `{digits}s` (or `ms`, `m`, `h`)")
        } else {
            unknown("unit of time", suffix, &units)
        };
        return Err(syn::Error::new_spanned(literal, message));
    };
    let Some((seconds, nanos)) = scale(digits, *times, *per) else {
        return Err(syn::Error::new_spanned(literal, "this duration is too long"));
    };
    Ok(Length::Literal { seconds, nanos, span: literal.lit.span() })
}

/// Parses a duration that is not zero. `zero` describes the effect of a zero, for the error.
pub(crate) fn positive(input: ParseStream<'_>, zero: &str) -> Result<Length> {
    match length(input)? {
        Length::Literal { seconds: 0, nanos: 0, span } => {
            Err(syn::Error::new(span, format!("{zero}: write a longer time, such as `5s`")))
        }
        length => Ok(length),
    }
}

/// The effect of a timeout of zero.
pub(crate) const NO_TIME: &str = "without time, every attempt fails";

/// Converts a number of units into seconds and nanoseconds. Returns `None` if it is too large.
fn scale(digits: &str, times: u32, per: u32) -> Option<(u64, u32)> {
    const NANOS: u128 = 1_000_000_000;
    if let Ok(whole) = digits.parse::<u64>() {
        let nanos = u128::from(whole) * u128::from(times) * NANOS / u128::from(per);
        return Some((u64::try_from(nanos / NANOS).ok()?, u32::try_from(nanos % NANOS).ok()?));
    }
    let seconds = digits.parse::<f64>().ok()? * f64::from(times) / f64::from(per);
    let duration = std::time::Duration::try_from_secs_f64(seconds).ok()?;
    Some((duration.as_secs(), duration.subsec_nanos()))
}

pub(super) fn retry(input: ParseStream<'_>, errors: &mut Errors) -> Result<RetryOption> {
    if literal(input, symbol::RETRY_POLICY).is_none() {
        let times: Expr = super::value(input, errors)?;
        return at_least_one(&times).map(|()| RetryOption::Times(times));
    }
    let content;
    braced!(content in input);
    let known: Vec<_> = symbol::RETRY_FIELDS.iter().map(|(name, _)| *name).collect();
    let mut given = Vec::new();
    let braces = errors.words.braces(symbol::RETRY_POLICY);
    let fields = list(&content, errors, always, |input, errors| {
        let word: Ident = input.parse()?;
        errors.words.field(braces, &word);
        doubled("field", &word, &mut given, errors);
        let Some((_, timed)) = symbol::RETRY_FIELDS.iter().find(|(name, _)| word == name) else {
            skip_value(input);
            return Err(syn::Error::new_spanned(&word, no_such("`Retry`", "field", &word, &known)));
        };
        colon(input, &word, if *timed { "100ms" } else { "3" })?;
        if *timed {
            return Ok((word, length(input)?.into_token_stream()));
        }
        let value: Expr = super::value(input, errors)?;
        if word == symbol::ATTEMPTS {
            at_least_one(&value)?;
        }
        Ok((word, value.into_token_stream()))
    });
    Ok(RetryOption::Policy(fields.found))
}

/// Consumes the path of a struct literal of this name if the input begins with such a literal.
fn literal(input: ParseStream<'_>, name: &str) -> Option<Path> {
    let ahead = input.fork();
    let path = ahead.parse::<Path>().ok()?;
    let is_name = path.segments.last().is_some_and(|last| last.ident == name) && ahead.peek(syn::token::Brace);
    is_name.then(|| input.advance_to(&ahead))?;
    Some(path)
}

/// The effect of a cache with a lifetime of zero.
const NEVER_REUSED: &str = "without time, no result is ever reused";

/// `60s`, or `Cache { ttl: 60s, key: question }`
pub(super) fn cache(input: ParseStream<'_>, errors: &mut Errors) -> Result<CacheOption> {
    let Some(path) = literal(input, symbol::CACHE_POLICY) else {
        return Ok(CacheOption { ttl: positive(input, NEVER_REUSED)?, key: None });
    };
    let content;
    braced!(content in input);
    let (mut ttl, mut key, mut given) = (None, None, Vec::new());
    let before = errors.len();
    let braces = errors.words.braces(symbol::CACHE_POLICY);
    list(&content, errors, always, |input, errors| {
        let word: Ident = input.parse()?;
        errors.words.field(braces, &word);
        doubled("field", &word, &mut given, errors);
        match &*word.to_string() {
            symbol::TTL => {
                colon(input, &word, "60s")?;
                ttl = Some(positive(input, NEVER_REUSED)?);
            }
            symbol::KEY => {
                colon(input, &word, "function")?;
                key = Some(super::value(input, errors)?);
            }
            _ => {
                skip_value(input);
                return Err(syn::Error::new_spanned(&word, no_such("`Cache`", "field", &word, symbol::CACHE_FIELDS)));
            }
        }
        Ok(())
    });
    match ttl {
        Some(ttl) => Ok(CacheOption { ttl, key }),
        // The parser has reported the error of this option.
        None if errors.len() > before => {
            Ok(CacheOption { ttl: Length::Given(syn::parse_quote!(::core::time::Duration::ZERO)), key })
        }
        None => Err(syn::Error::new_spanned(
            path,
            "a `Cache` needs the time for which a result is reused: `Cache { ttl: 60s, key: function }`",
        )),
    }
}

fn at_least_one(attempts: &Expr) -> Result<()> {
    if let Expr::Lit(literal) = fragment::expression(attempts)
        && let Lit::Int(number) = &literal.lit
        && number.base10_digits() == "0"
    {
        return Err(syn::Error::new_spanned(
            number,
            "a node has at least one attempt: `1` means no retry, `3` means two retries",
        ));
    }
    Ok(())
}
