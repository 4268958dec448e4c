//! Writes as the setters of a state take them, and the reducers that are chosen by name.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::hash::{Hash, Hasher};

use hier_checkpoint::reducer::json::Builtin;
use hier_checkpoint::reducer::{
    Identified, IntoTexts, IntoValue, IntoWrite, Overwrite, ReduceError, ReducerOutput, Write, builtin, reduce,
};
use serde_json::{Value, json};

/// The write of a setter to a channel of `T`.
fn merged<T>(write: impl IntoWrite<T>) -> T {
    let write = write.into_write();
    assert!(!write.is_overwrite());
    write.into_value()
}

#[test]
fn a_list_takes_one_item_or_several() {
    assert_eq!(merged::<Vec<u8>>(1), [1]);
    assert_eq!(merged::<Vec<u8>>([1, 2]), [1, 2]);
    assert_eq!(merged::<Vec<u8>>(vec![1, 2]), [1, 2]);
    assert_eq!(merged::<Vec<String>>("a"), ["a"]);
    assert_eq!(merged::<Vec<String>>(["a", "b"]), ["a", "b"]);
    assert_eq!(merged::<VecDeque<u8>>([1, 2]), [1, 2]);
}

#[test]
fn sets_maps_and_optional_values_take_their_parts() {
    assert_eq!(merged::<BTreeSet<u8>>([2, 1]), BTreeSet::from([1, 2]));
    assert_eq!(merged::<HashSet<u8>>([2, 1]), HashSet::from([1, 2]));
    assert_eq!(merged::<BTreeMap<u8, u8>>([(1, 2)]), BTreeMap::from([(1, 2)]));
    assert_eq!(merged::<HashMap<u8, u8>>([(1, 2)]), HashMap::from([(1, 2)]));
    assert_eq!(merged::<Option<u8>>(3), Some(3));
    assert_eq!(merged::<Option<String>>("a"), Some("a".to_owned()));
    assert_eq!(merged::<String>("a"), "a");
}

#[test]
fn an_overwrite_replaces_the_value() {
    let write: Write<Vec<u8>> = Overwrite(vec![7]).into_write();
    assert!(write.is_overwrite() && *write.value() == [7]);
    let mut value = vec![1];
    assert_eq!(reduce(&mut value, write, builtin::append), Ok(()));
    assert_eq!(value, [7]);
    assert_eq!(reduce(&mut value, Write::Merge(vec![8]), builtin::append), Ok(()));
    assert_eq!(value, [7, 8]);
    assert_eq!(*Write::Merge(5).value(), 5);
}

#[test]
fn plain_channels_take_what_converts() {
    assert_eq!(IntoValue::<u64>::into_value(3_u8), 3);
    assert_eq!(IntoTexts::<Option<String>>::into_texts("a"), Some("a".to_owned()));
    assert_eq!(IntoTexts::<Option<u8>>::into_texts(Some(1)), Some(1));
    assert_eq!(IntoTexts::<Option<u8>>::into_texts(1), Some(1));
    assert_eq!(IntoTexts::<Vec<u8>>::into_texts(vec![1]), [1]);
    assert_eq!(IntoTexts::<Vec<u8>>::into_texts([1, 2]), [1, 2]);
    assert_eq!(IntoTexts::<Vec<String>>::into_texts(["a", "b"]), ["a", "b"]);
}

#[test]
fn errors_of_a_custom_reducer_are_reported() {
    assert_eq!(().outcome(), Ok(()));
    assert_eq!(Ok::<(), &str>(()).outcome(), Ok(()));
    assert_eq!(Err("too much").outcome(), Err(ReduceError::new("too much")));
    let refused = reduce(&mut 1, Write::Merge(2), |_: &mut u8, _| Err("too much"));
    assert_eq!(refused.map_err(|error| error.to_string()), Err("too much".to_owned()));
}

#[test]
fn lists_texts_sets_and_maps_grow() {
    let mut text = "a".to_owned();
    builtin::append(&mut text, "b".to_owned());
    assert_eq!(text, "ab");
    let mut queue = VecDeque::from([1]);
    builtin::append(&mut queue, VecDeque::from([2]));
    assert_eq!(queue, [1, 2]);
    // A list with room keeps its memory, and an empty one takes that of the write.
    for (mut list, room) in [(Vec::with_capacity(9), 9), (Vec::new(), 2)] {
        builtin::append(&mut list, Vec::from([1, 2]));
        assert_eq!((list.as_slice(), list.capacity()), ([1, 2].as_slice(), room));
    }
    let mut set = HashSet::from([1]);
    builtin::extend(&mut set, HashSet::from([1, 2]));
    assert_eq!(set, HashSet::from([1, 2]));
    let mut map = HashMap::from([(1, "old"), (2, "kept")]);
    builtin::extend(&mut map, HashMap::from([(1, "new")]));
    assert_eq!(map, HashMap::from([(1, "new"), (2, "kept")]));
    let mut map = BTreeMap::from([(1, "old"), (2, "kept")]);
    builtin::extend(&mut map, BTreeMap::from([(1, "new")]));
    assert_eq!(map, BTreeMap::from([(1, "new"), (2, "kept")]));
}

#[test]
fn numbers_are_added_and_multiplied_or_refused() {
    let (mut sum, mut product) = (2.5, 2.5);
    assert_eq!((builtin::sum(&mut sum, 0.5), builtin::product(&mut product, 2.0)), (Ok(()), Ok(())));
    assert_eq!((sum, product), (3.0, 5.0));
    let mut number = 100_u8;
    let sum = builtin::sum(&mut number, 200).expect_err("an overflow");
    assert!(sum.to_string().starts_with("`sum` overflowed: use a wider number type"), "{sum}");
    let product = builtin::product(&mut number, 3).expect_err("an overflow");
    assert!(product.to_string().starts_with("`product` overflowed"), "{product}");
    assert_eq!(builtin::product(&mut number, 2), Ok(()));
    assert_eq!(number, 200);
}

#[test]
fn values_that_cannot_be_compared_or_are_equal_keep_the_old_one() {
    let mut value = 1.0;
    builtin::max(&mut value, f64::NAN);
    builtin::min(&mut value, f64::NAN);
    assert_eq!(Some(value), Some(1.0));
    // The sign of zero shows which of two equal values stays.
    let mut zero = 0.0_f64;
    builtin::max(&mut zero, -0.0);
    builtin::min(&mut zero, -0.0);
    assert!(zero.is_sign_positive());
}

/// The value of a channel after a write.
fn after<T>(mut value: T, new: T, reducer: fn(&mut T, T)) -> T {
    reducer(&mut value, new);
    value
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Item(u8, &'static str);

impl Identified for Item {
    type Id = u8;

    fn id(&self) -> &u8 {
        &self.0
    }
}

#[test]
fn values_are_compared_joined_and_replaced() {
    for (old, new) in [(1, 2), (2, 1)] {
        assert_eq!((after(old, new, builtin::max), after(old, new, builtin::min)), (2, 1));
        assert_eq!(after(old, new, builtin::last), new);
    }
    for (old, new) in [(true, true), (true, false), (false, true), (false, false)] {
        assert_eq!((after(old, new, builtin::any), after(old, new, builtin::all)), (old || new, old && new));
    }
    assert_eq!(after(BTreeSet::from([1]), BTreeSet::from([2]), builtin::extend), BTreeSet::from([1, 2]));
    let items = after(vec![Item(1, "old"), Item(2, "kept")], vec![Item(1, "new"), Item(3, "added")], builtin::by_id);
    assert_eq!(items, [Item(1, "new"), Item(2, "kept"), Item(3, "added")]);
}

/// The value of a JSON channel after a write, or the error.
fn reduced(reducer: Builtin, old: Value, new: Value) -> Result<Value, String> {
    let mut value = old;
    reducer.reducer()(&mut value, new).map(|()| value).map_err(|error| error.to_string())
}

#[test]
fn json_reducers_have_names_and_initial_values() {
    for (name, reducer, initial) in [
        ("append", Builtin::Append, json!([])),
        ("extend", Builtin::Extend, json!({})),
        ("sum", Builtin::Sum, json!(0)),
        ("product", Builtin::Product, json!(0)),
        ("max", Builtin::Max, json!(0)),
        ("min", Builtin::Min, json!(0)),
        ("any", Builtin::Any, json!(false)),
        ("all", Builtin::All, json!(false)),
        ("by_id", Builtin::ById, json!([])),
    ] {
        assert_eq!((Builtin::named(name), reducer.name(), reducer.initial()), (Ok(reducer), name, initial));
    }
    assert_eq!(Builtin::named("upsert"), Ok(Builtin::ById));
    let unknown = Builtin::named("append_all").expect_err("an unknown name").to_string();
    assert!(unknown.starts_with("there is no reducer `append_all`; known: `append`, `extend`"), "{unknown}");
}

#[test]
fn json_values_are_merged() {
    let item = |id, text: &str| json!({ "id": id, "text": text });
    for (reducer, old, new, merged) in [
        (Builtin::Append, json!([1]), json!([2]), json!([1, 2])),
        (Builtin::Extend, json!({ "a": 1, "b": 1 }), json!({ "a": 2 }), json!({ "a": 2, "b": 1 })),
        (Builtin::Any, json!(false), json!(true), json!(true)),
        (Builtin::Any, json!(true), json!(true), json!(true)),
        (Builtin::Any, json!(true), json!(false), json!(true)),
        (Builtin::All, json!(true), json!(true), json!(true)),
        (Builtin::All, json!(false), json!(true), json!(false)),
        (Builtin::All, json!(false), json!(false), json!(false)),
        (Builtin::Product, json!(3), json!(2.5), json!(7.5)),
        (Builtin::Product, json!(3), json!(4), json!(12)),
        (Builtin::Max, json!(1), json!(2.5), json!(2.5)),
        (Builtin::Min, json!(2), json!(1.5), json!(1.5)),
        (Builtin::Min, json!(1.5), json!(2), json!(1.5)),
        (Builtin::Max, json!(1.5), json!(2), json!(2)),
        (Builtin::Max, json!(2.5), json!(1.5), json!(2.5)),
        // Equal numbers: the old one stays.
        (Builtin::Max, json!(1), json!(1.0), json!(1)),
        (Builtin::Min, json!(1.0), json!(1), json!(1.0)),
        (
            Builtin::ById,
            json!([item(1, "old"), item(2, "kept")]),
            json!([item(1, "new"), item(3, "added")]),
            json!([item(1, "new"), item(2, "kept"), item(3, "added")]),
        ),
    ] {
        assert_eq!(reduced(reducer, old.clone(), new.clone()), Ok(merged), "{reducer:?} of {old} and {new}");
    }
}

#[test]
fn json_values_of_other_types_are_refused() {
    let refused = |reducer, old, new| reduced(reducer, old, new).expect_err("refused");
    assert_eq!(refused(Builtin::Sum, json!(1), json!("2")), "`sum` cannot merge \"2\" into 1");
    assert_eq!(refused(Builtin::Append, json!([]), json!({})), "`append` cannot merge {} into []");
    for item in [json!({ "text": "x" }), json!({ "id": null }), json!(1)] {
        let error = refused(Builtin::ById, json!([]), json!([item]));
        assert!(error.starts_with("`by_id` needs items with an `id`"), "{error}");
    }
}

#[test]
fn refusal_quotes_only_the_beginning_of_a_value() {
    let long = json!(vec!["a long list"; 10_000]);
    for (reducer, old, new) in [
        (Builtin::Append, long.clone(), json!("x")),
        (Builtin::Sum, json!(1), long.clone()),
        (Builtin::ById, json!([]), json!([{ "text": long }])),
    ] {
        let error = reduced(reducer, old, new).expect_err("refused");
        assert!(error.contains("a long list") && error.contains('…') && error.len() < 400, "{error}");
    }
    let custom = ReduceError::new("é".repeat(10_000)).to_string();
    assert_eq!((custom.chars().count(), custom.ends_with("é…")), (2_001, true));
    assert_eq!(ReduceError::new("short").to_string(), "short");
}

thread_local! {
    static COMPARISONS: Cell<usize> = const { Cell::new(0) };
}

/// An id that counts its comparisons.
#[derive(Debug)]
struct CountedId(u32);

impl PartialEq for CountedId {
    fn eq(&self, other: &Self) -> bool {
        COMPARISONS.set(COMPARISONS.get() + 1);
        self.0 == other.0
    }
}

impl Eq for CountedId {}

impl Hash for CountedId {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

/// An item whose second field distinguishes it from other items with its id.
#[derive(Debug)]
struct CountedItem(CountedId, u32);

impl Identified for CountedItem {
    type Id = CountedId;

    fn id(&self) -> &CountedId {
        &self.0
    }
}

fn counted(ids: &[u32], first: u32) -> Vec<CountedItem> {
    ids.iter().zip(first..).map(|(id, text)| CountedItem(CountedId(*id), text)).collect()
}

fn in_json(items: &[CountedItem]) -> Vec<Value> {
    items.iter().map(|CountedItem(id, text)| json!({ "id": id.0, "text": text })).collect()
}

/// Merges items like `by_id`, by comparing each written item with all others.
fn merged_simply(mut items: Vec<CountedItem>, new: Vec<CountedItem>) -> Vec<CountedItem> {
    for item in new {
        match items.iter_mut().find(|old| old.0.0 == item.0.0) {
            Some(old) => *old = item,
            None => items.push(item),
        }
    }
    items
}

/// Merges with `by_id`, as typed items and as JSON. Returns the merged items.
fn merged_by_id(old: &[u32], new: &[u32]) -> [Vec<Value>; 2] {
    let (mut items, written) = (counted(old, 0), counted(new, 1_000_000));
    let mut values = Value::from(in_json(&items));
    let write = Value::from(in_json(&written));
    builtin::by_id(&mut items, written);
    (Builtin::ById.reducer())(&mut values, write).expect("all items have an id");
    [in_json(&items), values.as_array().cloned().unwrap_or_default()]
}

#[test]
fn by_id_merges_lists_of_any_length_like_a_simple_loop() {
    let mut random = fastrand::Rng::with_seed(7);
    for _ in 0..500 {
        let mut ids = |most: usize| -> Vec<u32> { (0..random.usize(..most)).map(|_| random.u32(..30)).collect() };
        let (old, new) = (ids(40), ids(40));
        let wanted = in_json(&merged_simply(counted(&old, 0), counted(&new, 1_000_000)));
        assert_eq!(merged_by_id(&old, &new), [wanted.clone(), wanted], "{old:?} {new:?}");
    }
}

#[test]
fn by_id_compares_each_of_many_ids_only_a_few_times() {
    let (old, new): (Vec<u32>, Vec<u32>) = ((0..50_000).collect(), (25_000..75_000).collect());
    COMPARISONS.set(0);
    let [items, values] = merged_by_id(&old, &new);
    // Comparisons of all pairs would be more than 10^9.
    assert!(COMPARISONS.get() < 1_000_000, "{}", COMPARISONS.get());
    assert_eq!((items.len(), items[25_000]["text"].as_u64()), (75_000, Some(1_000_000)));
    assert_eq!(items, values);
}
