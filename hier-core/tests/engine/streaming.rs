//! Streams: events, their order and form, and slow consumers.

use std::sync::Arc;

use hier_core::Event;
use hier_core::prelude::*;
use hier_core::runs::{LogEvent, TaskEvent, TaskPhase};
use hier_core::state::Overwrite;
use serde_json::{Value, json};
use tokio::sync::Notify;

mod ends;

#[derive(State, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Trace {
    #[reducer(append)]
    log: Vec<String>,
    x: Option<i64>,
}

#[allow(clippy::needless_pass_by_value)] // shorter where it is called
fn says(text: impl ToString) -> TraceUpdate {
    Trace::update().log([text.to_string()])
}

async fn node(run: &Run) -> TraceUpdate {
    says(run.node())
}

async fn emits(run: &Run) -> TraceUpdate {
    run.emit(json!({ "from": run.node() }));
    says(run.node())
}

async fn silent() {}

const ALL: [StreamMode; 4] = [StreamMode::Values, StreamMode::Updates, StreamMode::Custom, StreamMode::Tasks];

type Plain = hier_core::graph::CompiledGraph<Trace>;

async fn events(graph: &Plain, config: Config, modes: &[StreamMode]) -> Vec<Event<Trace>> {
    let mut stream = graph.stream(Trace::update().x(1)).config(config).modes(modes.iter().copied());
    let mut events = Vec::new();
    while let Some(event) = stream.next().await {
        events.push(event.expect("the run does not fail"));
    }
    events
}

/// An event in short: its mode, and the node or the log.
fn short(event: &Event<Trace>) -> String {
    match event {
        Event::Values(state) => format!("values {}", state.log.join("+")),
        Event::Updates(update) => format!("updates {}", update.node),
        Event::Custom { node, .. } => format!("custom {node}"),
        Event::Task(TaskEvent { node, phase: TaskPhase::Started { .. }, .. }) => format!("start {node}"),
        Event::Task(task) => format!("end {}", task.node),
        Event::Debug(debug) => format!("debug {} {}", debug.task.phase.name(), debug.task.node),
        Event::Nested(nested) => {
            let levels: Vec<&str> = nested.namespace.iter().filter_map(|level| level.split(':').next()).collect();
            format!("{} {}", levels.join("|"), nested.event.mode())
        }
        other => format!("{other:?}"),
    }
}

fn shorts(events: &[Event<Trace>]) -> Vec<String> {
    events.iter().map(short).collect()
}

mod order {
    use super::*;

    graph! { Line<Trace> = Graph { nodes: [a = emits, b = node, c = silent], edges: [START >> a >> b >> c >> END] } }

    #[tokio::test]
    async fn events_of_a_step_have_langgraphs_order() {
        let events = events(&Line::compile(), Config::default(), &ALL).await;
        let expected = [
            "values ",
            "start a",
            "custom a",
            "updates a",
            "end a",
            "values a",
            "start b",
            "updates b",
            "end b",
            "values a+b",
            "start c",
            "updates c",
            "end c",
        ];
        assert_eq!(shorts(&events), expected, "a step that writes nothing has no values");
    }

    #[tokio::test]
    async fn modes_are_independent() {
        let graph = Line::compile();
        let all = shorts(&events(&graph, Config::default(), &ALL).await);
        let of = |kinds: &[&str]| {
            let is = |event: &&String| kinds.iter().any(|kind| event.starts_with(kind));
            all.iter().filter(is).cloned().collect::<Vec<_>>()
        };
        for (mode, kinds) in [
            (StreamMode::Values, &["values"][..]),
            (StreamMode::Updates, &["updates"]),
            (StreamMode::Custom, &["custom"]),
            (StreamMode::Tasks, &["start", "end"]),
        ] {
            assert_eq!(shorts(&events(&graph, Config::default(), &[mode]).await), of(kinds));
        }
        assert!(events(&graph, Config::default(), &[]).await.is_empty());
    }

    #[tokio::test]
    async fn debug_events_have_step_and_time() {
        let events = events(&Line::compile(), Config::default(), &[StreamMode::Debug]).await;
        let expected = ["task a", "task_result a", "task b", "task_result b", "task c", "task_result c"];
        assert_eq!(shorts(&events), expected.map(|text| format!("debug {text}")));
        let json: Vec<Value> = events.iter().map(|event| event.data().unwrap()).collect();
        assert_eq!(json.iter().map(|data| data["step"].as_i64().unwrap()).collect::<Vec<_>>(), [1, 1, 2, 2, 3, 3]);
        assert!(json.iter().all(|data| data["timestamp"].as_u64().is_some_and(|time| time > 1_700_000_000_000)));
        assert_eq!(json[0]["payload"]["triggers"], json!(["branch:to:a"]));
    }

    graph! { Wide<Trace> = Graph {
        nodes: [a = emits, b = emits, c = silent, z = node],
        edges: [START >> [a, b, c] >> z >> END],
    } }

    #[tokio::test]
    async fn in_a_step_of_several_tasks_all_start_first_and_values_come_last() {
        let events = shorts(&events(&Wide::compile(), Config::default(), &ALL).await);
        assert_eq!(events[..4], ["values ", "start a", "start b", "start c"].map(str::to_owned));
        assert_eq!(events[12], "values a+b");
        let place = |event: &str| events.iter().position(|other| other == event).unwrap();
        for node in ["a", "b"] {
            let [custom, update, end] = ["custom", "updates", "end"].map(|kind| place(&format!("{kind} {node}")));
            assert!(custom < update && update < end, "{events:?}");
        }
        assert_eq!(events[13..], ["start z", "updates z", "end z", "values a+b+z"].map(str::to_owned));
    }
}

mod forms {
    use super::*;

    async fn item(Sent(n): Sent<u8>) -> TraceUpdate {
        says(n).x(5)
    }

    fn items(_: &Trace) -> [u8; 1] {
        [7]
    }

    async fn over() -> TraceUpdate {
        Trace::update().log(Overwrite(vec!["over".to_owned()]))
    }

    graph! { Forms<Trace> = Graph {
        nodes: [silent, item, over],
        edges: [START >> silent >> for n in items { item(n) }, item >> over >> END],
    } }

    #[tokio::test]
    async fn events_have_langgraphs_json() {
        let events = events(&Forms::compile(), Config::default(), &ALL).await;
        let json: Vec<Value> = events.iter().map(|event| event.to_json().unwrap()).collect();
        let ids: Vec<&Value> = json.iter().filter_map(|event| event["data"].get("id")).collect();
        assert!(ids.chunks(2).all(|pair| pair[0] == pair[1]) && ids.len() == 6, "start and end have one id");
        let event = |mode: &str, data: Value| json!({ "type": mode, "ns": [], "data": data });
        let started = |at: usize, name: &str, trigger: &str, input: Value| json!({ "id": ids[at], "name": name, "input": input, "triggers": [trigger] });
        let ended = |at: usize, name: &str, result: Value| json!({ "id": ids[at], "name": name, "error": null, "result": result, "interrupts": [] });
        let expected = [
            event("values", json!({ "log": [], "x": 1 })),
            event("tasks", started(0, "silent", "branch:to:silent", json!({ "log": [], "x": 1 }))),
            event("updates", json!({ "silent": null })),
            event("tasks", ended(0, "silent", json!({}))),
            event("tasks", started(2, "item", "__pregel_push", json!(7))),
            event("updates", json!({ "item": { "log": ["7"], "x": 5 } })),
            event("tasks", ended(2, "item", json!({ "log": ["7"], "x": 5 }))),
            event("values", json!({ "log": ["7"], "x": 5 })),
            event("tasks", started(4, "over", "branch:to:over", json!({ "log": ["7"], "x": 5 }))),
            event("updates", json!({ "over": { "log": { "$overwrite": ["over"] } } })),
            event("tasks", ended(4, "over", json!({ "log": { "$overwrite": ["over"] } }))),
            event("values", json!({ "log": ["over"], "x": 5 })),
        ];
        for (got, expected) in json.iter().zip(&expected) {
            assert_eq!(got, expected);
        }
        assert_eq!(json.len(), expected.len());
    }

    #[tokio::test]
    async fn typed_events_have_the_graphs_types() {
        let events = events(&Forms::compile(), Config::default(), &[StreamMode::Values, StreamMode::Updates]).await;
        let Some(Event::Values(state)) = events.last() else { panic!("{events:?}") };
        assert_eq!(**state, Trace { log: vec!["over".to_owned()], x: Some(5) });
    }
}

mod nested {
    use super::*;

    graph! { Leaf<Trace> = Graph { nodes: [s1 = emits, s2 = node], edges: [START >> s1 >> s2 >> END] } }
    graph! { Middle<Trace> = Graph { nodes: [m = node, Leaf], edges: [START >> m >> Leaf >> END] } }
    graph! { Root<Trace> = Graph { nodes: [p = node, Middle], edges: [START >> p >> Middle >> END] } }

    #[tokio::test]
    async fn subgraph_events_are_streamed_on_request() {
        let modes = [StreamMode::Updates, StreamMode::Custom];
        let received = shorts(&events(&Root::compile(), Config::default(), &modes).await);
        assert_eq!(received, ["updates p", "updates Middle"]);
        let received = shorts(&events(&Root::compile(), Config::new().stream_subgraphs(true), &modes).await);
        let expected = [
            "updates p",
            "Middle updates",
            "Middle|Leaf custom",
            "Middle|Leaf updates",
            "Middle|Leaf updates",
            "Middle updates",
            "updates Middle",
        ];
        assert_eq!(received, expected);
    }

    #[tokio::test]
    async fn namespaces_are_made_of_nodes_and_task_ids() {
        let config = Config::new().stream_subgraphs(true);
        let events = events(&Root::compile(), config, &[StreamMode::Tasks]).await;
        let id = |node: &str| {
            events.iter().find_map(|event| match event {
                Event::Task(task) if task.node == node => Some(task.id.to_string()),
                Event::Nested(nested) => match &nested.event {
                    LogEvent::Task(task) if task.node == node => Some(task.id.to_string()),
                    _ => None,
                },
                _ => None,
            })
        };
        let level = |node: &str| format!("{node}:{}", id(node).unwrap());
        let deepest = events.iter().find_map(|event| match event {
            Event::Nested(nested) if nested.event.data()["name"] == "s1" => Some(nested.namespace.clone()),
            _ => None,
        });
        assert_eq!(deepest.unwrap(), [level("Middle"), level("Leaf")]);
    }

    #[tokio::test]
    async fn subgraph_values_start_with_its_input() {
        let config = Config::new().stream_subgraphs(true);
        let events = events(&Middle::compile(), config, &[StreamMode::Values]).await;
        let logs: Vec<(bool, Value)> = events
            .iter()
            .map(|event| (matches!(event, Event::Nested(_)), event.data().unwrap()["log"].clone()))
            .collect();
        let expected = [
            (false, json!([])),
            (false, json!(["m"])),
            (true, json!(["m"])),
            (true, json!(["m", "s1"])),
            (true, json!(["m", "s1", "s2"])),
            (false, json!(["m", "s1", "s2"])),
        ];
        assert_eq!(logs, expected);
    }
}

mod consumers {
    use super::*;

    async fn last(run: &Run<Arc<Notify>>) -> TraceUpdate {
        run.context().notify_one();
        says("last")
    }

    async fn talks(run: &Run<Arc<Notify>>) -> TraceUpdate {
        (0..100).for_each(|n| run.emit(n));
        says("talks")
    }

    graph! { Talks<Trace, Arc<Notify>> = Graph { nodes: [talks, last], edges: [START >> talks >> last >> END] } }

    #[tokio::test]
    async fn slow_consumer_blocks_nothing_and_sees_its_lag() {
        let done = Arc::new(Notify::new());
        let config = Config::new().stream_capacity(10);
        let mut events = Talks::compile()
            .stream(Trace::update())
            .config(config)
            .context(done.clone())
            .modes([StreamMode::Custom, StreamMode::Updates])
            .start();
        done.notified().await; // the run ends although its events are not read
        let mut received = Vec::new();
        let mut missed = 0;
        while let Some(event) = events.next().await {
            match event.unwrap() {
                Event::Lagged(count) => missed += count,
                Event::Custom { value, .. } => received.push(value),
                Event::Updates(update) => received.push(json!(update.node)),
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(missed + received.len(), 102, "every event was delivered or counted");
        assert!(missed >= 90 - 2 && received.len() <= 12, "{missed} missed, {received:?}");
        assert_eq!(received[received.len() - 2..], [json!("talks"), json!("last")], "the newest are kept");
        assert!(events.outcome().await.unwrap().is_finished());
    }

    const HUNDRED_KB: usize = 100 << 10;
    /// The bound of a stream's pending bytes, plus the event that exceeds it.
    const BOUND: usize = (64 << 20) + 20 * HUNDRED_KB;

    async fn grows(run: &Run<Arc<Notify>>) -> TraceUpdate {
        run.emit("x".repeat(20 * HUNDRED_KB));
        says("x".repeat(HUNDRED_KB))
    }

    fn on(state: &Trace) -> bool {
        state.log.len() < 50
    }

    graph! { Grows<Trace, Arc<Notify>> = Graph {
        nodes: [grows, last],
        edges: [START >> grows >> if on { grows } else { last }, last >> END],
    } }

    /// Returns the numbers of events, bytes and missing events for a consumer that starts after the run.
    async fn left(mode: StreamMode) -> (usize, usize, usize) {
        let done = Arc::new(Notify::new());
        let mut events = Grows::compile().stream(Trace::update()).context(done.clone()).modes([mode]).start();
        done.notified().await;
        let (mut missed, mut bytes, mut count) = (0, 0, 0);
        while let Some(event) = events.next().await {
            count += 1;
            match event.unwrap() {
                Event::Lagged(events) => (missed, count) = (missed + events, count - 1),
                Event::Values(state) => bytes += state.log.iter().map(String::len).sum::<usize>(),
                Event::Updates(_) => bytes += HUNDRED_KB,
                Event::Custom { value, .. } => bytes += value.as_str().unwrap().len(),
                other => panic!("{other:?}"),
            }
        }
        (missed, count, bytes)
    }

    #[tokio::test]
    async fn unread_events_are_bounded_in_bytes() {
        // 50 states of 0.1 MB to 5 MB, 127 MB in all; and 50 texts of 2 MB.
        for (mode, events) in [(StreamMode::Values, 51), (StreamMode::Custom, 50)] {
            let (missed, count, bytes) = left(mode).await;
            assert_eq!(missed + count, events, "{mode:?}: every event was delivered or counted");
            assert!((BOUND / 2..BOUND).contains(&bytes), "{mode:?}: {bytes} bytes in {count} events");
        }
        // 50 updates of 0.1 MB are not too much.
        assert_eq!(left(StreamMode::Updates).await.0, 0);
    }

    #[tokio::test]
    async fn consumer_that_keeps_up_misses_nothing() {
        let graph = Talks::compile();
        let mut events = graph.stream(Trace::update()).context(Arc::<Notify>::default()).modes([StreamMode::Custom]);
        let mut next = 0;
        while let Some(event) = events.next().await {
            let Event::Custom { node, value } = event.unwrap() else { panic!("only what is emitted") };
            assert_eq!((node.as_str(), value), ("talks", json!(next)));
            next += 1;
        }
        assert_eq!(next, 100);
    }

    #[tokio::test]
    async fn capacity_of_zero_is_refused() {
        let config = Config::new().stream_capacity(0);
        let mut events = Talks::compile()
            .stream(Trace::update())
            .config(config)
            .context(Arc::<Notify>::default())
            .modes([StreamMode::Values]);
        let first = events.next().await;
        assert!(matches!(&first, Some(Err(RunError::Config(text))) if text.contains("`stream_capacity`")), "{first:?}");
    }
}
