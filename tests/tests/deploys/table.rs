//! Verdicts on pairs of lock files, and the file format.

use hier_testkit::lock::{Lock, LockReport, compare};

const TYPES: &str = r#"
type Bill
    {
      "properties": { "amount": { "format": "uint32", "minimum": 0, "type": "integer" } },
      "required": ["amount"],
      "type": "object"
    }

type Tree
    { "properties": { "children": { "items": { "$ref": "\#/$defs/Tree" }, "type": "array" } }, "type": "object" }
"#;

/// A lock with a graph that has these facts.
fn lock(facts: &str) -> Lock {
    let facts = facts.split(';').map(|fact| format!("  {}\n", fact.trim())).collect::<Vec<_>>().concat();
    let stored = if facts.contains("stored ") { "" } else { "  stored name=review version=1 migrates_from=1\n" };
    let types = TYPES.replace("\\#", "#");
    Lock::parse(&format!("lock 1\n\ngraph review\n{stored}{facts}{types}"))
        .unwrap_or_else(|error| panic!("{error}: {facts}"))
}

/// The verdict on a channel whose type changes.
fn of_types(old: &str, new: &str) -> Vec<&'static str> {
    let channel = |ty: &str| lock(&format!("channel x last type={ty}"));
    codes(&channel(old), &channel(new))
}

fn codes(old: &Lock, new: &Lock) -> Vec<&'static str> {
    compare(old, new).iter().map(|finding| finding.change.code()).collect()
}

#[test]
fn types_are_compared_by_the_values_that_they_accept() {
    let (uint, text) = (r#"{"format":"uint32","minimum":0,"type":"integer"}"#, r#"{"type":"string"}"#);
    let bill = r##"{"$ref":"#/$defs/Bill"}"##;
    for (old, new, codes) in [
        (uint, uint, &[][..]),
        (uint, r#"{"format":"uint64","minimum":0,"type":"integer"}"#, &["type-widened"]),
        (r#"{"format":"uint64","minimum":0,"type":"integer"}"#, uint, &["type-changed"]),
        (uint, r#"{"format":"double","type":"number"}"#, &["type-widened"]),
        (r#"{"format":"double","type":"number"}"#, uint, &["type-changed"]),
        (uint, r#"{"type":["integer","null"]}"#, &["type-widened"]),
        (r#"{"type":["string","null"]}"#, text, &["type-changed"]),
        (text, r#"{"format":"uuid","type":"string"}"#, &["type-changed"]),
        (r#"{"format":"uuid","type":"string"}"#, text, &["type-widened"]),
        (r#"{"enum":["a","b"]}"#, r#"{"enum":["a","b","c"]}"#, &["type-widened"]),
        (r#"{"enum":["a","b"]}"#, r#"{"enum":["a"]}"#, &["type-changed"]),
        (r#"{"enum":["a","b"]}"#, r#"{"oneOf":[{"const":"a"},{"const":"b"}]}"#, &[]),
        (
            bill,
            r#"{"properties":{"amount":{"format":"uint32","type":"integer"}},"required":["amount"],"type":"object"}"#,
            &[],
        ),
        (
            bill,
            r#"{"properties":{"amount":{"type":"integer"},"note":{"type":"string"}},"type":"object"}"#,
            &["type-widened"],
        ),
        (bill, r#"{"properties":{"note":{"type":"string"}},"required":["note"],"type":"object"}"#, &["type-changed"]),
        (bill, r#"{"additionalProperties":false,"properties":{},"type":"object"}"#, &["type-changed"]),
        (
            r#"{"items":{"type":"string"},"type":"array"}"#,
            r#"{"items":{"type":"integer"},"type":"array"}"#,
            &["type-changed"],
        ),
        (r#"{"items":{"type":"string"},"type":"array"}"#, r#"{"items":true,"type":"array"}"#, &["type-widened"]),
        (r##"{"$ref":"#/$defs/Tree"}"##, r##"{"$ref":"#/$defs/Tree"}"##, &[]),
        (uint, "true", &["type-widened"]),
        ("unknown", "unknown", &[]),
        (uint, "unknown", &["type-unknown"]),
    ] {
        assert_eq!(of_types(old, new), codes, "{old} to {new}");
    }
}

#[test]
fn facts_have_verdicts() {
    let second = "stored name=review version=2 migrates_from=1";
    let ask = r#"question Pay asks={"type":"integer"} answer={"type":"boolean"}"#;
    for (old, new, codes) in [
        ("node a", "node a", vec![]),
        ("channel x last type=true", "", vec!["channel-removed"]),
        ("channel x untracked type=true", "", vec!["channel-not-stored"]),
        ("channel x last type=true", second, vec!["version-raised", "channel-migrated"]),
        (second, "stored name=review version=1 migrates_from=1", vec!["version-lowered"]),
        (second, "stored name=review version=2 migrates_from=2", vec!["migration-missing"]),
        ("channel x last type=true", "channel x ephemeral type=true", vec!["value-expires"]),
        ("channel x ephemeral type=true", "channel x last type=true", vec!["kind-changed"]),
        ("channel x last type=true", "channel x reduced reducer=append type=true", vec!["reducer-added"]),
        ("channel x reduced reducer=append type=true", "channel x last type=true", vec!["reducer-changed"]),
        ("channel x reduced reducer=by_id type=true", "channel x reduced reducer=upsert type=true", vec![]),
        ("channel x last type=true", "channel x last secret=true type=true", vec!["secret-added"]),
        ("channel x last secret=true type=true", "channel x last type=true", vec!["secret-removed"]),
        ("channel x last secret=true type=true", "channel x last secret=true type=true", vec![]),
        ("node a", "node b", vec!["node-removed", "node-added"]),
        ("node a", "node b; renamed a b", vec!["node-renamed"]),
        ("node a; node b", "node a; node b; renamed a b", vec!["node-replaced"]),
        ("node b; renamed a b", "node b", vec!["node-removed"]),
        ("node a", "node a defer=true", vec!["defer-changed"]),
        ("node a", "node a; node b; edge a b", vec!["node-added", "edges-changed"]),
        (r#"node a; join "join:a:b" from=["a"] to=b"#, "node a", vec!["join-changed"]),
        (
            r#"node a; node c; join join:a:c from=["a"] to=c"#,
            r#"node b; node c; renamed a b; join join:b:c from=["b"] to=c"#,
            vec!["node-renamed"],
        ),
        ("node a", "node a checkpoints=per_call", vec!["inner-graph-added"]),
        ("node a checkpoints=per_call", "node a", vec!["inner-graph-removed"]),
        ("node a checkpoints=per_call", "node a checkpoints=per_thread", vec!["checkpoints-changed"]),
        ("node a checkpoints=per_call", "node a checkpoints=per_call merge_fields=x", vec!["policy-changed"]),
        (ask, "", vec!["question-removed"]),
        ("", ask, vec!["question-added"]),
        (ask, r#"question Pay asks={"type":"integer"} answer={"type":"string"}"#, vec!["question-changed"]),
        (ask, r#"question Pay asks={"type":"number"} answer={"type":"boolean"}"#, vec![]),
    ] {
        let mut found = self::codes(&lock(old), &lock(new));
        let mut codes = codes;
        found.sort_unstable();
        codes.sort_unstable();
        assert_eq!(found, codes, "{old} to {new}");
    }
}

#[test]
fn fix_names_the_likely_new_name_of_a_node() {
    for (old, new, name) in [
        ("node sign", "node confirm", "confirm"),
        ("node sign; node review", "node signs; node other", "signs"),
        ("node sign; node signs", "node signs", "…"),
        ("node sign; node review", "node confirm; node other", "…"),
        ("node sign; node weigh", "node confirm; node check; renamed weigh check", "confirm"),
        ("node check; renamed sign check", "node check", "check"),
    ] {
        let report = LockReport::new(&lock(old), &lock(new)).to_string();
        assert!(report.contains(&format!("add `.renamed(\"sign\", \"{name}\")`")), "{old} to {new}: {report}");
    }
}

#[test]
fn file_is_read_back_unchanged() {
    let lock = lock(
        "renamed \"a b\" \"START\"; channel \"x=y\" reduced reducer=append delta=true secret=true type={\"enum\":[\"a = b\"]}; node \"*\"; node \"START\"; \
         edge START \"START\"; choice \"*\" *; join \"join:*:a/b\" from=[\"*\"] to=\"a/b\"; node \"a/b\" checkpoints=none max_iterations=3",
    );
    assert_eq!(Lock::parse(&lock.to_string()), Ok(lock.clone()), "{lock}");
    assert_eq!(LockReport::new(&lock, &lock).to_string(), "nothing has changed that stored threads depend on\n");
}

#[test]
fn damaged_files_are_refused_with_the_line() {
    for (text, message) in [
        ("", "line 1 of the lock file: `lock 1` is missing"),
        ("lock 2", "line 1 of the lock file: the format is 2, and this version of hier reads 1"),
        ("lock 1\nnode a", "line 2 of the lock file: it is before the first `graph` line"),
        ("lock 1\ngraph a\n  channel x knot type=true", "line 3 of the lock file: `knot` is not a kind of channel"),
        ("lock 1\ngraph a\n  channel x last", "line 3 of the lock file: `type` is missing"),
        ("lock 1\ngraph a\n  choice x y", "line 3 of the lock file: there is no node `x`"),
        ("lock 1\ngraph a\n  node \"x", "line 3 of the lock file: EOF while parsing a string"),
        ("lock 1\ntype T\n    {", "line 2 of the lock file: the schema of the type is not JSON"),
        ("<<<<<<< HEAD\nlock 1", "line 1 of the lock file"),
    ] {
        let error = Lock::parse(text).unwrap_err().to_string();
        assert!(error.starts_with(message), "{error}");
        assert!(error.ends_with("write it again with `hier lock`"), "{error}");
    }
}
