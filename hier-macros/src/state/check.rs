//! The rules of a state that the macro can check:
//!
//! 1. [`managed_fields`]: a managed field takes no attributes.
//! 2. [`flattened_fields`]: a flattened field takes no other attributes; a struct has one at most; it is not a type
//!    parameter.
//! 3. [`once`]: a field has one reducer, one kind of channel, one name.
//! 4. [`reducer_or_kind`]: a channel has a reducer or a kind, not both.
//! 5. [`delta`]: a channel that is stored as increments has a reducer.
//! 6. [`conversations`]: a conversation is not secret.
//! 7. [`topics`]: a topic is a `Vec`.
//! 8. [`names`]: the name of a channel is valid and not reserved.
//! 9. [`distinct_names`]: two channels have different names.
//! 10. [`distinct_hashes`]: two channels have names with different hashes, and two fields too.
//! 11. [`version`]: a state has one version, at least 1, and at most one migration per earlier version.
//!
//! Bounds and assertions in the generated code check rules that need the types: the type supports the
//! reducer, it can be persisted, and a flattened state does not have a channel of the same name.

use std::collections::HashMap;

use syn::ext::IdentExt;

use super::expand::{hash, hash64};
use super::model::{StateModel, is_parameter, is_vec, managed};
use super::parse::{StateField, StateInput};
use crate::diag::Errors;
use crate::symbol;

pub(super) fn check(input: &StateInput, model: &StateModel, errors: &mut Errors) {
    for field in &input.fields {
        if managed(&field.ty).is_some() {
            managed_fields(field, errors);
        } else if field.flattens.is_empty() {
            once(field, errors);
            reducer_or_kind(field, errors);
            delta(field, errors);
            conversations(field, errors);
            topics(field, errors);
        }
    }
    flattened_fields(input, errors);
    version(input, model, errors);
    names(model, errors);
    distinct_names(model, errors);
    distinct_hashes(model, errors);
}

/// Each migration leads to the version of the next migration, and the last one leads to the version of the state.
fn version(input: &StateInput, model: &StateModel, errors: &mut Errors) {
    for (_, span) in input.versions.iter().skip(1) {
        errors.at(*span, "the version is given twice: remove one");
    }
    for (_, span) in input.migrations.iter().skip(1) {
        errors.at(*span, "`migrate` is given twice: make it one list, `migrate = [from_v1, from_v2]`");
    }
    if let Some((0, span)) = input.versions.first() {
        errors.at(*span, "versions start at 1, which is the default: write a higher number");
        return;
    }
    let (count, earlier) = (model.migrations.len(), model.version as usize - 1);
    if let Some((_, span)) = input.migrations.first().filter(|_| count > earlier) {
        errors.at(
            *span,
            format!(
                "version {} has {earlier} earlier {} and {count} {} here: raise `version`, or remove migrations",
                model.version,
                if earlier == 1 { "version" } else { "versions" },
                if count == 1 { "migration" } else { "migrations" },
            ),
        );
    }
}

/// The engine writes a managed field before each superstep, so attributes about writes have no meaning.
fn managed_fields(field: &StateField, errors: &mut Errors) {
    for (span, what) in attributes(field) {
        errors.at(
            span,
            format!("`{}` is managed by the engine, so it cannot have {what}: remove the attribute", field.ident),
        );
    }
}

/// The channels of a flattened state have their own attributes, and a state can flatten only one other.
fn flattened_fields(input: &StateInput, errors: &mut Errors) {
    let flattened: Vec<&StateField> =
        input.fields.iter().filter(|field| !field.flattens.is_empty() && managed(&field.ty).is_none()).collect();
    for field in &flattened {
        for (span, what) in attributes(field).into_iter().filter(|(_, what)| *what != FLATTEN) {
            errors.at(
                span,
                format!(
                    "`{}` is flattened, so it cannot have {what}: move it to the channels of the flattened state",
                    field.ident
                ),
            );
        }
        if is_parameter(&field.ty, &input.generics) {
            errors.push(
                &field.ty,
                "a type parameter cannot be flattened, because its channels are not known: name a state type",
            );
        }
    }
    if flattened.len() > 1 {
        for field in flattened {
            errors.at(field.flattens[0], "a state can flatten one other state: let one of the two flatten the other");
        }
    }
}

fn once(field: &StateField, errors: &mut Errors) {
    let reducers: Vec<_> = field.reducers.iter().map(super::parse::Reducer::span).collect();
    let kinds: Vec<_> = field.kinds.iter().map(|kind| kind.word.span()).collect();
    let names: Vec<_> = field.renames.iter().map(syn::LitStr::span).collect();
    for (spans, what) in [
        (reducers, REDUCER),
        (kinds, KIND),
        (field.deltas.clone(), DELTA),
        (field.secrets.clone(), SECRET),
        (field.initials.clone(), INITIAL),
        (names, NAME),
    ] {
        for span in spans.iter().skip(1) {
            errors.at(*span, format!("`{}` already has {what}: remove one of the two", field.ident));
        }
    }
}

/// Both a kind and a reducer define how writes are applied.
fn reducer_or_kind(field: &StateField, errors: &mut Errors) {
    let (Some(reducer), Some(kind)) = (field.reducers.first(), field.kinds.first()) else { return };
    for span in [reducer.span(), kind.word.span()] {
        errors.at(span, format!("`{}` is `{}` and has a reducer: remove one of the two", field.ident, kind.word));
    }
}

/// An increment is a value that a reducer merges.
fn delta(field: &StateField, errors: &mut Errors) {
    if let Some(span) = field.deltas.first()
        && field.reducers.is_empty()
    {
        errors.at(
            *span,
            format!(
                "`delta` stores the values that a reducer merges, and `{}` has no reducer: add `#[reducer(append)]` or another, \
                 or remove `delta`",
                field.ident
            ),
        );
    }
}

/// Agents send a conversation to their models.
fn conversations(field: &StateField, errors: &mut Errors) {
    let reducer = field.reducers.first().map(super::parse::Reducer::word);
    if let Some(span) = field.secrets.first()
        && reducer.flatten().is_some_and(|word| word == symbol::MESSAGES)
    {
        errors.at(
            *span,
            format!("`{}` is a conversation, which models read, so it cannot be secret: remove `secret`", field.ident),
        );
    }
}

/// A topic collects the values of all writers.
fn topics(field: &StateField, errors: &mut Errors) {
    let topic = field.kinds.first().is_some_and(|kind| kind.word == symbol::TOPIC);
    if topic && !is_vec(&field.ty) {
        errors.push(&field.ty, format!("a topic collects values, so `{}` must be a `Vec<…>`", field.ident));
    }
}

/// The builder applies the same rule.
fn names(model: &StateModel, errors: &mut Errors) {
    for channel in model.channels.iter().filter(|channel| !channel.is_internal()) {
        if let Some(message) = hier_spec::names::channel(&channel.name) {
            errors.at(channel.name_span, message);
        }
    }
}

/// Checkpoints and other graphs identify channels by name. The compiler reports two fields of one name; here at least
/// one channel is renamed.
fn distinct_names(model: &StateModel, errors: &mut Errors) {
    let mut seen = HashMap::new();
    for channel in &model.channels {
        let Some(first) = seen.insert(&*channel.name, channel.name_span) else { continue };
        for span in [first, channel.name_span] {
            errors.at(
                span,
                format!("two channels have the name `{}`: rename one with `#[state(rename = \"…\")]`", channel.name),
            );
        }
    }
}

/// The compiler compares the channels of two states by a hash of their names, which may collide (with a probability of
/// 1 in 95,000 in a state of 300 channels). Constants name a field by a longer hash.
fn distinct_hashes(model: &StateModel, errors: &mut Errors) {
    let mut seen = HashMap::new();
    for channel in &model.channels {
        let Some(first) = seen.insert(hash(&channel.name), &channel.name) else { continue };
        if *first != channel.name {
            errors.at(
                channel.name_span,
                format!("the channel names `{first}` and `{}` have the same hash: rename one of them", channel.name),
            );
        }
    }
    let fields = model.channels.iter().map(|channel| &channel.field);
    let mut seen = HashMap::new();
    for field in fields.chain(model.managed.iter().map(|managed| &managed.field)) {
        let name = field.unraw().to_string();
        // rustc reports two fields of one name.
        match seen.insert(hash64(&name), name.clone()) {
            Some(first) if first != name => errors
                .at(field.span(), format!("the fields `{first}` and `{name}` have the same hash: rename one of them")),
            _ => {}
        }
    }
}

const REDUCER: &str = "a reducer";
const KIND: &str = "a kind of channel";
const DELTA: &str = "`delta`";
const SECRET: &str = "`secret`";
const INITIAL: &str = "`initial`";
const FLATTEN: &str = "`flatten`";
const NAME: &str = "another name";

/// Each attribute of a field, with its location.
fn attributes(field: &StateField) -> Vec<(proc_macro2::Span, &'static str)> {
    let mut all = Vec::new();
    all.extend(field.reducers.iter().map(|reducer| (reducer.span(), REDUCER)));
    all.extend(field.kinds.iter().map(|kind| (kind.word.span(), KIND)));
    all.extend(field.deltas.iter().map(|span| (*span, DELTA)));
    all.extend(field.secrets.iter().map(|span| (*span, SECRET)));
    all.extend(field.initials.iter().map(|span| (*span, INITIAL)));
    all.extend(field.flattens.iter().map(|span| (*span, FLATTEN)));
    all.extend(field.renames.iter().map(|name| (name.span(), NAME)));
    all
}
