//! Costs of answers, and limits of them.

use std::sync::Arc;

use hier_agents::layer::{Fallback, Inherited, Limit};
use hier_agents::prelude::*;
use hier_agents::{
    AgentBuilder, AgentEnd, AgentLimit, Budget, ChatChunk, ChatModel, ChatRequest, ChatResponse, ModelError,
    ModelPrice, Prices, Subagent, SubagentPolicy, UnknownPrice, Usage, Usd,
};
use hier_core::checkpoint::MemorySaver;
use hier_core::graph::CompiledGraph;
use hier_core::{Event, async_trait};
use hier_testkit::ScriptedModel;
use serde_json::json;

use crate::support::{call, calls, finish, report};

/// Looks something up.
#[tool]
async fn lookup(order: u32) -> String {
    format!("order {order}")
}

/// Pays.
#[tool(needs_approval)]
async fn pay(amount: u32) -> String {
    format!("paid {amount}")
}

/// A dollar for each token.
fn prices() -> Prices {
    Prices::new().model("scripted", ModelPrice::new(1_000_000.0, 1_000_000.0))
}

/// An answer that costs this many dollars.
fn costing(message: Message, dollars: u64) -> Message {
    message.with_usage(Usage::new(dollars - 1, 1))
}

fn look() -> Message {
    call("lookup", json!({ "order": 1 }))
}

fn usd(dollars: f64) -> Usd {
    Usd::from_dollars(dollars)
}

fn end(dollars: f64) -> AgentEnd {
    AgentEnd::Limit(AgentLimit::Cost(usd(dollars)))
}

fn desk(limit: Limit) -> AgentBuilder<BaseState> {
    AgentBuilder::new("desk").tool(lookup::TOOL).tool(pay::TOOL).layer(limit)
}

async fn asked(
    desk: &CompiledGraph<BaseState, BaseContext>,
    context: BaseContext,
) -> Result<Outcome<BaseState>, RunError> {
    desk.invoke(Message::user("?")).thread("t").context(context).await
}

#[tokio::test]
async fn agent_ends_at_its_limit_of_cost() {
    let model = ScriptedModel::new([costing(look(), 3), costing(look(), 3), look()]);
    let context = BaseContext::new(model.clone()).prices(prices());
    let out = asked(&desk(Limit::new().cost(5.0)).compile().unwrap(), context).await.unwrap();
    assert_eq!((out.ending(), model.call_count()), (Some(&end(5.0)), 2));
    assert_eq!(out.text(), "No answer: the agent ended early: the run reached its cost limit ($5.00).");
    let costs: Vec<_> = out.state().messages.iter().filter_map(Message::usage).map(|usage| usage.cost).collect();
    assert_eq!(costs, [Some(usd(3.0)); 2]);
}

#[tokio::test]
async fn costs_of_a_run_survive_a_question_in_another_process() {
    let saver = MemorySaver::new();
    let desk = || desk(Limit::new().cost(4.0)).compile().unwrap().checkpointer(saver.clone());
    let model = ScriptedModel::new([costing(call("pay", json!({"amount": 7})), 3), costing(look(), 2), look()]);
    let context = || BaseContext::new(model.clone()).prices(prices());
    assert!(!asked(&desk(), context()).await.unwrap().is_finished());
    let out =
        desk().invoke(Command::resume(hier_agents::Approval::Approve)).thread("t").context(context()).await.unwrap();
    assert_eq!((out.ending(), model.call_count()), (Some(&end(4.0)), 2));
    assert_eq!(out.state().layer_counts.get("desk/0:Limit cost"), usd(5.0).picodollars());
    // A new input starts at 0.
    let model = ScriptedModel::new([costing(Message::assistant("Hello."), 1)]);
    let out = asked(&desk(), BaseContext::new(model).prices(prices())).await.unwrap();
    assert_eq!(out.ending(), Some(&AgentEnd::Text));
}

#[tokio::test]
async fn unknown_model_is_an_error_only_if_a_limit_needs_its_price() {
    let answer = || costing(Message::assistant("Hello."), 2);
    for prices in [None, Some(Prices::new()), Some(Prices::published())] {
        let context = |model: &ScriptedModel| BaseContext {
            prices: prices.clone().map(Arc::new),
            ..BaseContext::new(model.clone())
        };
        let model = ScriptedModel::new([answer()]);
        let out = asked(&desk(Limit::new().tokens(100)).compile().unwrap(), context(&model)).await.unwrap();
        assert_eq!(out.state().messages.last().unwrap().usage(), Some(Usage::new(1, 1)));
        let limited = [
            (Limit::new().cost(100.0), context(&model)),
            (Limit::new().tokens(100), context(&model).budget(Budget::new().cost(100.0))),
        ];
        for (limit, context) in limited {
            let error = asked(&desk(limit).compile().unwrap(), context).await.unwrap_err();
            assert_eq!(UnknownPrice::find_in(&error).map(UnknownPrice::model), Some("scripted"), "{error}");
        }
        assert_eq!(model.call_count(), 1, "nothing is sent to a model without a price");
    }
}

#[tokio::test]
async fn other_model_has_its_own_price() {
    struct Shop {
        base: BaseContext,
        cheap: ScriptedModel,
    }
    impl AsRef<BaseContext> for Shop {
        fn as_ref(&self) -> &BaseContext {
            &self.base
        }
    }
    let desk = AgentBuilder::<BaseState, Shop>::new("desk")
        .layer(Limit::new().cost(5.0))
        .layer(Fallback::<Shop>::new(|shop| &shop.cheap));
    let desk = desk.compile().unwrap();
    let shop = |prices: Prices| Shop {
        base: BaseContext::new(ScriptedModel::new([])).prices(prices),
        cheap: ScriptedModel::new([costing(Message::assistant("Hello."), 4)]).named("cheap"),
    };
    let both = prices().model("cheap", ModelPrice::new(500_000.0, 500_000.0));
    let out = desk.invoke(Message::user("?")).context(shop(both)).await.unwrap();
    assert_eq!(out.state().layer_counts.get("desk/0:Limit cost"), usd(2.0).picodollars());
    let error = desk.invoke(Message::user("?")).context(shop(prices())).await.unwrap_err();
    assert_eq!(UnknownPrice::find_in(&error).map(UnknownPrice::model), Some("cheap"), "{error}");
}

#[tokio::test]
async fn cost_that_the_model_reports_takes_precedence() {
    let reported = Usage::new(10, 10).with_cost(usd(0.5));
    let model = ScriptedModel::new([Message::assistant("Hello.").with_usage(reported)]);
    let budget = Arc::new(Budget::new());
    let context = BaseContext { budget: Some(budget.clone()), ..BaseContext::new(model).prices(prices()) };
    let out = asked(&desk(Limit::new().cost(5.0)).compile().unwrap(), context).await.unwrap();
    assert_eq!(out.state().messages.last().unwrap().usage(), Some(reported));
    assert_eq!((budget.spent().cost, budget.spent().tokens), (usd(0.5), 20));
}

/// A model that claims to report its costs.
struct Reporting(ScriptedModel);

#[async_trait]
impl ChatModel for Reporting {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn reports_cost(&self) -> bool {
        true
    }

    async fn chat(&self, request: ChatRequest) -> Result<ChatResponse, ModelError> {
        self.0.chat(request).await
    }
}

#[tokio::test]
async fn model_that_reports_its_costs_needs_no_price() {
    let costly = || look().with_usage(Usage::new(10, 10).with_cost(usd(3.0)));
    for prices in [None, Some(Arc::new(Prices::new()))] {
        let model = ScriptedModel::new([costly(), costly(), look()]);
        let context = BaseContext { prices: prices.clone(), ..BaseContext::new(Reporting(model.clone())) };
        let out = asked(&desk(Limit::new().cost(5.0)).compile().unwrap(), context).await.unwrap();
        assert_eq!((out.ending(), model.call_count()), (Some(&end(5.0)), 2));

        let model = ScriptedModel::new([costly(), costly(), look()]);
        let context = BaseContext { prices, ..BaseContext::new(Reporting(model.clone())) };
        let out = asked(&desk(Limit::new()).compile().unwrap(), context.budget(Budget::new().cost(5.0))).await.unwrap();
        assert!(out.text().contains("the budget of the whole run is used up (cost: $5.00)"), "{}", out.text());
    }
    // An answer without its cost has the price of the table, if there is one.
    let model = ScriptedModel::new([costing(look(), 6), look()]);
    let context = BaseContext::new(Arc::new(Reporting(model))).prices(prices());
    let out = asked(&desk(Limit::new().cost(5.0)).compile().unwrap(), context).await.unwrap();
    assert_eq!(out.state().layer_counts.get("desk/0:Limit cost"), usd(6.0).picodollars());
}

#[tokio::test]
async fn amounts_that_are_not_money_are_refused() {
    for wrong in [-0.01, f64::NAN, f64::INFINITY, 1e9] {
        let error = desk(Limit::new().cost(wrong)).compile().unwrap_err().to_string();
        assert!(error.contains(&format!("`Limit` has `cost: {wrong}`: give it US dollars, such as 2.00")), "{error}");
    }
    // A budget refuses to spend.
    let model = ScriptedModel::new([look()]);
    let context = BaseContext::new(model.clone()).prices(prices()).budget(Budget::new().cost(-1.0));
    let out = asked(&desk(Limit::new().cost(1.0)).compile().unwrap(), context).await.unwrap();
    assert!(out.text().contains("the budget of the whole run is used up (cost: $0.00)"), "{}", out.text());
    assert_eq!(model.call_count(), 0);
}

#[tokio::test]
async fn parallel_agents_share_an_inherited_limit() {
    let clerk =
        Subagent::new(&AgentBuilder::<BaseState>::react("clerk").compile().unwrap()).policy(SubagentPolicy::new());
    let desk = AgentBuilder::<BaseState>::react("desk").subagent(clerk).parallel_subagents(true);
    let desk = desk.layer(Inherited::new(Limit::new().cost(6.0))).compile_as_root().unwrap();
    let three =
        calls([("clerk", json!({"task": "a"})), ("clerk", json!({"task": "b"})), ("clerk", json!({"task": "c"}))]);
    let reports = ["a", "b", "c"].map(|text| costing(report(text), 2));
    let model = ScriptedModel::new([costing(three, 2)].into_iter().chain(reports).chain([finish("never")]));
    let context = BaseContext::new(model.clone()).prices(prices());
    let out = desk.invoke(BaseState::update()).context(context).await.unwrap();
    assert_eq!(out.ending(), Some(&end(6.0)));
    let spent = out.state().layer_counts.get("desk/0:Limit cost");
    assert_eq!(spent, usd(2.0).picodollars() * u64::try_from(model.call_count()).unwrap());
    assert!(model.call_count() < 5, "the desk is not asked again");
}

#[tokio::test]
async fn budget_divides_money_and_leaves_a_tenth_to_report() {
    let clerk = AgentBuilder::<BaseState>::react("clerk").tool(lookup::TOOL).compile().unwrap();
    let clerk = Subagent::new(&clerk).policy(SubagentPolicy::new());
    let desk = AgentBuilder::<BaseState>::react("desk").subagent(clerk).parallel_subagents(true);
    let desk = desk.compile_as_root().unwrap();
    let model = ScriptedModel::reacting(|request| {
        let is_desk = request.tools.iter().any(|tool| tool.name == "clerk");
        let two = calls([("clerk", json!({"task": "a"})), ("clerk", json!({"task": "b"}))]);
        let answer = match (is_desk, request.messages.iter().any(|message| !message.tool_calls().is_empty())) {
            (true, false) => two,
            (true, true) => finish("done"),
            (false, _) => look(),
        };
        costing(answer, 2)
    });
    let budget = Arc::new(Budget::new().cost(42.0));
    let context = BaseContext { budget: Some(budget.clone()), ..BaseContext::new(model.clone()).prices(prices()) };
    let out = desk.invoke(BaseState::update()).context(context).await.unwrap();
    assert_eq!(out.text(), "done");
    // Two for the desk, 18 for each clerk, two for the desk.
    assert_eq!(budget.spent().cost, usd(40.0));
    let lengths: Vec<_> = model.requests().iter().map(|request| request.options.max_tokens).collect();
    assert_eq!(lengths[..2], [Some(42), Some(18)], "requests limit their answers to what the money buys");
}

#[tokio::test]
async fn streams_have_the_costs_of_answers() {
    // With a layer, the end of the stream is sent after it.
    for desk in [AgentBuilder::<BaseState>::new("desk"), desk(Limit::new().cost(5.0))] {
        let model = ScriptedModel::new([costing(Message::assistant("Hello."), 3)]);
        let desk = desk.compile().unwrap();
        let context = BaseContext::new(model).prices(prices());
        let mut events = desk.stream(Message::user("?")).context(context).modes([StreamMode::Messages]);
        let mut costs = Vec::new();
        while let Some(event) = events.next().await {
            let Event::Message(spoken) = event.unwrap() else { panic!("only messages were asked for") };
            if let ChatChunk::Done(response) = spoken.chunk {
                costs.extend(response.message.usage().and_then(|usage| usage.cost));
            }
        }
        assert_eq!(costs, [usd(3.0)]);
    }
}
