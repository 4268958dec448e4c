//! Reads a question and checks its rules:
//!
//! 1. [`shape`]: a question is a struct with named fields or none.
//! 2. [`concrete`]: it is not generic.
//! 3. [`no_type_field`]: no field has the name `type`, which is that of the question in its JSON.
//! 4. [`options`]: `#[question(…)]` names the type of the answer, and each option once.
//! 5. [`stored_name`]: the stored name is not empty, and not that of a question of the framework.

use proc_macro2::Span;
use syn::ext::IdentExt;
use syn::meta::ParseNestedMeta;
use syn::parse::ParseStream;
use syn::spanned::Spanned;
use syn::{Data, DeriveInput, Field, Fields, Ident, LitStr, Path, Token, Type};

use crate::diag::{Errors, unknown};
use crate::symbol;

pub(super) struct QuestionModel {
    pub(super) ident: Ident,
    pub(super) answer: Type,
    pub(super) name: Option<LitStr>,
    /// The value of `crate = path`.
    pub(super) home: Option<Path>,
}

#[derive(Default)]
struct Options {
    answer: Option<Type>,
    name: Option<LitStr>,
    home: Option<Path>,
}

/// Returns `None` after an error that leaves nothing to implement.
pub(super) fn parse(input: &DeriveInput, errors: &mut Errors) -> Option<QuestionModel> {
    let before = errors.len();
    shape(input, errors);
    concrete(input, errors);
    let options = options(input, errors)?;
    if let Some(name) = &options.name {
        stored_name(name, errors);
    }
    let Some(answer) = options.answer else {
        if errors.len() == before {
            let message =
                format!("the question `{}` has no type of answer: write `#[question(answer = Type)]`", input.ident);
            errors.push(&input.ident, message);
        }
        return None;
    };
    let sound = input.generics.params.is_empty();
    sound.then(|| QuestionModel { ident: input.ident.clone(), answer, name: options.name, home: options.home })
}

fn shape(input: &DeriveInput, errors: &mut Errors) {
    let ident = &input.ident;
    let fix = format!("write `struct {ident} {{ … }}`");
    match &input.data {
        Data::Struct(data) => match &data.fields {
            Fields::Named(fields) => fields.named.iter().for_each(|field| no_type_field(field, errors)),
            Fields::Unit => {}
            Fields::Unnamed(fields) => {
                errors.push(fields, format!("a question is an object with named fields: {fix}"));
            }
        },
        Data::Enum(data) => {
            let message =
                format!("a question is a struct: {fix}, and make each variant a question or the enum a field");
            errors.push(data.enum_token, message);
        }
        Data::Union(data) => errors.push(data.union_token, format!("a question is a struct: {fix}")),
    }
}

/// The enum of a graph's questions has one variant for each type, so a question is not generic.
fn concrete(input: &DeriveInput, errors: &mut Errors) {
    let generics = &input.generics;
    if !generics.params.is_empty() {
        let message = "a question owns its fields and has no parameters: write concrete types";
        errors.push(&generics.params, message);
    }
}

/// The JSON of a question contains its name in the field `type`.
fn no_type_field(field: &Field, errors: &mut Errors) {
    let Some(ident) = &field.ident else { return };
    match renamed(field) {
        Some(name) if name.value() == symbol::TYPE => {
            errors.push(&name, "the field `type` of a question's JSON has the question's name: choose another name");
        }
        None if ident.unraw() == symbol::TYPE => {
            errors.push(ident, "the field `type` of a question's JSON has the question's name: rename the field");
        }
        _ => {}
    }
}

/// The name of `#[serde(rename = "…")]`. Serde reports attributes that cannot be parsed.
fn renamed(field: &Field) -> Option<LitStr> {
    let mut name = None;
    for attribute in field.attrs.iter().filter(|attribute| attribute.path().is_ident("serde")) {
        let _ = attribute.parse_nested_meta(|meta: ParseNestedMeta<'_>| {
            if meta.path.is_ident("rename") && meta.input.peek(Token![=]) {
                name = meta.value()?.parse::<Option<LitStr>>()?;
            } else if meta.input.peek(Token![=]) {
                meta.value()?.parse::<syn::Expr>()?;
            } else if meta.input.peek(syn::token::Paren) {
                meta.parse_nested_meta(|inner| inner.value()?.parse::<syn::Expr>().map(drop))?;
            }
            Ok(())
        });
    }
    name
}

fn options(input: &DeriveInput, errors: &mut Errors) -> Option<Options> {
    let mut attributes = input.attrs.iter().filter(|attribute| attribute.path().is_ident(symbol::QUESTION));
    let Some(attribute) = attributes.next() else {
        let message = format!("the question `{}` has no type of answer: add `#[question(answer = Type)]`", input.ident);
        errors.push(&input.ident, message);
        return None;
    };
    for again in attributes {
        errors.push(again, "a question has one `#[question(…)]`: merge the two");
    }
    let mut given: Vec<Ident> = Vec::new();
    errors.keep(attribute.parse_args_with(|input: ParseStream<'_>| {
        let mut options = Options::default();
        while !input.is_empty() {
            let word = input.call(Ident::parse_any)?;
            if given.contains(&word) {
                return Err(syn::Error::new(word.span(), format!("`{word}` is given twice: remove one")));
            }
            option(&word, input, &mut options)?;
            given.push(word);
            if !input.is_empty() {
                input.parse::<Token![,]>()?;
            }
        }
        Ok(options)
    }))
}

fn option(word: &Ident, input: ParseStream<'_>, options: &mut Options) -> syn::Result<()> {
    let text = word.to_string();
    if !symbol::QUESTION_OPTIONS.contains(&&*text) {
        return Err(syn::Error::new(word.span(), unknown("option of a question", &text, symbol::QUESTION_OPTIONS)));
    }
    if !input.peek(Token![=]) {
        let example = if text == symbol::NAME { "\"…\"" } else { "…" };
        return Err(syn::Error::new(word.span(), format!("`{word}` needs a value: `{word} = {example}`")));
    }
    input.parse::<Token![=]>()?;
    match &*text {
        symbol::ANSWER => options.answer = Some(answer(input)?),
        symbol::NAME => options.name = Some(input.parse()?),
        _ => options.home = Some(input.call(Path::parse_mod_style)?),
    }
    Ok(())
}

/// The type of the answer, which is stored and therefore owns its data.
fn answer(input: ParseStream<'_>) -> syn::Result<Type> {
    if input.peek(LitStr) {
        return Err(input.error("the answer is a type: remove the quotes"));
    }
    let ty: Type = input.parse()?;
    if let Type::Reference(reference) = &ty {
        return Err(syn::Error::new(reference.span(), "an answer owns its data: write `String` or another owned type"));
    }
    Ok(ty)
}

/// Checks the name, which distinguishes the questions of a thread.
fn stored_name(name: &LitStr, errors: &mut Errors) {
    let text = name.value();
    if text.trim().is_empty() {
        errors.push(name, "a question needs a name: write one, or remove `name`");
    } else if symbol::BUILT_IN_QUESTIONS.contains(&&*text) {
        errors.push(name, format!("agents ask a question `{text}`: choose another name"));
    }
}

pub(super) fn name_span(question: &QuestionModel) -> Span {
    question.name.as_ref().map_or_else(|| question.ident.span(), LitStr::span)
}
