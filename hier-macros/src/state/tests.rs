//! The rules of a state that the macro checks, each with the nearest state that keeps it.

use super::expand::{hash, hash64};
use crate::crate_path::Hier;
use crate::testing::{expect, messages};

/// Returns the messages of the errors, in order. The state exists after every mistake.
fn derived(options: &str, fields: &str) -> Vec<String> {
    let input = format!("{options} struct Filing<B> {{ {fields} }}");
    let output = super::derive(input.parse().unwrap(), &Hier::known("hier"));
    assert!(output.to_string().contains("FilingUpdate"), "no update in {output}");
    messages(output)
}

/// Returns the errors of a field with these attributes.
fn field(attributes: &str, ty: &str) -> Vec<String> {
    derived("", &format!("{attributes} list: {ty},"))
}

#[test]
fn attributes_of_a_channel_are_accepted() {
    for attributes in [
        "",
        "#[reducer(append)] #[channel(delta)] #[state(rename = \"items\")]",
        "#[reducer(with = merge)]",
        "#[channel(secret)]",
        "#[channel(topic)]",
        "#[channel(topic(accumulate))]",
        "#[channel(untracked)]",
    ] {
        expect(&field(attributes, "Vec<String>"), &[]);
    }
    expect(&derived("", "#[state(flatten)] base: Base, left: RemainingSteps, title: String"), &[]);
    expect(&derived("", "#[reducer(messages)] chat: Messages, #[channel(secret)] #[reducer(append)] key: String"), &[]);
    expect(&derived("#[state(version = 3, migrate = [from_v1, from_v2])]", "title: String"), &[]);
    expect(&derived("#[state(version = 3, migrate = from_v2)]", "title: String"), &[]);
}

#[test]
fn attributes_are_given_once() {
    for (attributes, what) in [
        ("#[reducer(append)] #[reducer(append)]", "a reducer"),
        ("#[channel(ephemeral, untracked)]", "a kind of channel"),
        ("#[reducer(append)] #[channel(delta, delta)]", "`delta`"),
        ("#[channel(secret, secret)]", "`secret`"),
        ("#[channel(initial, initial)]", "`initial`"),
        ("#[state(rename = \"a\", rename = \"b\")]", "another name"),
    ] {
        expect(&field(attributes, "Vec<String>"), &[&format!("`list` already has {what}: remove one of the two")]);
    }
}

#[test]
fn words_of_other_attributes_are_refused() {
    expect(&field("#[channel(append)]", "Vec<String>"), &["write `#[reducer(append)]`"]);
    expect(&field("#[reducer(ephemeral)]", "Vec<String>"), &["write `#[channel(ephemeral)]`"]);
    expect(&field("#[state(append)]", "Vec<String>"), &["write `#[reducer(append)]`"]);
    expect(&field("#[state(secret)]", "Vec<String>"), &["write `#[channel(secret)]`"]);
}

#[test]
fn shape_of_attributes_is_checked() {
    expect(&field("#[reducer = \"append\"]", "Vec<u8>"), &["write the value of `reducer` in parentheses"]);
    expect(&field("#[channel(topic())]", "Vec<u8>"), &["write `topic` alone, or `topic(accumulate)`"]);
    let above = |name: &str| format!("`{name}` is an attribute of a channel: write it above a field");
    expect(&derived("#[reducer(append)] #[channel(topic)]", "a: u8"), &[&above("reducer"), &above("channel")]);
    expect(&derived("#[state(crate = a, crate = b)]", "a: u8"), &["`crate` is given twice"]);
}

#[test]
fn channel_owns_its_value() {
    expect(&field("", "&'static str"), &["a stored channel owns its value"]);
    expect(&field("#[channel(untracked)]", "&'static str"), &[]);
    // The compiler reports these types.
    for ty in ["&str", "Vec<&str>", "impl Clone", "Option<_>"] {
        expect(&field("", ty), &[]);
    }
}

#[test]
fn contradicting_attributes_are_refused() {
    let both = "`list` is `ephemeral` and has a reducer: remove one of the two";
    expect(&field("#[reducer(append)] #[channel(ephemeral)]", "Vec<String>"), &[both, both]);
    expect(&field("#[channel(delta)]", "Vec<String>"), &["and `list` has no reducer: add `#[reducer(append)]`"]);
    expect(&field("#[channel(secret)] #[reducer(messages)]", "Messages"), &["so it cannot be secret: remove `secret`"]);
    expect(&field("#[channel(topic)]", "String"), &["so `list` must be a `Vec<…>`"]);
    expect(&field("#[channel(ephemeral)]", "String"), &[]);
    expect(&field("#[reducer(\"append\")]", "Vec<String>"), &["expected a word such as `append`, without quotes"]);
}

#[test]
fn managed_and_flattened_fields_have_no_attributes() {
    for (attributes, what) in [
        ("#[reducer(max)]", "a reducer"),
        ("#[channel(ephemeral)]", "a kind of channel"),
        ("#[channel(delta)]", "`delta`"),
        ("#[channel(secret)]", "`secret`"),
        ("#[channel(initial)]", "`initial`"),
        ("#[state(rename = \"other\")]", "another name"),
    ] {
        let managed = format!("`list` is managed by the engine, so it cannot have {what}: remove the attribute");
        expect(&field(attributes, "RemainingSteps"), &[&managed]);
        let flattened = format!("`list` is flattened, so it cannot have {what}: move it");
        expect(&field(&format!("#[state(flatten)] {attributes}"), "Base"), &[&flattened]);
    }
    expect(&field("#[state(flatten)]", "RemainingSteps"), &["so it cannot have `flatten`"]);
    expect(&field("#[state(flatten)]", "B"), &["a type parameter cannot be flattened"]);
    let two = "a state can flatten one other state";
    expect(&derived("", "#[state(flatten)] a: A, #[state(flatten)] c: C"), &[two, two]);
}

#[test]
fn versions_and_migrations_fit_together() {
    let errors = |options: &str| derived(&format!("#[state({options})]"), "title: String");
    expect(&errors("version = 2, version = 3"), &["the version is given twice"]);
    expect(&errors("version = 3, migrate = from_v1, migrate = from_v2"), &["`migrate` is given twice"]);
    expect(&errors("version = 0"), &["versions start at 1"]);
    for version in ["version = -1", "version = 4294967296", "version = \"2\"", "version"] {
        expect(&errors(version), &["the version of a state is a number up to 4294967295: `version = 2`"]);
    }
    expect(&errors("migrate = from_v1"), &["version 1 has 0 earlier versions and 1 migration here"]);
    expect(
        &errors("version = 2, migrate = [from_v1, from_v2]"),
        &["version 2 has 1 earlier version and 2 migrations here: raise `version`, or remove migrations"],
    );
}

#[test]
fn names_of_channels_differ() {
    let twice = "two channels have the name `a`: rename one";
    expect(&derived("", "a: String, #[state(rename = \"a\")] c: String"), &[twice, twice]);
    expect(&derived("", "#[state(rename = \"__a\")] a: String"), &["the channel name `__a` is reserved"]);
    expect(&derived("", "a: String, #[state(rename = \"d\")] c: String"), &[]);
}

#[test]
fn names_with_equal_hashes_are_refused() {
    let (first, second) = ("c693596", "c1170850");
    assert_eq!(hash(first), hash(second));
    let message = format!("the channel names `{first}` and `{second}` have the same hash: rename one of them");
    expect(&derived("", &format!("{first}: String, {second}: String")), &[&message]);
    let (first, second) = ("gMPflVXtwGDXbIhP73TX", "LtHf1prlU1bCeYZEdqWf");
    assert_eq!(hash64(first), hash64(second));
    let message = format!("the fields `{first}` and `{second}` have the same hash: rename one of them");
    let renamed = |ty: &str| format!("{first}: String, #[state(rename = \"b\")] {second}: {ty}");
    expect(&derived("", &renamed("String")), &[&message]);
    expect(&derived("", &format!("{first}: String, {second}: RemainingSteps")), &[&message]);
}
