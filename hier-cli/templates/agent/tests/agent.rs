use {{crate}}::{Assistant, FakeModel};
use hier::prelude::*;
use hier::testing::{ScriptedModel, Session};
use serde_json::json;

hier::testing::lock!(Assistant); // for `hier lock` and `hier check`

#[tokio::test]
async fn agent_looks_up_the_weather() {
    let model = ScriptedModel::new([
        Message::call("weather", json!({ "city": "Rome" })),
        Message::assistant("It is sunny."),
    ]);
    let mut session = Session::new(&Assistant::compile(), move || BaseContext::new(model.clone()));
    let run = session.say("What is the weather in Rome?").await;
    run.assert_calls(["weather"]).assert_model_calls(..=2).assert_finished();
    assert_eq!(run.calls()[0].result.as_deref(), Some("sunny in Rome"));
}

#[tokio::test]
async fn fake_model_answers_without_a_key() {
    let mut session = Session::new(&Assistant::compile(), || BaseContext::new(FakeModel));
    let run = session.say("What is the weather in Rome?").await;
    assert_eq!(run.assert_finished().text(), "It is sunny in Rome.");
    assert_eq!(session.say("Thanks!").await.assert_finished().text(), "You said: Thanks!");
}
