//! The code of `docs/first-agent.md`. The module has the crate's name on that page.

mod shop {
    use hier::agent::{Json, ToolErrors};
    use hier::prelude::*;
    use hier::store::StoreExt;

    #[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
    pub struct Chat {
        #[state(flatten)]
        pub base: BaseState, // read as `chat.base.messages`, write as `Chat::update().messages(…)`
        #[reducer(append)]
        pub refunds: Vec<Refund>,
    }

    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    pub struct Refund {
        pub order: String,
        pub amount: f64,
    }

    #[derive(Clone, Debug, Serialize, Deserialize)]
    pub struct Order {
        pub item: String,
        pub price: f64,
    }

    graph! {
        /// Answers customers of the shop.
        pub Support<Chat> = Agent {
            system: "You answer customers of the shop.",
            tools: [lookup, refund],
            tool_errors: ToolErrors::Tell, // send errors of tools to the model; by default they end the run
        }
    }

    /// Looks up an order by its number.
    #[tool]
    async fn lookup(
        /// The number of the order.
        order: String,
        run: &Run, // not visible to the model
    ) -> hier::Result<Json<Order>> {
        let found: Option<Order> = run.store()?.get_as(["orders"], &order).await?;
        Ok(Json(found.ok_or("no such order")?))
    }

    /// Pays a customer back.
    #[tool(needs_approval)]
    async fn refund(order: String, amount: f64) -> Command<Chat> {
        Command::update(Chat::update().refunds(Refund { order, amount })) // the model receives a confirmation
    }
}

mod main_file {
    use super::shop;

    use hier::agent::ApprovalRequest;
    use hier::prelude::*;
    use hier::store::{SqliteStore, StoreExt};
    use shop::{Order, Support};

    #[tokio::main]
    async fn main() -> hier::Result<()> {
        let store = SqliteStore::open("shop.db").await?;
        store.put(["orders"], "A1", &Order { item: "kettle".to_owned(), price: 30.0 }).await?;
        let support = Support::compile().checkpointer(Sqlite::open("shop.db").await?).store(store);
        let context = BaseContext::new(Model::parse("anthropic:claude-sonnet-4-5")?); // reads ANTHROPIC_API_KEY

        // An earlier process may have left questions open.
        let mut asked = support.state("customer-1").await?.questions;
        for line in std::io::stdin().lines() {
            let line = line?;
            let request = match asked.first() {
                None => support.invoke(Message::user(line)),
                Some(question) if line == "yes" => {
                    support.invoke(Command::answers([(&question.id, Approval::Approve)]))
                }
                Some(question) => support.invoke(Command::answers([(&question.id, Approval::Reject { reason: line })])),
            };
            let out = request.thread("customer-1").context(context.clone()).await?;
            println!("{}", out.text());
            asked = match out {
                Outcome::Interrupted(asked) => asked.questions,
                Outcome::Finished(_) | Outcome::Stopped(_) => Vec::new(),
            };
            for question in &asked {
                let ApprovalRequest { call, .. } = question.parse()?;
                println!("{} {}? (yes, or a reason against it)", call.name, call.args);
            }
        }
        Ok(())
    }
}

mod test_file {
    use super::shop;

    use hier::prelude::*;
    use hier::store::{MemoryStore, StoreExt, StoreOptions};
    use hier::testing::{FakeOperator, ScriptedModel, Session};
    use serde_json::json;
    use shop::Support;

    #[tokio::test]
    async fn refunds_once() -> hier::Result<()> {
        let store = MemoryStore::new(StoreOptions::default());
        store.put(["orders"], "A1", &json!({ "item": "kettle", "price": 30.0 })).await?;
        let model = ScriptedModel::new([
            Message::call("lookup", json!({ "order": "A1" })),
            Message::call("refund", json!({ "order": "A1", "amount": 30.0 })),
            Message::assistant("You have your money back."),
            Message::assistant("You are welcome."),
        ]);
        let operator = FakeOperator::new().approve("refund");
        let support = Support::compile().store(store);
        let mut session = Session::new(&support, move || BaseContext::new(model.clone())).operator(operator);

        let run = session.say("My kettle A1 is broken.").await;
        run.assert_calls(["lookup", "refund"]).assert_model_calls(..=3).assert_tokens(..10_000);
        assert_eq!(run.assert_finished().refunds.len(), 1);
        session.say("Thank you.").await.assert_model_calls(..=1).assert_not_called("refund").assert_finished();
        Ok(())
    }
}
