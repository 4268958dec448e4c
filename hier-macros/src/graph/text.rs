//! The text of the user's tokens, for labels and messages.

use std::collections::BTreeSet;

use proc_macro2::{Delimiter, Ident, Punct, Spacing, TokenStream, TokenTree};
use quote::ToTokens;

use crate::state::field_hash;
use crate::symbol;

/// Formats tokens as rustfmt would: `Some(x) if x > 3`, `Verdict::Accept`.
pub(super) fn compact(tokens: &impl ToTokens) -> String {
    let mut text = String::new();
    write(tokens.to_token_stream(), &mut text);
    text
}

/// Finds the first mention of the variable `state`.
pub(super) fn the_state(tokens: &impl ToTokens) -> Option<Ident> {
    variable(tokens, symbol::STATE_VALUE)
}

/// Finds the first mention of a variable. Fields, methods and path segments of that name do not count.
pub(super) fn variable(tokens: &impl ToTokens, name: &str) -> Option<Ident> {
    fn find(tokens: TokenStream, name: &str) -> Option<Ident> {
        let mut tokens = tokens.into_iter().peekable();
        let mut within = false; // whether the word before says that the next belongs to it
        while let Some(token) = tokens.next() {
            match token {
                TokenTree::Ident(ident) if ident == name => {
                    let begins_path = matches!(tokens.peek(), Some(TokenTree::Punct(next)) if next.as_char() == ':');
                    if !within && !begins_path {
                        return Some(ident);
                    }
                    within = false;
                }
                TokenTree::Punct(punct) => {
                    within = ['.', ':'].contains(&punct.as_char()) && !ends_range(&punct, within);
                }
                TokenTree::Group(group) => {
                    within = false;
                    if let Some(found) = find(group.stream(), name) {
                        return Some(found);
                    }
                }
                _ => within = false,
            }
        }
        None
    }
    fn ends_range(punct: &Punct, within: bool) -> bool {
        within && punct.as_char() == '.'
    }
    find(tokens.to_token_stream(), name)
}

/// Returns the hashes of the fields of the variable `state` that an expression names. Returns `None` if the expression
/// uses the variable in another way: passes it to a function, calls a method of it, or declares a variable of this
/// name.
pub(super) fn state_fields(tokens: &impl ToTokens) -> Option<BTreeSet<u64>> {
    fn find(tokens: TokenStream, fields: &mut BTreeSet<u64>) -> bool {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let is = |place: usize, character: char| matches!(tokens.get(place), Some(TokenTree::Punct(next)) if next.as_char() == character);
        tokens.iter().enumerate().all(|(place, token)| match token {
            TokenTree::Group(group) => find(group.stream(), fields),
            TokenTree::Ident(ident) if ident == symbol::STATE_VALUE => {
                // True for a field, a method or a path segment of this name, but not for the end of a range.
                let within = place > 0 && (is(place - 1, ':') || (is(place - 1, '.') && !(place > 1 && is(place - 2, '.'))));
                if within || is(place + 1, ':') {
                    return true;
                }
                let calls = matches!(tokens.get(place + 3), Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Parenthesis);
                match tokens.get(place + 2) {
                    Some(TokenTree::Ident(field)) if is(place + 1, '.') && !calls && !is(place + 3, ':') => {
                        fields.insert(field_hash(field));
                        true
                    }
                    _ => false,
                }
            }
            _ => true,
        })
    }
    let mut fields = BTreeSet::new();
    find(tokens.to_token_stream(), &mut fields).then_some(fields)
}

/// Operators without surrounding spaces.
const TIGHT: &[&str] = &["::", ".", "..", "..=", "?"];
/// Operators with a space after them only.
const AFTER: &[&str] = &[",", ";", ":"];
/// Prefix operators, if no operand precedes them.
const PREFIX: &[char] = &['&', '!', '-', '*', '\'', '|'];

/// Words that precede an operand.
const WORDS: &[&str] = &["if", "in", "ref", "mut", "as"];

fn write(tokens: TokenStream, text: &mut String) {
    let mut operator = String::new();
    let mut space = false; // whether the next word is set off from what is before it
    let mut operand = false; // whether an operand is before this
    let mut generics = 0; // how many `::<` are open
    let mut parameters = false; // whether the parameters of a closure are open
    for token in tokens {
        if let TokenTree::Punct(punct) = &token {
            operator.push(punct.as_char());
            if punct.spacing() == Spacing::Joint {
                continue;
            }
            let (opens, closes) = (operator == "::<", operator == ">" && generics > 0);
            generics = generics + usize::from(opens) - usize::from(closes);
            let bar = operator == "|" && (parameters || !operand);
            if opens || closes || (operator == "!" && operand) {
                text.push_str(&operator);
                space = false;
            } else if bar && parameters {
                text.push('|');
                space = true;
            } else {
                space = operator_text(&operator, operand, space, text);
            }
            parameters ^= bar;
            operator.clear();
            operand = closes;
            continue;
        }
        if !operator.is_empty() {
            text.push_str(&operator); // a lifetime's quote
            operator.clear();
            space = false;
        }
        let opens_tightly = matches!(&token, TokenTree::Group(group) if group.delimiter() != Delimiter::Brace);
        if (space || operand) && !(operand && opens_tightly) && !text.is_empty() {
            text.push(' ');
        }
        let word = matches!(&token, TokenTree::Ident(ident) if WORDS.iter().any(|word| ident == word));
        write_token(token, text);
        operand = !word;
        space = word;
    }
}

fn operator_text(operator: &str, operand: bool, space: bool, text: &mut String) -> bool {
    if TIGHT.contains(&operator) {
        if space {
            text.push(' ');
        }
        text.push_str(operator);
        false
    } else if AFTER.contains(&operator) {
        text.push_str(operator);
        true
    } else if !operand && operator.chars().all(|sign| PREFIX.contains(&sign)) {
        if space {
            text.push(' ');
        }
        text.push_str(operator);
        false
    } else {
        text.push(' ');
        text.push_str(operator);
        true
    }
}

fn write_token(token: TokenTree, text: &mut String) {
    let TokenTree::Group(group) = token else {
        text.push_str(&token.to_string());
        return;
    };
    let (open, close) = match group.delimiter() {
        Delimiter::Parenthesis => ("(", ")"),
        Delimiter::Bracket => ("[", "]"),
        Delimiter::Brace => ("{ ", " }"),
        Delimiter::None => ("", ""),
    };
    text.push_str(open);
    let mut inner = String::new();
    write(group.stream(), &mut inner);
    text.push_str(&inner);
    text.push_str(close);
}

/// Converts `FilingDesk` to `filing_desk` and `HTTPServer` to `http_server`.
pub(crate) fn snake_case(name: &str) -> String {
    let letters: Vec<char> = name.chars().collect();
    let mut text = String::new();
    for (at, letter) in letters.iter().enumerate() {
        let before = at.checked_sub(1).map(|before| letters[before]);
        let after = letters.get(at + 1);
        let begins = letter.is_uppercase()
            && before.is_some_and(|before| {
                before.is_lowercase()
                    || before.is_numeric()
                    || (before.is_uppercase() && after.is_some_and(|after| after.is_lowercase()))
            });
        if begins {
            text.push('_');
        }
        text.extend(letter.to_lowercase());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{compact, snake_case, the_state};

    #[test]
    fn only_the_state_binding_is_found() {
        let mentions = |text: &str| the_state(&text.parse::<proc_macro2::TokenStream>().unwrap()).is_some();
        for text in
            ["state.x", "f(&state)", "matches!(state.x, A)", "0..state.x", "!state.done", "x.y(state.z)", "1 + *state"]
        {
            assert!(mentions(text), "{text}");
        }
        for text in ["x.state", "a::state", "state::f()", "Of { state: 1 }", "states.x", "self.state.x"] {
            assert!(!mentions(text), "{text}");
        }
    }

    #[test]
    fn tokens_are_printed_like_source() {
        for text in [
            "Verdict::Accept",
            "Some(x) if x > 3",
            "decide::<A, B>",
            "x if x == &*y",
            "A | B",
            "0..=9",
            "&Some((a, b))",
            "-1",
            "Point { x, .. }",
            "x @ [1, 2]",
            "matches!(state.next, None)",
            "state.docs.iter().filter(|doc| doc.len() > 3)",
            "Filter { kind: Kind::A, .. } if !done(x) && x.y",
        ] {
            let tokens: proc_macro2::TokenStream = text.parse().unwrap();
            assert_eq!(compact(&tokens), text);
        }
    }

    #[test]
    fn type_names_become_snake_case() {
        for (name, snake) in
            [("Review", "review"), ("FilingDesk", "filing_desk"), ("HTTPServer", "http_server"), ("V2Step", "v2_step")]
        {
            assert_eq!(snake_case(name), snake);
        }
    }
}
