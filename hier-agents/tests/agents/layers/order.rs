//! The order in which layers see a call, and their writes.

use hier_agents::layer::{
    CallSite, Emails, Fallback, Inherited, Layer, Limit, ModelCall, ModelReply, NextModel, NextTool, Redact, ToolReply,
    ToolUse, Verdict,
};
use hier_agents::prelude::*;
use hier_agents::{AgentBuilder, ChatModel, Compact, ModelError};
use hier_core::checkpoint::MemorySaver;
use hier_core::graph::Retry;
use hier_core::message::ToolCall;
use hier_core::state::Values;
use hier_core::{Result, async_trait};
use hier_draw::Draw;
use hier_testkit::ScriptedModel;
use serde_json::json;
use std::borrow::Cow;
use std::sync::Arc;

use super::Log;
use crate::support::{Filing, call};

/// Notes the calls that it sees.
#[derive(Clone)]
struct Noted {
    name: &'static str,
    log: Log,
}

#[async_trait]
impl<S: Values, C: Send + Sync + 'static> Layer<S, C> for Noted {
    fn name(&self) -> Cow<'static, str> {
        self.name.into()
    }

    async fn model_call(&self, call: ModelCall<'_, S, C>, next: NextModel<'_, S, C>) -> Result<ModelReply<S>> {
        self.log.note(format!("{} asks", self.name));
        let reply = next.call(call).await?;
        self.log.note(format!("{} hears", self.name));
        Ok(reply)
    }

    async fn check(&self, call: &ToolCall, _: CallSite<'_, S, C>) -> Result<Verdict> {
        self.log.note(format!("{} checks {}", self.name, call.name));
        Ok(Verdict::Allow)
    }

    async fn tool_call(&self, call: ToolUse<'_, S, C>, next: NextTool<'_, S, C>) -> Result<ToolReply<S>> {
        self.log.note(format!("{} calls", self.name));
        let reply = next.call(call).await?;
        self.log.note(format!("{} has", self.name));
        Ok(reply)
    }
}

/// The rate of a year.
#[tool]
async fn rate(year: u16) -> String {
    format!("{year}: 7 %")
}

#[tokio::test]
async fn first_listed_layer_is_outermost() {
    let log = Log::default();
    let noted = |name| Noted { name, log: log.clone() };
    let agent = AgentBuilder::<BaseState>::new("desk").tool(rate::TOOL).layer(noted("one")).layer(noted("two"));
    let agent = agent.compile().unwrap();
    assert_eq!(agent.layers(), ["one", "two"]);
    let model = ScriptedModel::new([call("rate", json!({"year": 2026})), Message::assistant("7 %")]);
    let _ = agent.invoke(Message::user("the rate?")).context(BaseContext::new(model)).await.unwrap();
    let asked = ["one asks", "two asks", "two hears", "one hears"];
    let made = ["one checks rate", "two checks rate", "one calls", "two calls", "two has", "one has"];
    assert_eq!(log.take(), [&asked[..], &made, &asked].concat());
}

struct Shop {
    base: BaseContext,
    smart: Arc<dyn ChatModel>,
    cheap: ScriptedModel,
}

impl AsRef<BaseContext> for Shop {
    fn as_ref(&self) -> &BaseContext {
        &self.base
    }
}

fn house() -> Noted {
    Noted { name: "house", log: Log::default() }
}

fn checked(call: &ToolCall, state: &Filing) -> Verdict {
    match &*call.name {
        "rate" if state.risk > 5 => Verdict::Deny("too risky".to_owned()),
        _ => Verdict::Allow,
    }
}

fn emails(text: &str) -> Option<std::ops::Range<usize>> {
    hier_agents::layer::Find::find(&Emails, text)
}

graph! {
    /// All that can be written.
    Support<Filing, Shop> = Agent {
        model: |shop| &shop.smart,
        tools: [rate],
        layers: [
            Inherited(Retry { attempts: 2, interval: 10ms }),
            Fallback(|shop| &shop.cheap),
            Limit { model_calls: 50 },
            Redact(emails),
            Redact(Emails).mark("[address]"),
            hier_agents::layer::Guard(checked),
            hier_agents::layer::Guard(|call, filing| if call.id.is_empty() && filing.risk > 3 { Verdict::Allow } else { Verdict::Allow }),
            hier_agents::layer::Emulate(|call| call.id.is_empty().then_some("done")),
            house(),
            Noted { name: "last", log: Log::default() },
        ],
    }
}

graph! {
    /// Kinds that report have layers, too.
    Clerk<Filing, Shop> = TodoGraph { layers: [Inherited(Limit { tokens: 1_000_000 }), Retry] }
}

#[tokio::test]
async fn all_forms_of_layers_are_accepted() {
    let names = Support::compile().layers().to_vec();
    let ready = ["Inherited(Retry)", "Fallback", "Limit", "Redact", "Redact", "Guard", "Guard", "Emulate"];
    assert_eq!(names, [&ready[..], &["house", "last"]].concat());
    assert_eq!(Clerk::compile().layers(), ["Inherited(Limit)", "Retry"]);
    let smart = ScriptedModel::new([Message::assistant("Ask eva@example.org.")]);
    let shop = Shop { base: BaseContext::default(), smart: Arc::new(smart), cheap: ScriptedModel::new([]) };
    let out = Support::compile().invoke(Message::user("Whom?")).context(shop).await.unwrap();
    assert_eq!(out.state().base.current_agent_report, "Ask [address].");
}

/// Writes this update.
struct Writer(fn() -> FilingUpdate);

use crate::support::FilingUpdate;

#[async_trait]
impl Layer<Filing, BaseContext> for Writer {
    async fn model_call(
        &self,
        call: ModelCall<'_, Filing, BaseContext>,
        next: NextModel<'_, Filing, BaseContext>,
    ) -> Result<ModelReply<Filing>> {
        assert_eq!(call.state().draft, "d");
        Ok(next.call(call).await?.write((self.0)()))
    }

    async fn tool_call(
        &self,
        call: ToolUse<'_, Filing, BaseContext>,
        next: NextTool<'_, Filing, BaseContext>,
    ) -> Result<ToolReply<Filing>> {
        Ok(next.call(call).await?.write((self.0)()))
    }
}

async fn written(layers: impl IntoIterator<Item = Writer>) -> Result<Filing, RunError> {
    let builder = AgentBuilder::<Filing>::new("desk").tool(rate::TOOL);
    let agent = layers.into_iter().fold(builder, AgentBuilder::layer).compile().unwrap();
    let model = ScriptedModel::new([call("rate", json!({"year": 2026})), Message::assistant("7 %")]);
    let asked = Filing::update().draft("d").messages(Message::user("the rate?"));
    let out = agent.invoke(asked).context(BaseContext::new(model)).await?;
    Ok(out.state().clone())
}

#[tokio::test]
async fn layer_writes_are_stored_with_the_answer() {
    let finding = || Filing::update().findings(["seen".to_owned()]);
    let state =
        written([Writer(finding), Writer(|| Filing::update().artifact(Some("1040".to_owned())))]).await.unwrap();
    // Two questions and a call.
    assert_eq!(state.findings, ["seen", "seen", "seen"]);
    assert_eq!(state.artifact.as_deref(), Some("1040"));
}

#[tokio::test]
async fn two_writers_of_a_plain_channel_are_refused() {
    let error = written([Writer(|| Filing::update().risk(1).draft("x")), Writer(|| Filing::update().draft("y"))]);
    let error = error.await.unwrap_err().to_string();
    assert!(error.contains("both write `draft`, which has no reducer"), "{error}");
    assert!(error.contains("desk/0:Writer") && error.contains("desk/1:Writer"), "{error}");
    let error = written([Writer(|| Filing::update().iteration_number(9))]).await.unwrap_err().to_string();
    assert!(error.contains("the agent itself both write `iteration_number`"), "{error}");
}

/// A layer whose name is that of its type.
struct Tone;

impl Tone {
    fn friendly() -> Self {
        Self
    }
}

impl<S: Values, C: Send + Sync + 'static> Layer<S, C> for Tone {}

graph! {
    Drawn<Filing> = Agent {
        tools: [rate],
        layers: [Limit { model_calls: 5 }, Inherited(Retry { attempts: 2 }), Redact(Emails).mark("…"), Tone::friendly(), Tone],
    }
}

graph! {
    Around<Filing> = ReactGraph { subagents: [Drawn {}], layers: [Limit { tokens: 9 }] }
}

/// The drawing has the layers of the compiled agent, from the macro and from a builder.
#[test]
fn drawings_list_layers_in_order() {
    let names = ["Limit", "Inherited(Retry)", "Redact", "Tone", "Tone"];
    assert_eq!(Drawn::compile().layers(), names);
    let built = AgentBuilder::<Filing>::new("drawn").tool(rate::TOOL);
    let built =
        built.layer(Limit::new().model_calls(5)).layer(Inherited::new(Retry::default())).layer(Redact::new(Emails));
    let built = built.layer(Tone).layer(Tone).compile().unwrap();
    assert_eq!(
        (Drawn::SPEC.mermaid(), Drawn::SPEC.dot(), Drawn::SPEC.svg()),
        (built.spec().mermaid(), built.spec().dot(), built.spec().svg())
    );

    let list = "Limit, Inherited(Retry), Redact, Tone, Tone";
    let label = |node: &str| {
        format!(
            "\t{node}({node}<hr/><small><em>layers = {}</em></small>)\n",
            list.replace('(', "#40;").replace(')', "#41;")
        )
    };
    let mermaid = Drawn::SPEC.mermaid();
    assert!(mermaid.contains(&label("model")) && mermaid.contains(&label("tools")), "{mermaid}");
    let dot = Drawn::SPEC.dot();
    assert!(dot.contains(&format!(r#""model" [label="model\nlayers {list}"]"#)), "{dot}");
    let svg = Drawn::SPEC.svg();
    assert!(svg.contains("layers Limit,") && svg.contains("Inherited(Retry),"), "{svg}");

    let around = Around::SPEC.mermaid();
    assert!(around.contains("(reasoning<hr/><small><em>layers = Limit</em></small>)"), "{around}");
    assert!(around.contains("layers = Limit, Inherited#40;Retry#41;"), "{around}");
    assert_eq!(around.matches("layers = ").count(), 4, "two nodes of each agent make calls: {around}");
}

/// The first model writes four summaries, two before each of its rejections. The second model needs only the first two of
/// these summaries.
#[tokio::test]
async fn outer_limit_counts_the_summaries_of_a_failed_model() {
    let strict = ScriptedModel::try_reacting(|request| {
        let is_summary = request.messages.get(0).is_some_and(|first| first.text().starts_with("You summarize"));
        let too_long = || ModelError::TooLong { model: "strict".to_owned(), reason: "at most 0 tokens".to_owned() };
        is_summary.then(|| Message::assistant("They talked.")).ok_or_else(too_long)
    });
    let cheap = ScriptedModel::new([Message::assistant("Yes.")]);
    let agent = AgentBuilder::<BaseState, Shop>::new("desk")
        .layer(Limit::new().model_calls(100))
        .layer(Fallback::<Shop>::new(|shop| &shop.cheap))
        .layer(Compact::new().context_tokens(1_500).at(0.9).to(0.8));
    let talk =
        (0..20).flat_map(|turn| [Message::user(format!("turn {turn}")), Message::assistant("word ".repeat(100))]);
    let input = BaseState::update().messages(talk.chain([Message::user("go on")]).collect::<Vec<_>>());
    let shop = Shop { base: BaseContext::new(strict.clone()), smart: Arc::new(cheap.clone()), cheap: cheap.clone() };
    let desk = agent.compile().unwrap().checkpointer(MemorySaver::new());
    let out = desk.invoke(input).thread("t").context(shop).await.unwrap();
    assert_eq!((strict.call_count(), cheap.call_count()), (6, 1), "four summaries, two rejections, and a reply");
    let counts: Vec<u64> = out.state().layer_counts.iter().map(|(_, count)| count).collect();
    assert_eq!(counts, [5]);
}
