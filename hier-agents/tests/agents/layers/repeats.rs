//! A layer that passes a call on again does not repeat recorded steps.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use hier_agents::AgentBuilder;
use hier_agents::layer::{Layer, NextTool, ToolReply, ToolUse};
use hier_agents::prelude::*;
use hier_core::checkpoint::MemorySaver;
use hier_core::state::Values;
use hier_core::{Result, async_trait};
use hier_testkit::ScriptedModel;
use serde_json::json;

use crate::support::{call, calls};

#[derive(Clone, Default)]
struct Till {
    base: Option<BaseContext>,
    charged: Arc<AtomicUsize>,
    tried: Arc<AtomicUsize>,
    asked: Arc<AtomicUsize>,
}

impl AsRef<BaseContext> for Till {
    fn as_ref(&self) -> &BaseContext {
        self.base.as_ref().expect("a context")
    }
}

/// Charges, asks, and fails or hangs at first.
#[tool]
async fn charge(eur: u32, run: &Run<Till>) -> Result<String> {
    let Till { charged, tried, asked, .. } = run.context();
    let receipt = run.step("charge", async || Ok(charged.fetch_add(1, Ordering::Relaxed) + 1)).await?;
    let answer: String = run.interrupt(&"print it?").await?;
    asked.fetch_add(1, Ordering::Relaxed);
    match tried.fetch_add(1, Ordering::Relaxed) {
        0 => Err(NodeError::new("no paper")),
        1 => std::future::pending().await,
        _ => Ok(format!("receipt {receipt} of {eur}: {answer}")),
    }
}

/// Calls a tool until it answers in time.
struct Again;

#[async_trait]
impl<S: Values, C: Send + Sync + 'static> Layer<S, C> for Again {
    async fn tool_call(&self, call: ToolUse<'_, S, C>, next: NextTool<'_, S, C>) -> Result<ToolReply<S>> {
        loop {
            let called = tokio::time::timeout(Duration::from_secs(1), next.call(call.clone())).await;
            match called {
                Ok(Err(error)) if !error.is_transient() => return Err(error),
                Ok(Ok(reply)) => return Ok(reply),
                _ => {}
            }
        }
    }
}

/// Calls a tool twice.
struct Twice;

#[async_trait]
impl<S: Values, C: Send + Sync + 'static> Layer<S, C> for Twice {
    async fn tool_call(&self, call: ToolUse<'_, S, C>, next: NextTool<'_, S, C>) -> Result<ToolReply<S>> {
        next.call(call.clone()).await?;
        next.call(call).await
    }
}

/// Passes calls on.
struct Between;

impl<S: Values, C: Send + Sync + 'static> Layer<S, C> for Between {}

#[tokio::test(start_paused = true)]
async fn tool_repeated_by_a_layer_keeps_its_steps_and_answers() {
    let desk = || AgentBuilder::<BaseState, Till>::new("desk").tool(charge::TOOL);
    for desk in [
        desk().layer(Again),
        desk().layer(Again).layer(Between).layer(Between),
        desk().layer(Between).layer(Again).layer(Between),
    ] {
        let desk = desk.compile().unwrap().checkpointer(MemorySaver::new());
        let model = ScriptedModel::new([call("charge", json!({"eur": 7})), Message::assistant("Done.")]);
        let till = Till { base: Some(BaseContext::new(model)), ..Till::default() };
        let waits = desk.invoke(Message::user("pay")).thread("t").context(till.clone()).await.unwrap();
        assert!(matches!(&waits, Outcome::Interrupted(asked) if asked.questions.len() == 1), "{waits:?}");
        let out = desk.invoke(Command::resume("yes")).thread("t").context(till.clone()).await.unwrap();
        assert!(out.is_finished());
        assert_eq!(out.state().messages.get(2).unwrap().text(), "receipt 1 of 7: yes");
        assert_eq!((till.charged.load(Ordering::Relaxed), till.asked.load(Ordering::Relaxed)), (1, 3));
    }
}

/// After a call that succeeded the next is another call.
#[tokio::test]
async fn tool_called_again_after_success_runs_again() {
    let desk = AgentBuilder::<BaseState, Till>::new("desk").tool(charge::TOOL).layer(Twice);
    let desk = desk.compile().unwrap().checkpointer(MemorySaver::new());
    let model = ScriptedModel::new([calls([("charge", json!({"eur": 7}))]), Message::assistant("Done.")]);
    let till = Till { base: Some(BaseContext::new(model)), ..Till::default() };
    till.tried.store(2, Ordering::Relaxed);
    for _ in 0..2 {
        let input = till.charged.load(Ordering::Relaxed) == 0;
        let waits = if input {
            desk.invoke(Message::user("pay")).thread("t").context(till.clone()).await
        } else {
            desk.invoke(Command::resume("yes")).thread("t").context(till.clone()).await
        };
        assert!(!waits.unwrap().is_finished());
    }
    let out = desk.invoke(Command::resume("no")).thread("t").context(till.clone()).await.unwrap();
    assert_eq!(out.state().messages.get(2).unwrap().text(), "receipt 2 of 7: no");
    assert_eq!(till.charged.load(Ordering::Relaxed), 2);
}
