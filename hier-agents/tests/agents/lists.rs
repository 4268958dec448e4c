//! The values of agents' states, and the schemas of messages.

use hier_agents::prelude::*;
use hier_agents::{Content, Part, TodoList, schema_of};
use hier_core::message::ToolCall;
use proptest::collection::vec;
use proptest::prelude::{any, prop_assert, prop_assert_eq, proptest};
use serde_json::json;

proptest! {
    #[test]
    fn todo_list_merges_equally_at_any_length(items in vec((0..40_u8, any::<bool>()), 0..120)) {
        let (mut list, mut known) = (TodoList::new(), Vec::<(String, bool)>::new());
        for (item, done) in items {
            let item = item.to_string();
            list.set(item.clone(), done);
            match known.iter_mut().find(|(other, _)| *other == item) {
                Some(old) => old.1 = done,
                None => known.push((item, done)),
            }
            let received: Vec<_> = list.iter().map(|(item, done)| (item.to_owned(), done)).collect();
            prop_assert_eq!(&received, &known);
            prop_assert_eq!(list.open(), known.iter().filter(|(_, done)| !done).count());
            prop_assert!(known.iter().all(|(item, done)| list.get(item) == Some(*done)));
        }
    }
}

#[test]
fn schema_describes_serialized_messages() {
    let schema = schema_of::<Message>();
    let properties = &schema["properties"];
    let call = ToolCall::new("order", json!({ "number": 17 }));
    let image = Content::Parts(vec![Part::text("what is this?"), Part::image("https://example.com/a.png")]);
    for message in [
        Message::system("be brief"),
        Message::user(image),
        Message::tool(&call, "order 17"),
        Message::calls("I look it up.", [call]),
        Message::remove("m1"),
    ] {
        let written = serde_json::to_value(message).expect("JSON");
        assert!(properties["role"]["enum"].as_array().expect("roles").contains(&written["role"]), "{written}");
        for name in written.as_object().expect("an object").keys() {
            assert!(properties[name].is_object(), "{name}: {schema}");
        }
    }
    assert_eq!(schema_of::<Messages>()["type"], "array");
}
