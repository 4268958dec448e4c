//! The fields about trust: `input: untrusted View`, `allow: trifecta("reason")`, and the options of tools.

use syn::parse::ParseStream;
use syn::{Ident, LitStr, Result, Token, Type, parenthesized};

use super::super::ast::agent::ToolItemOptions;
use super::{bracket, colon, no_such, skip_value};
use crate::approval::Approval;
use crate::diag::{Errors, unknown};
use crate::symbol;

/// `View`, `untrusted` or `untrusted View`.
pub(super) fn input(input: ParseStream<'_>, errors: &mut Errors) -> Result<(Option<Ident>, Option<Type>)> {
    let is_word = input.fork().parse::<Ident>().is_ok_and(|word| word == symbol::UNTRUSTED);
    if !is_word || input.peek2(Token![::]) || input.peek2(Token![<]) {
        return Ok((None, Some(super::ty(input, errors)?)));
    }
    let word: Ident = input.parse()?;
    let view = if input.is_empty() || input.peek(Token![,]) { None } else { Some(super::ty(input, errors)?) };
    Ok((Some(word), view))
}

pub(super) fn allow(input: ParseStream<'_>) -> Result<()> {
    const SHAPE: &str = "`allow` needs what it accepts and why: `allow: trifecta(\"…\")`";
    let word: Ident = input.parse().map_err(|error| syn::Error::new(error.span(), SHAPE))?;
    if word != symbol::TRIFECTA {
        let message = unknown("risk", &word.to_string(), &[symbol::TRIFECTA]);
        return Err(syn::Error::new_spanned(word, format!("{message}: {SHAPE}")));
    }
    if !input.peek(syn::token::Paren) {
        return Err(syn::Error::new_spanned(word, SHAPE));
    }
    let content;
    parenthesized!(content in input);
    let reason: LitStr = content.parse().map_err(|error| syn::Error::new(error.span(), SHAPE))?;
    if reason.value().trim().is_empty() {
        return Err(syn::Error::new_spanned(reason, "the reason is empty: write why the graph cannot leak"));
    }
    if content.is_empty() { Ok(()) } else { Err(content.error(SHAPE)) }
}

/// `{ approve: tainted, labels: [private] }` after a tool or a toolset.
pub(super) fn options(input: ParseStream<'_>, is_set: bool, errors: &mut Errors) -> Result<ToolItemOptions> {
    let mut options = ToolItemOptions::default();
    if input.peek(syn::token::Brace) {
        super::options(input, None, errors, |input, word, errors| option(input, word, is_set, &mut options, errors))?;
    }
    Ok(options)
}

fn option(
    input: ParseStream<'_>,
    word: &Ident,
    is_set: bool,
    options: &mut ToolItemOptions,
    errors: &mut Errors,
) -> Result<()> {
    match &*word.to_string() {
        symbol::APPROVE => {
            colon(input, word, "tainted")?;
            options.approve = Some(Approval::parse(input)?);
        }
        symbol::SET_LABELS if is_set => {
            colon(input, word, "[private]")?;
            options.labels = Some(bracket(input, "a list of labels", errors, label)?.found);
        }
        symbol::SET_LABELS => {
            skip_value(input);
            errors.push(word, "the labels of a tool stand above its function: write `#[tool(private)]`");
        }
        label if symbol::LABEL_NAMES.contains(&label) => {
            skip_value(input);
            let fix =
                if is_set { format!("`labels: [{label}]`") } else { format!("`#[tool({label})]` above its function") };
            errors.push(word, format!("`{label}` is a label: write {fix}"));
        }
        _ => {
            skip_value(input);
            let (owner, known): (_, &[&str]) = if is_set {
                ("a toolset", &[symbol::APPROVE, symbol::SET_LABELS])
            } else {
                ("a tool", &[symbol::APPROVE])
            };
            errors.push(word, no_such(owner, "option", word, known));
        }
    }
    Ok(())
}

fn label(input: ParseStream<'_>, _: &mut Errors) -> Result<Ident> {
    let word: Ident = input.parse()?;
    if symbol::LABEL_NAMES.contains(&&*word.to_string()) {
        return Ok(word);
    }
    let message = unknown("label", &word.to_string(), symbol::LABEL_NAMES);
    Err(syn::Error::new_spanned(word, message))
}
