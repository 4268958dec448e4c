//! A bot with tools of which one needs the approval of a person.

use hier_agents::Approval;
use hier_agents::prelude::*;
use hier_core::Result;
use hier_core::checkpoint::MemorySaver;
use hier_core::state::wants_tools;
use hier_testkit::ScriptedModel;
use serde_json::json;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Chat {
    #[reducer(messages)]
    messages: Messages,
    #[reducer(append)]
    refunds: Vec<u32>,
}

graph! {
    Support<Chat, BaseContext> = Graph {
        nodes: [think, act = tools![lookup, refund]],
        edges: [START >> think >> if wants_tools { act } else { END }, act >> think],
    }
}

async fn think(state: &Chat, run: &Run<BaseContext>) -> Result<ChatUpdate> {
    let asked = run.model()?.ask(&state.messages).system("You help customers of the shop.");
    Ok(Chat::update().messages(asked.tools(tools![lookup, refund]).await?.message))
}

/// Looks an order up.
#[tool]
async fn lookup(order: u32) -> String {
    format!("order {order}: delivered broken")
}

/// Refunds an order.
#[tool(needs_approval)]
async fn refund(order: u32) -> Command<Chat> {
    Command::update(Chat::update().refunds(order))
}

#[tokio::test]
async fn refund_is_approved() -> Result<()> {
    let call = |tool: &str| Message::call(tool, json!({ "order": 7 }));
    let model = ScriptedModel::new([call("lookup"), call("refund"), Message::assistant("Your money is on its way.")]);
    let bot = Support::compile().checkpointer(MemorySaver::new());
    let (thread, context) = (Config::new().thread("customer-1"), BaseContext::new(model));
    let question = Chat::update().messages(Message::user("My order 7 is broken!"));
    let asked = bot.invoke(question).config(thread.clone()).context(context.clone()).await?;
    assert!(matches!(&asked, Outcome::Interrupted(asked) if asked.questions.len() == 1));
    let out = bot.invoke(Command::resume(Approval::Approve)).config(thread).context(context).await?;
    assert_eq!(out.state().refunds, [7]);
    Ok(())
}
