//! The costs of summaries, as limits count them.

use std::sync::atomic::{AtomicBool, AtomicU64};

use hier_agents::layer::{Fallback, Inherited, Limit};
use hier_agents::{Budget, ModelPrice, Prices, UnknownPrice};
use hier_core::graph::Retry;

use super::*;

/// A limit that is never reached.
fn limit() -> Limit {
    Limit::new().model_calls(1_000).tokens(1_000_000).cost(1_000.0)
}

fn chat_with(layers: impl Fn(AgentBuilder<BaseState>) -> AgentBuilder<BaseState>) -> AgentBuilder<BaseState> {
    layers(AgentBuilder::new("chat").system("You answer."))
}

fn compact() -> Compact<BaseContext> {
    Compact::new().context_tokens(1_500)
}

/// A context with prices and a new budget that only counts.
fn priced(model: &ScriptedModel) -> BaseContext {
    let prices = Prices::new().model("scripted", ModelPrice::new(3.0, 15.0));
    BaseContext::new(model.clone()).prices(prices).budget(Budget::new())
}

fn spent(context: &BaseContext) -> [u64; 3] {
    let spent = context.budget.as_ref().unwrap().spent();
    [spent.model_calls, spent.tokens, spent.cost.picodollars()]
}

/// Returns the calls, tokens and costs that the limit has counted.
fn counted(state: &BaseState) -> [u64; 3] {
    ["model_calls", "tokens", "cost"].map(|what| {
        let suffix = format!(":Limit {what}");
        state.layer_counts.iter().filter(|(key, _)| key.ends_with(&suffix)).map(|(_, count)| count).sum()
    })
}

#[tokio::test]
async fn limits_count_summaries_wherever_they_stand() {
    let chats = [
        chat_with(|chat| chat.layer(limit()).layer(compact())),
        chat_with(|chat| chat.layer(compact()).layer(limit())),
        chat_with(|chat| chat.layer(Inherited::new(limit())).layer(compact())),
    ];
    for (place, chat) in chats.into_iter().enumerate() {
        let model = provider(1_500, summing_up);
        let chat = chat.compile().unwrap().checkpointer(MemorySaver::new());
        loop {
            let asked = model.call_count();
            let context = priced(&model);
            let text = Message::user("tell me more ".repeat(20));
            let out = chat.invoke(text).thread("t").context(context.clone()).await.unwrap();
            assert_eq!(counted(out.state()), spent(&context), "order {place}");
            if model.requests()[asked..].iter().any(is_summary) {
                break;
            }
        }
    }
}

/// The summary was paid for before the crash, and the run counts it once.
#[tokio::test]
async fn limit_counts_a_recorded_summary_after_a_crash() {
    let crashes = Arc::new(AtomicBool::new(false));
    let crash = crashes.clone();
    let model = ScriptedModel::try_reacting(move |request| {
        if is_summary(request) {
            crash.store(true, Ordering::Relaxed);
        } else if crash.swap(false, Ordering::Relaxed) {
            let reason = "gone".to_owned();
            return Err(ModelError::Unavailable { model: "fake".to_owned(), reason, source: None });
        }
        Ok(Message::assistant("Yes.").with_usage(Usage::new(tokens(request), 7)))
    });
    let saver = MemorySaver::new();
    let chat = || {
        let chat = chat_with(|chat| chat.layer(limit()).layer(compact()));
        chat.compile().unwrap().checkpointer(saver.clone())
    };
    let before = loop {
        let context = priced(&model);
        let text = Message::user("tell me more ".repeat(20));
        if chat().invoke(text).thread("t").context(context.clone()).await.is_err() {
            break spent(&context);
        }
    };
    assert!(before[1] > 0, "a summary");
    let context = priced(&model);
    let out = chat().invoke(()).thread("t").context(context.clone()).await.unwrap();
    // The request that failed counts as a call of the budget only.
    let after = spent(&context);
    assert_eq!(counted(out.state()), [before[0] - 1 + after[0], before[1] + after[1], before[2] + after[2]]);
}

/// An unusable summary costs as much as a usable one.
#[tokio::test]
async fn limit_counts_empty_summaries() {
    let summaries = Arc::new(AtomicU64::new(0));
    let made = summaries.clone();
    let model = ScriptedModel::reacting(move |request| {
        let text = if is_summary(request) { " " } else { "Yes." };
        made.fetch_add(u64::from(is_summary(request)), Ordering::Relaxed);
        Message::assistant(text).with_usage(Usage::new(tokens(request), 1))
    });
    let chat = chat_with(|chat| chat.layer(limit()).layer(compact()));
    let chat = chat.compile().unwrap().checkpointer(MemorySaver::new());
    while summaries.load(Ordering::Relaxed) == 0 {
        let context = priced(&model);
        let text = Message::user("tell me more ".repeat(20));
        let out = chat.invoke(text).thread("t").context(context.clone()).await.unwrap();
        assert_eq!(counted(out.state()), spent(&context));
    }
}

/// A layer that precedes the limit repeats the whole call, together with its summaries.
#[tokio::test(start_paused = true)]
async fn limit_counts_the_summaries_of_failed_calls() {
    for repeats in [
        |chat: AgentBuilder<BaseState, Desk>| chat.layer(Retry::attempts(2)),
        |chat: AgentBuilder<BaseState, Desk>| chat.layer(Fallback::<Desk>::new(|desk| &desk.cheap)),
    ] {
        let (summaries, has_failed) = (Arc::new(AtomicUsize::new(0)), AtomicBool::new(false));
        let made = summaries.clone();
        let model = ScriptedModel::try_reacting(move |request| {
            if is_summary(request) {
                made.fetch_add(1, Ordering::Relaxed);
            } else if made.load(Ordering::Relaxed) > 0 && !has_failed.swap(true, Ordering::Relaxed) {
                let reason = "gone".to_owned();
                return Err(ModelError::Unavailable { model: "fake".to_owned(), reason, source: None });
            }
            let text = if is_summary(request) { " " } else { "Yes." };
            Ok(Message::assistant(text).with_usage(Usage::new(tokens(request), 7)))
        });
        let chat = repeats(AgentBuilder::new("chat")).layer(limit()).layer(Compact::new().context_tokens(1_500));
        let chat = chat.compile().unwrap().checkpointer(MemorySaver::new());
        while summaries.load(Ordering::Relaxed) == 0 {
            let context = priced(&model);
            let text = Message::user("tell me more ".repeat(20));
            let desk = Desk { base: context.clone(), cheap: model.clone() };
            let out = chat.invoke(text).thread("t").context(desk).await.unwrap();
            let [calls, tokens, cost] = spent(&context);
            // The request that failed counts as a call of the budget only.
            let failed = u64::from(summaries.load(Ordering::Relaxed) > 0);
            assert_eq!(counted(out.state()), [calls - failed, tokens, cost]);
        }
        assert_eq!(summaries.load(Ordering::Relaxed), 2, "each attempt asks for a summary");
    }
}

#[tokio::test]
async fn summary_by_a_model_without_a_price_is_an_error_under_a_limit() {
    let (smart, cheap) = (provider(1_500, summing_up), provider(1_500, summing_up).named("cheap"));
    let compact = Compact::<Desk>::new().context_tokens(1_500).by(|desk: &Desk| &desk.cheap);
    let chat = AgentBuilder::<BaseState, Desk>::new("chat").layer(limit()).layer(compact);
    let chat = chat.compile().unwrap().checkpointer(MemorySaver::new());
    let error = loop {
        let desk = Desk { base: priced(&smart), cheap: cheap.clone() };
        let text = Message::user("tell me more ".repeat(20));
        if let Err(error) = chat.invoke(text).thread("t").context(desk).await {
            break error;
        }
    };
    assert_eq!(UnknownPrice::find_in(&error).map(UnknownPrice::model), Some("cheap"), "{error}");
    assert_eq!(cheap.call_count(), 0);
}
