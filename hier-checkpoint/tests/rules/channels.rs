//! The table of a state's channels, and the rules by which stored writes are read.

use hier_checkpoint::channel::{ChannelSpec, Kind, Table, equal};

static INNER: [ChannelSpec; 2] = [ChannelSpec::reduced("log", "append", true), ChannelSpec::new("news", Kind::Topic)];
static FLATTENED: Table = Table::new(&INNER, None).hiding(&["log_field"]);
static OWN: [ChannelSpec; 2] = [ChannelSpec::new("name", Kind::Last), ChannelSpec::new("key", Kind::Last).hidden()];
static STATE: Table = Table::new(&OWN, Some(&FLATTENED)).hiding(&["key_field"]);
static EMPTY: Table = Table::new(&[], None);
static OTHER: [ChannelSpec; 1] = [ChannelSpec::new("other", Kind::Last)];
static MIXED: Table = Table::new(&OWN, Some(&Table::new(&OTHER, None)));
static PLAIN: Table = Table::new(&OWN, Some(&EMPTY));
static OUTER: Table = Table::new(&[], Some(&FLATTENED));
static HIDING: Table = Table::new(&OWN, Some(&EMPTY)).hiding(&["key"]);

#[test]
fn own_channels_come_before_those_of_the_flattened_state() {
    let names: Vec<&str> = STATE.iter().map(|channel| &*channel.name).collect();
    assert_eq!(names, ["name", "key", "log", "news"]);
    assert_eq!((STATE.len(), STATE.is_empty()), (4, false));
    assert_eq!((EMPTY.len(), EMPTY.is_empty()), (0, true));
    for (place, name) in names.iter().enumerate() {
        assert_eq!(STATE.position(name), Some(place), "{name}");
        assert_eq!(STATE.get(place).map(|channel| &*channel.name), Some(*name));
        assert_eq!(STATE.spec(place), STATE.get(place));
        assert!(STATE.contains(name));
    }
    assert_eq!((STATE.position("other"), STATE.get(4), STATE.spec(4)), (None, None, None));
    assert!(!STATE.contains("other") && !EMPTY.contains("name"));
}

#[test]
fn a_table_is_within_one_with_all_its_channels() {
    assert!(FLATTENED.is_within(&STATE) && STATE.is_within(&STATE) && EMPTY.is_within(&FLATTENED));
    assert!(!STATE.is_within(&FLATTENED), "its own channels are missing");
    assert!(!MIXED.is_within(&STATE), "a channel of its flattened state is missing");
}

#[test]
fn plain_channels_allow_one_writer() {
    assert!(STATE.is_plain("name"));
    assert!(!STATE.is_plain("log") && !STATE.is_plain("news") && !STATE.is_plain("other"));
    for (kind, single_writer, expires) in [
        (Kind::Last, true, false),
        (Kind::Reduced, false, false),
        (Kind::Ephemeral, true, true),
        (Kind::Untracked, true, false),
        (Kind::Topic, false, true),
        (Kind::TopicAccumulate, false, false),
    ] {
        assert_eq!((kind.single_writer(), kind.expires()), (single_writer, expires), "{kind:?}");
    }
}

#[test]
fn secrets_are_found_by_their_fields() {
    assert!(STATE.hides("key_field") && STATE.hides("log_field"));
    assert!(!STATE.hides("key") && !STATE.hides("name") && !EMPTY.hides("name"));
    assert!(STATE.has_secret() && FLATTENED.has_secret() && !EMPTY.has_secret());
    assert!(!PLAIN.has_secret() && OUTER.has_secret() && HIDING.has_secret());
    assert!(OWN[1].secret && !OWN[0].secret);
}

#[test]
fn stored_writes_are_read_by_the_rule_under_which_they_were_written() {
    let custom = ChannelSpec { reducer: None, ..ChannelSpec::reduced("x", "", false) };
    for (channel, rule) in [
        (ChannelSpec::new("x", Kind::Last), "last"),
        (ChannelSpec::new("x", Kind::Ephemeral), "last"),
        (ChannelSpec::new("x", Kind::Untracked), "last"),
        (ChannelSpec::new("x", Kind::Topic), "append"),
        (ChannelSpec::new("x", Kind::TopicAccumulate), "append"),
        (ChannelSpec::reduced("x", "sum", false), "sum"),
        (ChannelSpec::reduced("x", "upsert", false), "by_id"),
        (custom, "with"),
    ] {
        assert_eq!(channel.rule(), rule, "{channel:?}");
        assert_eq!(channel.replaces(rule, false), Some(false), "{channel:?}");
        assert_eq!(channel.replaces(rule, true), Some(true), "{channel:?}");
    }
    let sum = ChannelSpec::reduced("x", "sum", false);
    assert_eq!(sum.replaces("last", false), Some(true), "it replaced the value when it was written");
    assert_eq!(sum.replaces("product", false), None, "another reducer must merge it");
    assert_eq!(sum.replaces("product", true), Some(true));
}

#[test]
fn texts_are_compared_in_constants() {
    for (a, b) in [("", "a"), ("a", "b"), ("ab", "aa"), ("ba", "aa"), ("a", "ab")] {
        assert!(equal(a, a) && equal(b, b) && !equal(a, b) && !equal(b, a), "{a} {b}");
    }
}
