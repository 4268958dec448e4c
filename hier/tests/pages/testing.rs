//! The code of `docs/testing.md`.

mod agent {
    use hier::prelude::*;
    use hier::testing::{ScriptedModel, Session};
    use serde_json::json;

    graph! {
        /// Answers customers.
        pub Support<MessagesState> = Agent {
            system: "You answer customers of the shop.",
            tools: [weather],
        }
    }

    /// The weather of a city, today.
    #[tool]
    async fn weather(city: String) -> String {
        format!("sunny in {city}")
    }

    #[tokio::test]
    async fn answers_about_the_weather() {
        let model = ScriptedModel::new([
            Message::call("weather", json!({ "city": "Rome" })),
            Message::assistant("It is sunny."),
        ]);
        let mut session = Session::new(&Support::compile(), move || BaseContext::new(model.clone()));

        let run = session.say("What is the weather in Rome?").await;
        run.assert_calls(["weather"])
            .assert_called("weather", &json!({ "city": "Rome" }))
            .assert_model_calls(..=2)
            .assert_finished();
        assert_eq!(run.calls()[0].result.as_deref(), Some("sunny in Rome"));
    }
}

mod people {
    use serde_json::json;

    fn operator() {
        use hier::testing::FakeOperator;

        let operator = FakeOperator::new()
            .approve("lookup")
            .reject("refund", "not before Monday")
            .answer_text("Which year", "2026") // a question of the tool `ask_operator` that contains the text
            .answer_node("sign_off", true)
            .rule(|question| (question.value["pay"].as_u64()? < 100).then(|| json!(true)));
        let _ = operator;
    }
}

mod time {
    use std::time::Duration;

    use hier::prelude::*;
    use hier::testing::{Clock, Session};

    const WEEK: Duration = Duration::from_secs(7 * 24 * 60 * 60);

    #[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
    struct Case {
        reminded: bool,
    }

    graph! { Reminder<Case> = Graph { nodes: [remind], edges: [START >> remind >> END] } }

    async fn remind(run: &Run) -> hier::Result<CaseUpdate> {
        run.sleep(WEEK).await?;
        Ok(Case::update().reminded(true))
    }

    #[tokio::test]
    async fn reminds_after_a_week() {
        let clock = Clock::new();
        let mut session = Session::new(&Reminder::compile(), || ()).clock(&clock);
        session.run(Case::update()).await.assert_did_not_run("remind");
        clock.advance(WEEK);
        assert!(session.run(()).await.assert_finished().reminded);
    }
}

mod replay {
    use hier::checkpoint::MemorySaver;
    use hier::prelude::*;
    use hier::testing::{Replay, ScriptedModel};

    graph! { Chat<MessagesState> = Agent { system: "You are brief." } }

    async fn check_stored_threads(saver: MemorySaver) -> hier::Result<()> {
        let replay = Replay::new(&Chat::compile(), saver, |turn| {
            // A model that repeats the stored replies.
            let replies = turn.after().messages().iter().skip(turn.before.messages().len());
            let model = ScriptedModel::repeating(replies);
            move || BaseContext::new(model.clone())
        });
        let report = replay.run().await?;
        assert!(report.is_unchanged(), "{report}");
        Ok(())
    }

    #[tokio::test]
    async fn stored_thread_is_unchanged() -> hier::Result<()> {
        let saver = MemorySaver::new();
        let context = BaseContext::new(ScriptedModel::new([Message::assistant("Hello!")]));
        let chat = Chat::compile().checkpointer(saver.clone());
        let out = chat.invoke(Message::user("Hello?")).thread("1").context(context).await?;
        assert!(out.is_finished());
        check_stored_threads(saver).await
    }
}
