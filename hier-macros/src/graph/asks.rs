//! The rule of `asks: […]` that needs no types: each question has its own variant.

use super::ast::AskedQuestion;
use super::model::GraphModel;
use crate::diag::Errors;

pub(super) fn declared(model: &GraphModel) -> &[AskedQuestion] {
    model.asks.as_ref().map_or(&[], |asks| &*asks.found)
}

pub(super) fn check(model: &GraphModel, errors: &mut Errors) {
    let asks = declared(model);
    for (place, asked) in asks.iter().enumerate() {
        let Some(first) = asks[..place].iter().find(|other| other.name == asked.name) else { continue };
        let name = &asked.name;
        let message = if first.path == asked.path {
            format!("the question `{name}` is given twice: remove one")
        } else {
            format!("two questions are called `{name}`: name one, `Other{name} = …`")
        };
        errors.push(name, message);
        errors.push(&first.name, format!("… also here: the question `{name}`"));
    }
}

/// Returns the questions without duplicates, which `check` reports.
pub(super) fn distinct(model: &GraphModel) -> impl Iterator<Item = &AskedQuestion> {
    let asks = declared(model);
    asks.iter()
        .enumerate()
        .filter(|(place, asked)| asks[..*place].iter().all(|other| other.name != asked.name))
        .map(|(_, asked)| asked)
}
