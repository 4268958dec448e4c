//! The search for tools: `search: true`, `search: ToolSearch { above: 20 }`.

use syn::parse::ParseStream;
use syn::{Expr, Ident, Lit, LitBool, Result};

use super::super::ast::agent::SearchExpr;
use super::setters::{set, setters};
use crate::diag::Errors;
use crate::symbol;

pub(super) fn search(input: ParseStream<'_>, word: &Ident, errors: &mut Errors) -> Result<SearchExpr> {
    if input.peek(LitBool) {
        return input.parse().map(SearchExpr::Flag);
    }
    if let Some((here, fields)) = setters(input, (symbol::TOOL_SEARCH, symbol::TOOL_SEARCH_FIELDS), errors)? {
        let nothing = fields.iter().find(|(option, value)| option == symbol::SEARCH_RESULTS && is_zero(value));
        return match nothing {
            Some((_, value)) => {
                Err(syn::Error::new_spanned(value, "a search with `results: 0` finds nothing: write at least 1"))
            }
            None => Ok(SearchExpr::Fields(here, fields)),
        };
    }
    let value = set(input, word, errors)?;
    let fix = match &value {
        Expr::Lit(literal) => match &literal.lit {
            Lit::Int(number) => format!("`search: ToolSearch {{ above: {number} }}`"),
            _ => "`search: true` or `search: ToolSearch { above: 20 }`".to_owned(),
        },
        Expr::Array(_) => "`search: true`, and the tools in `tools: […]`".to_owned(),
        _ => return Ok(SearchExpr::Given(value)),
    };
    Err(syn::Error::new_spanned(value, format!("this is not a setting of the search for tools: write {fix}")))
}

fn is_zero(value: &Expr) -> bool {
    matches!(value, Expr::Lit(literal) if matches!(&literal.lit, Lit::Int(digits) if digits.base10_digits() == "0"))
}
