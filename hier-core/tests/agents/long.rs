//! Conversations that are longer than their model can read.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use hier_core::StateUpdate;
use hier_core::agent::{AgentBuilder, AgentEnd, Budget, ChatRequest, Compaction, ModelError, Usage};
use hier_core::checkpoint::MemorySaver;
use hier_core::graph::CompiledGraph;
use hier_core::prelude::*;
use hier_testkit::ScriptedModel;
use serde_json::json;

use crate::support::call;

/// What a provider counts, which knows nothing of the estimate: three letters a token.
fn tokens(request: &ChatRequest) -> u64 {
    let letters = |message: &Message| {
        let calls: usize = message.tool_calls().iter().map(|call| call.args.to_string().len() + call.name.len()).sum();
        message.text().len() + calls
    };
    let tools: usize = request.tools.iter().map(|tool| tool.parameters.to_string().len()).sum();
    ((request.messages.iter().map(letters).sum::<usize>() + tools) / 3) as u64
}

/// Whether a summary is asked for.
fn is_summary(request: &ChatRequest) -> bool {
    request.messages.get(0).is_some_and(|first| first.text().starts_with("You sum up"))
}

/// A provider that refuses more than this, tells what it counted, and fails the test if what it is sent is no valid conversation.
fn provider(limit: u64, answer: impl Fn(&ChatRequest) -> Message + Send + Sync + 'static) -> ScriptedModel {
    ScriptedModel::try_reacting(move |request| {
        valid(&request.messages);
        let count = tokens(request);
        if count > limit {
            let reason = format!("{count} tokens > {limit} maximum");
            return Err(ModelError::TooLong { model: "fake".to_owned(), reason });
        }
        let message = answer(request);
        let usage = Usage::new(count, (message.text().len() / 3) as u64);
        Ok(message.with_usage(usage))
    })
}

/// Each result follows its call, no result is alone, and the first message that is no instruction is the user's.
fn valid(messages: &Messages) {
    let mut open: Vec<&str> = Vec::new();
    for message in messages.iter() {
        if let Some(id) = message.tool_call_id() {
            let at = open.iter().position(|open| *open == id);
            open.remove(at.unwrap_or_else(|| panic!("a result without a call: {message:?}")));
        }
        open.extend(message.tool_calls().iter().map(|call| &*call.id));
    }
    assert!(open.is_empty(), "calls without results: {open:?}");
    let first = messages.iter().find(|message| !matches!(message.body, hier_core::agent::Body::System { .. }));
    assert!(matches!(first.unwrap().body, hier_core::agent::Body::User { .. }), "{first:?}");
}

/// Reads a page.
#[tool]
async fn read_page(number: u32) -> String {
    format!("page {number}: {}", "word ".repeat(100))
}

/// Reads a long page.
#[tool]
async fn long_page(number: u32) -> String {
    format!("page {number}: {}", "word ".repeat(300))
}

fn chat(limit: Option<u64>) -> CompiledGraph<BaseState, BaseContext> {
    let compact = Compact::new().context_tokens(limit);
    AgentBuilder::new("chat").system("You answer.").tool(read_page::TOOL).layer(compact).compile().unwrap()
}

fn summing_up(request: &ChatRequest) -> Message {
    if is_summary(request) {
        return Message::assistant("They talked.");
    }
    let last = request.messages.last().unwrap();
    if last.text().starts_with("read") { call("read_page", json!({"number": 1})) } else { Message::assistant("Yes.") }
}

async fn say(chat: &CompiledGraph<BaseState, BaseContext>, model: &ScriptedModel, text: &str) -> Outcome<BaseState> {
    let context = BaseContext::new(model.clone());
    chat.invoke(Message::user(text), Config::thread("t"), context).await.unwrap_or_else(|error| panic!("{error}"))
}

#[tokio::test]
async fn ten_thousand_messages_stay_below_the_limit() {
    let limit = 4_000;
    let model = provider(limit, summing_up).without_requests();
    let long = (0..5_000).flat_map(|turn| {
        let asked = Message::user(format!("question {turn}: {}", "what about this? ".repeat(turn % 7)));
        [asked, Message::assistant(format!("answer {turn}")).with_usage(Usage::new(1_000_000, 5))]
    });
    let saver = MemorySaver::new();
    let chat = chat(Some(limit)).checkpointer(saver);
    let input = BaseState::update().messages(long.chain([Message::user("go on")]).collect::<Vec<_>>());
    let out = chat.invoke(input, Config::thread("t"), BaseContext::new(model.clone())).await.unwrap();
    assert_eq!((out.ending(), out.state().messages.len()), (Some(&AgentEnd::Text), 10_002));
    let record = out.state().compaction.clone().expect("a record");
    assert!(record.cut.as_ref().is_some_and(|cut| cut.count > 9_000), "{record:?}");
    assert_eq!((&*record.summary, &*record.by), ("They talked.", "scripted"));
    let asked = model.asked();
    // From here on it is one call a turn.
    let out = say(&chat, &model, "and then?").await;
    assert_eq!((model.asked(), out.state().compaction.as_ref()), (asked + 1, Some(&record)));
}

#[tokio::test]
async fn a_conversation_goes_on_for_ever_and_the_state_keeps_all_of_it() {
    let limit = 3_000;
    let (model, saver) = (provider(limit, summing_up), MemorySaver::new());
    for turn in 0..120 {
        // Another process each time: nothing is kept but what is stored.
        let chat = chat(Some(limit)).checkpointer(saver.clone());
        let text = if turn % 3 == 0 { format!("read {turn}") } else { format!("tell me more about {turn}") };
        let out = say(&chat, &model, &text).await;
        assert_eq!(out.ending(), Some(&AgentEnd::Text), "turn {turn}");
    }
    let state = chat(None).checkpointer(saver).state(Config::thread("t")).await.unwrap();
    assert_eq!(state.values.messages.len(), 120 * 2 + 40 * 2);
    let summaries = model.requests().iter().filter(|request| is_summary(request)).count();
    assert!((1..40).contains(&summaries), "{summaries}");
    // Below the limit by a provider's count that the estimate does not know; none was refused.
    let most = model.requests().iter().map(tokens).max().unwrap();
    assert!((limit / 2..=limit).contains(&most), "{most}");
}

#[tokio::test]
async fn clearing_old_results_comes_before_a_summary() {
    let limit = 3_000;
    let model = provider(limit, |request| {
        if request.messages.last().is_some_and(|last| last.text() == "read") {
            return call("long_page", json!({"number": 1}));
        }
        Message::assistant("Yes.")
    });
    let agent = AgentBuilder::new("chat").tool(long_page::TOOL).layer(Compact::new().context_tokens(limit));
    let chat = agent.compile().unwrap().checkpointer(MemorySaver::new());
    let mut out = say(&chat, &model, "read").await;
    while out.state().compaction.is_none() {
        out = say(&chat, &model, "read").await;
    }
    let record = out.state().compaction.clone().unwrap();
    assert!(record.cut.is_none() && record.cleared.is_some() && record.summary.is_empty(), "{record:?}");
    assert!(!model.requests().iter().any(is_summary));
    let sent = model.requests().last().unwrap().clone();
    let cleared = sent.messages.iter().find(|message| message.text().contains("was cleared to save space")).unwrap();
    let kept = sent.messages.iter().filter(|message| message.text().starts_with("page 1")).count();
    assert!(kept >= 1, "what is new is whole");
    // It can be read again: the tool is offered from now on, and reads the state.
    assert!(sent.tools.iter().any(|tool| tool.name == "read_earlier"));
    assert!(cleared.text().contains(cleared.id.as_deref().unwrap()));
}

#[tokio::test]
async fn what_is_left_out_can_be_read_again() {
    let id = "8c0e";
    let reading = json!({"id": id});
    let model = ScriptedModel::new([
        call("read_earlier", reading),
        call("read_earlier", json!({"search": "SECRET"})),
        call("read_earlier", json!({"id": "nothing"})),
        Message::assistant("Done."),
    ]);
    let chat = chat(Some(1_000_000)).checkpointer(MemorySaver::new());
    let talk = [
        Message::user("hello"),
        Message::assistant(format!("the secret is {}", "x".repeat(9_000))).with_id(id),
        Message::user("what was it?"),
    ];
    let mut record = Compaction::default();
    record.cut = hier_core::agent::Mark::behind(&talk.clone().into(), 2);
    record.summary = "There was a secret.".to_owned();
    let input = BaseState::update().messages(talk.to_vec()).compaction(Some(Box::new(record)));
    let out = chat.invoke(input, Config::thread("t"), BaseContext::new(model.clone())).await.unwrap();
    let results: Vec<_> =
        out.state().messages.iter().filter(|message| message.tool_call_id().is_some()).map(Message::text).collect();
    assert!(results[0].starts_with("the secret is xxx") && results[0].contains("go on with \"from\": 8000"));
    assert!(results[1].starts_with("8c0e (assistant): …the secret is"), "{}", results[1]);
    assert!(results[2].contains("there is no message with the id `nothing`"));
    let sent = &model.requests()[0].messages;
    assert!(sent.get(1).unwrap().text().contains("There was a secret."));
    assert_eq!(sent.len(), 3, "instructions, summary, question: {sent:?}");
}

#[tokio::test]
async fn a_provider_that_refuses_is_asked_once_more() {
    // Nobody knows how much it can read.
    let limit = 1_500;
    let model = provider(limit, summing_up);
    let chat = chat(None).checkpointer(MemorySaver::new());
    for turn in 0..60 {
        let out = say(&chat, &model, &format!("turn {turn}: {}", "and so on ".repeat(20))).await;
        assert_eq!(out.ending(), Some(&AgentEnd::Text), "turn {turn}");
    }
    let refused = model.requests().iter().filter(|request| tokens(request) > limit).count();
    assert!((1..15).contains(&refused), "{refused}");

    // One that refuses whatever it is sent is told once more, not for ever.
    let asked = Arc::new(AtomicUsize::new(0));
    let count = asked.clone();
    let refusing = ScriptedModel::try_reacting(move |request| {
        if is_summary(request) {
            return Ok(Message::assistant("short"));
        }
        count.fetch_add(1, Ordering::Relaxed);
        Err(ModelError::TooLong { model: "fake".to_owned(), reason: "always".to_owned() })
    });
    let context = BaseContext::new(refusing);
    let error = chat.invoke(Message::user("more"), Config::thread("t"), context).await.unwrap_err();
    assert!(error.to_string().contains("too long for the model"), "{error}");
    assert_eq!(asked.load(Ordering::Relaxed), 2);
}

#[tokio::test]
async fn a_huge_result_is_clipped_and_kept_whole_in_the_state() {
    let limit = 2_000;
    let model = provider(limit, |request| {
        if request.messages.iter().any(|message| message.tool_call_id().is_some()) {
            Message::assistant("Read.")
        } else {
            call("huge", json!({}))
        }
    });
    let agent = AgentBuilder::<BaseState>::new("chat").tool(huge::TOOL).layer(Compact::new().context_tokens(limit));
    let chat = agent.compile().unwrap().checkpointer(MemorySaver::new());
    let out = say(&chat, &model, "go").await;
    assert_eq!(out.state().current_agent_report, "Read.");
    assert_eq!(out.state().messages.get(2).unwrap().text().len(), 668_000);
    let sent = model.requests()[1].messages.get(2).unwrap().text();
    assert!(sent.len() < 6_000 && sent.contains("characters are left out here"), "{}", sent.len());
    assert!(!model.requests().iter().any(is_summary), "there is nothing to sum up");
}

/// Gives much.
#[tool]
async fn huge() -> String {
    "x".repeat(668_000)
}

/// A summary that fails, or says nothing, is none: nothing is lost.
#[tokio::test]
async fn what_is_no_summary_is_never_taken_for_one() {
    let limit = 1_500;
    for empty in [true, false] {
        let is_well = Arc::new(AtomicBool::new(false));
        let well = is_well.clone();
        let model = ScriptedModel::try_reacting(move |request| {
            let count = tokens(request);
            if is_summary(request) && !well.load(Ordering::Relaxed) {
                let reason = "busy".to_owned();
                let error = ModelError::Unavailable { model: "fake".to_owned(), reason, source: None };
                return if empty { Ok(Message::assistant(" ")) } else { Err(error) };
            }
            if count > limit {
                return Err(ModelError::TooLong { model: "fake".to_owned(), reason: format!("{count}") });
            }
            let said = if is_summary(request) { "They talked." } else { "Yes." };
            Ok(Message::assistant(said).with_usage(Usage::new(count, 1)))
        });
        let chat = chat(Some(limit)).checkpointer(MemorySaver::new());
        let mut turn = 0;
        let error = loop {
            let context = BaseContext::new(model.clone());
            let text = format!("turn {turn}: {}", "and so on ".repeat(20));
            match chat.invoke(Message::user(text), Config::thread("t"), context).await {
                Ok(out) => assert_eq!(out.state().compaction.as_ref().map_or("", |record| &*record.summary), ""),
                Err(error) => break error,
            }
            turn += 1;
        };
        let wanted = if empty { "said nothing" } else { "busy" };
        assert!(error.to_string().contains(wanted), "{error}");
        is_well.store(true, Ordering::Relaxed);
        let out = chat.invoke((), Config::thread("t"), BaseContext::new(model.clone())).await;
        assert_eq!(out.unwrap().state().compaction.as_ref().unwrap().summary, "They talked.");
    }
}

/// The summary is a value of the checkpoint: a fork has it, and going back does not.
#[tokio::test]
async fn a_compaction_is_forked_and_undone() {
    let limit = 1_500;
    let model = provider(limit, summing_up);
    let chat = chat(Some(limit)).checkpointer(MemorySaver::new());
    let mut before = None;
    let after = loop {
        let out = say(&chat, &model, &"tell me more ".repeat(20)).await;
        let state = chat.state(Config::thread("t")).await.unwrap();
        if out.state().compaction.as_ref().is_some_and(|record| record.cut.is_some()) {
            break state;
        }
        before = Some(state);
    };
    let before = before.unwrap();
    assert!(before.values.compaction.as_ref().is_none_or(|record| record.cut.is_none()));
    let shown = serde_json::to_value(&after.values).unwrap();
    assert_eq!(shown["compaction"]["summary"], "They talked.");
    // Undone: all of it is sent again, until it is too long again.
    let undone = StateUpdate::update(BaseState::update().compaction(None));
    chat.update_state(Config::thread("t"), undone).await.unwrap();
    let count = model.requests().len();
    let out = say(&chat, &model, "again").await;
    let sent = model.requests()[count].messages.len();
    assert_eq!(sent, out.state().messages.len(), "instructions and all but the answer");
    let mut out = out;
    while out.state().compaction.is_none() {
        out = say(&chat, &model, &"tell me more ".repeat(20)).await;
    }
    assert!(model.requests()[count..].iter().any(is_summary));
    // The thread as it was before is still there.
    let fork = chat.states(Config::thread("t")).await.unwrap();
    assert!(fork.iter().any(|state| state.values.compaction == after.values.compaction));
}

#[tokio::test]
async fn summaries_count_and_are_not_heard() {
    let limit = 1_500;
    let model = provider(limit, summing_up);
    let chat = chat(Some(limit)).checkpointer(MemorySaver::new());
    let mut record = None;
    while record.is_none() {
        let context = BaseContext::new(model.clone()).budget(Budget::new().model_calls(5));
        let budget = context.budget.clone().unwrap();
        let asked = model.asked();
        let text = Message::user("tell me more ".repeat(20));
        let mut stream = chat.stream(text, Config::thread("t"), context, [StreamMode::Messages]);
        let mut heard = Vec::new();
        while let Some(event) = stream.next().await {
            heard.push(format!("{event:?}"));
        }
        let out = stream.outcome().await.unwrap();
        assert!(!heard.concat().contains("They talked"), "{heard:?}");
        assert_eq!(budget.spent().model_calls, (model.asked() - asked) as u64);
        record = out.state().compaction.clone().filter(|record| record.cut.is_some());
    }
    assert!(record.unwrap().usage.input_tokens > 0);
    // With one call left there is no summary: the answer needs it.
    let (chat, model) = (self::chat(None).checkpointer(MemorySaver::new()), provider(300, summing_up));
    let long: Vec<_> = (0..40).map(|turn| Message::user(format!("this is turn {turn} of many"))).collect();
    let context = BaseContext::new(model.clone()).budget(Budget::new().model_calls(1));
    let input = BaseState::update().messages(long);
    let out = chat.invoke(input, Config::thread("t"), context).await;
    assert!(!model.requests().iter().any(is_summary), "{out:?}");
}

/// Members that report ask with messages of the user, and have their prompt in the conversation.
#[tokio::test]
async fn members_that_report_stay_within_the_limit() {
    for todo in [false, true] {
        let limit = 3_000;
        let left = Arc::new(AtomicUsize::new(40));
        let model = provider(limit, move |request| {
            if is_summary(request) {
                return Message::assistant("Pages were read.");
            }
            assert!(request.messages.iter().any(|message| message.text() == "You read."));
            assert!(request.messages.iter().any(|message| message.text().contains("THE TASK")));
            if left.fetch_sub(1, Ordering::Relaxed) > 1 {
                call("read_page", json!({"number": 7}))
            } else {
                call("finish_task", json!({"result": "all read"}))
            }
        });
        let agent = if todo {
            AgentBuilder::<BaseState>::todo("reader").todo_check(|_: &BaseState| true)
        } else {
            AgentBuilder::<BaseState>::react("reader")
        };
        let agent = agent.system("You read.").tool(read_page::TOOL).layer(Compact::new().context_tokens(limit));
        let graph = agent.compile_as_root().unwrap().checkpointer(MemorySaver::new());
        let input = BaseState::update().messages(Message::user("THE TASK"));
        let out = graph.invoke(input, Config::thread("t"), BaseContext::new(model.clone())).await.unwrap();
        assert_eq!(out.ending(), Some(&AgentEnd::Report));
        assert!(out.state().compaction.is_some());
        assert!(model.requests().iter().all(|request| tokens(request) <= limit));
    }
}

/// A summary that was recorded is not paid for again by the run that goes on after a crash.
#[tokio::test]
async fn a_summary_survives_a_crash_before_the_answer() {
    let limit = 1_500;
    let crashes = Arc::new(AtomicBool::new(false));
    let crash = crashes.clone();
    let model = ScriptedModel::try_reacting(move |request| {
        let count = tokens(request);
        if is_summary(request) {
            crash.store(true, Ordering::Relaxed);
            return Ok(Message::assistant("They talked."));
        }
        if crash.swap(false, Ordering::Relaxed) {
            let reason = "gone".to_owned();
            return Err(ModelError::Unavailable { model: "fake".to_owned(), reason, source: None });
        }
        Ok(Message::assistant("Yes.").with_usage(Usage::new(count, 1)))
    });
    let saver = MemorySaver::new();
    let chat = || chat(Some(limit)).checkpointer(saver.clone());
    loop {
        let context = BaseContext::new(model.clone());
        let out = chat().invoke(Message::user("tell me more ".repeat(20)), Config::thread("t"), context).await;
        if out.is_err() {
            break;
        }
    }
    let summaries = || model.requests().iter().filter(|request| is_summary(request)).count();
    let paid = summaries();
    assert!(paid > 0);
    let out = chat().invoke((), Config::thread("t"), BaseContext::new(model.clone())).await.unwrap();
    assert_eq!((summaries(), &*out.state().compaction.as_ref().unwrap().summary), (paid, "They talked."));
}

#[tokio::test]
async fn another_model_sums_up() {
    let (smart, cheap) = (provider(1_500, summing_up), provider(1_500, summing_up).named("cheap"));
    let compact = Compact::<Desk>::new().context_tokens(1_500).by(|desk: &Desk| &desk.cheap);
    let agent = AgentBuilder::<BaseState, Desk>::new("chat").layer(compact);
    let chat = agent.compile().unwrap().checkpointer(MemorySaver::new());
    let by = loop {
        let desk = Desk { base: BaseContext::new(smart.clone()), cheap: cheap.clone() };
        let text = Message::user("tell me more ".repeat(20));
        let out = chat.invoke(text, Config::thread("t"), desk).await.unwrap();
        if let Some(record) = &out.state().compaction {
            break record.by.clone();
        }
    };
    assert_eq!((&*by, cheap.requests().iter().all(is_summary)), ("cheap", true));
    assert!(!smart.requests().iter().any(is_summary));
}

struct Desk {
    base: BaseContext,
    cheap: ScriptedModel,
}

impl AsRef<BaseContext> for Desk {
    fn as_ref(&self) -> &BaseContext {
        &self.base
    }
}

graph! {
    Listed<BaseState, Desk> = Agent {
        layers: [Compact { at: 0.8, context_tokens: 1_500, by: |desk| &desk.cheap }, Fallback(|desk| &desk.cheap)],
    }
}

#[tokio::test]
async fn it_stands_in_the_list_of_layers() {
    let (smart, cheap) = (provider(1_500, summing_up), provider(1_500, summing_up));
    let chat = Listed::compile().checkpointer(MemorySaver::new());
    for _ in 0..40 {
        let desk = Desk { base: BaseContext::new(smart.clone()), cheap: cheap.clone() };
        let text = Message::user("tell me more ".repeat(20));
        let out = chat.invoke(text, Config::thread("t"), desk).await.unwrap();
        assert_eq!(out.ending(), Some(&AgentEnd::Text));
    }
    assert!(cheap.asked() > 0 && cheap.requests().iter().all(is_summary));
    assert!(!smart.requests().iter().any(is_summary));
}

graph! {
    /// Reads.
    Reader<BaseState> = Agent { tools: [read_page] }
}

graph! {
    Boss<BaseState> = Agent { subagents: [Reader {}], layers: [Inherited(Compact { context_tokens: 3_000 })] }
}

/// An inherited one keeps a record for each agent, in that agent's own state.
#[tokio::test]
async fn agents_below_stay_within_the_limit_too() {
    let left = AtomicUsize::new(30);
    let model = provider(3_000, move |request| {
        if is_summary(request) {
            return Message::assistant("Pages were read.");
        }
        let is_boss = request.tools.iter().any(|tool| tool.name == "reader");
        let has_read = request.messages.iter().any(|message| message.tool_call_id().is_some());
        match (is_boss, has_read) {
            (true, false) => call("reader", json!({"task": "read all"})),
            (true, true) => Message::assistant("Done."),
            (false, _) if left.fetch_sub(1, Ordering::Relaxed) > 1 => call("read_page", json!({"number": 7})),
            (false, _) => Message::assistant("All read."),
        }
    });
    let boss = Boss::compile().checkpointer(MemorySaver::new());
    let context = BaseContext::new(model.clone());
    let out = boss.invoke(Message::user("go"), Config::thread("t"), context).await.unwrap();
    assert_eq!((out.ending(), &*out.state().current_agent_report), (Some(&AgentEnd::Text), "Done."));
    assert!(out.state().compaction.is_none(), "the reader's is the reader's");
    assert!(model.requests().iter().any(|request| request.tools.iter().any(|tool| tool.name == "read_earlier")));
    assert!(model.requests().iter().all(|request| tokens(request) <= 3_000));
}

#[test]
fn options_out_of_range_are_refused() {
    for (compact, wanted) in [
        (Compact::new().at(1.5), "`at: 1.5`"),
        (Compact::new().at(0.0), "`at: 0`"),
        (Compact::new().at(0.5).to(0.6), "`to` must be above 0 and below `at`"),
        (Compact::new().context_tokens(0), "`context_tokens: 0`"),
    ] {
        let error = AgentBuilder::<BaseState>::new("chat").layer(compact).compile().unwrap_err();
        assert!(error.to_string().contains(wanted), "{error}");
    }
}
