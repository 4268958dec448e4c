//! Any crate of a program may switch on features of serde_json: what hier stores must not depend on them.

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use hier_core::checkpoint::codec::{decode, decode_json, encode, to_json};
    use hier_core::checkpoint::{Checkpointer, MemorySaver};
    use hier_core::prelude::*;
    use hier_core::Result;
    use serde_json::{Map, Number, Value, json};

    /// The features are on: the text of a number is kept, and so is the order of an object.
    #[test]
    fn arbitrary_precision_is_enabled() {
        let number: Value = serde_json::from_str("1.10").unwrap();
        assert_eq!(number.to_string(), "1.10");
        assert_eq!(json!({ "b": 1, "a": 2 }).to_string(), r#"{"b":1,"a":2}"#);
    }

    #[test]
    fn numbers_are_stored_as_numbers() {
        let parse = |text: &str| serde_json::from_str::<Value>(text).unwrap();
        // The bytes are those that a program without the features writes.
        assert_eq!(encode(&parse("5")).unwrap(), encode(&5_u8).unwrap());
        assert_eq!(encode(&parse("-70000")).unwrap(), encode(&-70_000_i32).unwrap());
        assert_eq!(encode(&parse("1.5")).unwrap(), encode(&1.5_f64).unwrap());
        assert_eq!(encode(&parse("18446744073709551615")).unwrap(), encode(&u64::MAX).unwrap());
        assert_eq!(encode(&Number::from_u128(u128::MAX).unwrap()).unwrap(), encode(&u128::MAX).unwrap());
        for text in ["5", "-5", "0.1", "18446744073709551615", "[1,2.5]", r#"{"a":1,"b":[-1]}"#] {
            let bytes = encode(&parse(text)).unwrap();
            assert_eq!(decode::<Value>(&bytes).unwrap().to_string(), text);
            assert_eq!(decode_json(&bytes).unwrap().to_string(), text);
        }
        let huge = parse("340282366920938463463374607431768211455");
        assert_eq!(decode::<u128>(&encode(&huge).unwrap()).unwrap(), u128::MAX);
        let error = encode(&json!([parse("0.1234567890123456789012345")])).unwrap_err().to_string();
        assert!(error.contains("the number 0.1234567890123456789012345 cannot be stored exactly"), "{error}");
    }

    #[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
    struct Case {
        value: Value,
        untagged: Option<Untagged>,
        #[reducer(append)]
        log: Vec<Value>,
    }

    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    #[serde(untagged)]
    enum Untagged {
        Number { number: Number, float: f64 },
        Text(String),
    }

    static RUNS: AtomicUsize = AtomicUsize::new(0);

    async fn work(case: &Case, run: &Run) -> Result<CaseUpdate> {
        let runs = RUNS.fetch_add(1, Ordering::Relaxed) + 1;
        let step = run.step_for("step", &case.value, async |_| Ok(runs)).await?;
        Ok(Case::update().log([json!([runs, step])]))
    }

    async fn ask(run: &Run) -> Result<CaseUpdate> {
        let answer: Value = run.interrupt(&json!({ "number": 1.5 })).await?;
        Ok(Case::update().log([answer]))
    }

    graph! { Work<Case> = Graph { nodes: [work { cache: 1m }, ask], edges: [START >> work >> ask >> END] } }

    fn ordered(entries: impl IntoIterator<Item = (String, Value)>) -> Value {
        Value::Object(Map::from_iter(entries))
    }

    #[tokio::test(flavor = "current_thread")]
    async fn thread_and_cache_keys_keep_numbers() {
        let saver = MemorySaver::new();
        let graph = Work::compile().checkpointer(saver.clone());
        let entries: Vec<_> = (0..20).map(|at| (format!("k{at}"), json!({ "b": at, "a": 1.25 }))).collect();
        let untagged = Some(Untagged::Number { number: 7.into(), float: 0.5 });
        let forwards = Case { value: ordered(entries.clone()), untagged: untagged.clone(), ..Case::default() };
        let backwards = Case { value: ordered(entries.into_iter().rev()), untagged, ..Case::default() };
        assert_eq!(forwards.value, backwards.value);
        for (thread, input) in [("a", &forwards), ("b", &backwards)] {
            let config = Config::new().thread(thread);
            assert!(!graph.invoke(input.clone()).config(config.clone()).await.unwrap().is_finished());
            let end = graph.invoke(Command::resume(json!({ "x": 0.1 }))).config(config.clone()).await.unwrap();
            assert_eq!(end.state().log, [json!([1, 1]), json!({ "x": 0.1 })]);
            let stored = graph.state(config).await.unwrap().values;
            assert_eq!((&stored.value, &stored.untagged), (&input.value, &input.untagged));
        }
        assert_eq!(RUNS.load(Ordering::Relaxed), 1);
        let saved = saver.get("a", "", None).await.unwrap().expect("a checkpoint");
        for (_, chain) in &saved.values {
            let shown = hier_core::checkpoint::chain_json(chain).unwrap().to_string();
            assert!(!shown.contains("private"), "{shown}");
        }
        assert_eq!(to_json(&forwards.value).unwrap(), backwards.value);
    }
}
