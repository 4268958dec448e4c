//! Summaries: unusable ones, their storage, their costs and their models.

use std::sync::atomic::AtomicBool;

use hier_agents::Budget;
use hier_core::StateUpdate;
use hier_core::graph::Retry;

use super::*;

/// A summary that fails or is empty is an error, and no message is lost.
#[tokio::test]
async fn empty_summary_is_rejected() {
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
            match chat.invoke(Message::user(text)).thread("t").context(context).await {
                Ok(out) => assert_eq!(out.state().compaction.as_ref().map_or("", |record| &*record.summary), ""),
                Err(error) => break error,
            }
            turn += 1;
        };
        let wanted = if empty { "returned an empty summary" } else { "busy" };
        assert!(error.to_string().contains(wanted), "{error}");
        is_well.store(true, Ordering::Relaxed);
        let out = chat.invoke(()).thread("t").context(BaseContext::new(model.clone())).await;
        assert_eq!(out.unwrap().state().compaction.as_ref().unwrap().summary, "They talked.");
    }
}

#[tokio::test]
async fn request_is_shortened_even_if_the_summary_fails() {
    let model = ScriptedModel::try_reacting(move |request| {
        if is_summary(request) {
            let reason = "busy".to_owned();
            return Err(ModelError::Unavailable { model: "fake".to_owned(), reason, source: None });
        }
        let reads = request.messages.last().is_some_and(|last| last.text() == "read");
        let message = if reads { call("long_page", json!({"number": 1})) } else { Message::assistant("Yes.") };
        Ok(message.with_usage(Usage::new(tokens(request), 1)))
    });
    let agent = AgentBuilder::new("chat").tool(long_page::TOOL).layer(Compact::new().context_tokens(3_000));
    let chat = agent.compile().unwrap().checkpointer(MemorySaver::new());
    // These messages are so short that only a summary makes them shorter.
    for turn in 0..40 {
        drop(say(&chat, &model, &format!("turn {turn}: {}", "and so on ".repeat(9))).await);
    }
    let mut out = say(&chat, &model, "read").await;
    while !model.requests().iter().any(is_summary) {
        out = say(&chat, &model, "read").await;
    }
    let sent = model.requests().last().unwrap().clone();
    assert!(sent.messages.iter().any(|message| message.text().contains("was cleared to save space")));
    let record = out.state().compaction.clone().expect("a record");
    assert!(record.cut.is_none() && record.cleared.is_some() && record.summary.is_empty(), "{record:?}");
}

/// The summary is a value of the checkpoint: a fork has it, and going back does not.
#[tokio::test]
async fn compaction_record_is_forked_and_undone() {
    let limit = 1_500;
    let model = provider(limit, summing_up);
    let chat = chat(Some(limit)).checkpointer(MemorySaver::new());
    let mut before = None;
    let after = loop {
        let out = say(&chat, &model, &"tell me more ".repeat(20)).await;
        let state = chat.state("t").await.unwrap();
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
    chat.update_state("t", undone).await.unwrap();
    let count = model.requests().len();
    let out = say(&chat, &model, "again").await;
    let sent = model.requests()[count].messages.len();
    assert_eq!(sent, out.state().messages.len(), "instructions and all but the answer");
    let mut out = out;
    while out.state().compaction.is_none() {
        out = say(&chat, &model, &"tell me more ".repeat(20)).await;
    }
    assert!(model.requests()[count..].iter().any(is_summary));
    // The earlier checkpoint still exists.
    let fork = chat.states("t").await.unwrap();
    assert!(fork.iter().any(|state| state.values.compaction == after.values.compaction));
}

#[tokio::test]
async fn summaries_are_counted_and_not_streamed() {
    let limit = 1_500;
    let model = provider(limit, summing_up);
    let chat = chat(Some(limit)).checkpointer(MemorySaver::new());
    let mut record = None;
    while record.is_none() {
        let context = BaseContext::new(model.clone()).budget(Budget::new().model_calls(5));
        let budget = context.budget.clone().unwrap();
        let asked = model.call_count();
        let text = Message::user("tell me more ".repeat(20));
        let mut stream = chat.stream(text).thread("t").context(context).modes([StreamMode::Messages]);
        let mut heard = Vec::new();
        while let Some(event) = stream.next().await {
            heard.push(format!("{event:?}"));
        }
        let out = stream.outcome().await.unwrap();
        assert!(!heard.concat().contains("They talked"), "{heard:?}");
        assert_eq!(budget.spent().model_calls, (model.call_count() - asked) as u64);
        record = out.state().compaction.clone().filter(|record| record.cut.is_some());
    }
    assert!(record.unwrap().usage.input_tokens > 0);
    // With one call left, the answer needs it, so no summary is made.
    let (chat, model) = (self::chat(None).checkpointer(MemorySaver::new()), provider(300, summing_up));
    let long: Vec<_> = (0..40).map(|turn| Message::user(format!("this is turn {turn} of many"))).collect();
    let context = BaseContext::new(model.clone()).budget(Budget::new().model_calls(1));
    let input = BaseState::update().messages(long);
    let out = chat.invoke(input).thread("t").context(context).await;
    assert!(!model.requests().iter().any(is_summary), "{out:?}");
}

/// Members that report ask with messages of the user, and have their prompt in the conversation.
#[tokio::test]
async fn reporting_agents_stay_within_the_limit() {
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
        let out = graph.invoke(input).thread("t").context(BaseContext::new(model.clone())).await.unwrap();
        assert_eq!(out.ending(), Some(&AgentEnd::Report));
        assert!(out.state().compaction.is_some());
        assert!(model.requests().iter().all(|request| tokens(request) <= limit));
    }
}

/// A run that continues after a crash does not pay again for a recorded summary.
#[tokio::test]
async fn summary_survives_a_crash_before_the_answer() {
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
        let out = chat().invoke(Message::user("tell me more ".repeat(20))).thread("t").context(context).await;
        if out.is_err() {
            break;
        }
    }
    let summaries = || model.requests().iter().filter(|request| is_summary(request)).count();
    let paid = summaries();
    assert!(paid > 0);
    let out = chat().invoke(()).thread("t").context(BaseContext::new(model.clone())).await.unwrap();
    assert_eq!((summaries(), &*out.state().compaction.as_ref().unwrap().summary), (paid, "They talked."));
}

/// A retry around the layer passes the call on again, and the summary that was recorded is not paid for again.
#[tokio::test(start_paused = true)]
async fn retry_requests_the_summary_once() {
    let failures = Arc::new(AtomicUsize::new(0));
    let fails = failures.clone();
    let model = ScriptedModel::try_reacting(move |request| {
        if is_summary(request) {
            fails.store(3, Ordering::Relaxed);
            return Ok(Message::assistant("They talked."));
        }
        if fails.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok() {
            let reason = "gone".to_owned();
            return Err(ModelError::Unavailable { model: "fake".to_owned(), reason, source: None });
        }
        Ok(Message::assistant("Yes.").with_usage(Usage::new(tokens(request), 1)))
    });
    let retry = Retry { jitter: 0.0, ..Retry::attempts(4) };
    let chat = AgentBuilder::<BaseState>::new("chat").layer(retry).layer(Compact::new().context_tokens(1_500));
    let chat = chat.compile().unwrap().checkpointer(MemorySaver::new());
    let summaries = || model.requests().iter().filter(|request| is_summary(request)).count();
    while summaries() == 0 {
        let asked = model.call_count();
        let context = BaseContext::new(model.clone());
        let out = chat.invoke(Message::user("tell me more ".repeat(20))).thread("t").context(context).await.unwrap();
        assert_eq!(out.ending(), Some(&AgentEnd::Text));
        let (paid, asked) = (summaries(), model.call_count() - asked);
        assert_eq!(asked, if paid == 0 { 1 } else { paid + 4 }, "each summary once, and four tries: {paid}");
    }
    assert_eq!(failures.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn summary_uses_the_configured_model() {
    let (smart, cheap) = (provider(1_500, summing_up), provider(1_500, summing_up).named("cheap"));
    let compact = Compact::<Desk>::new().context_tokens(1_500).by(|desk: &Desk| &desk.cheap);
    let agent = AgentBuilder::<BaseState, Desk>::new("chat").layer(compact);
    let chat = agent.compile().unwrap().checkpointer(MemorySaver::new());
    let by = loop {
        let desk = Desk { base: BaseContext::new(smart.clone()), cheap: cheap.clone() };
        let text = Message::user("tell me more ".repeat(20));
        let out = chat.invoke(text).thread("t").context(desk).await.unwrap();
        if let Some(record) = &out.state().compaction {
            break record.by.clone();
        }
    };
    assert_eq!((&*by, cheap.requests().iter().all(is_summary)), ("cheap", true));
    assert!(!smart.requests().iter().any(is_summary));
}

/// If a message is sent at its own position, the summary does not contain it.
#[tokio::test]
async fn last_user_message_is_sent_once() {
    let limit = 1_500;
    let model = provider(limit, summing_up);
    let chat = chat(Some(limit)).checkpointer(MemorySaver::new());
    for turn in 0..20 {
        let text = format!("turn {turn}: ");
        let out = say(&chat, &model, &(text.clone() + &"and so on ".repeat(40))).await;
        let sent: String = model.requests().last().unwrap().messages.iter().map(Message::text).collect();
        assert_eq!(sent.matches(&text).count(), 1, "{turn}: {sent}");
        if turn == 19 {
            assert!(out.state().compaction.as_ref().is_some_and(|record| record.cut.is_some()));
            assert_eq!(sent.matches("turn 0: ").count(), 1, "the first message is sent, too");
        }
    }
}

/// A token of most languages is longer than a letter, and a token of Chinese is not.
#[tokio::test]
async fn long_summary_is_cut_off_in_all_languages() {
    for (written, most) in [("谈话。".repeat(240), 200), ("They talked. ".repeat(240), 800)] {
        let answer = written.clone();
        let model = provider(3_000, move |request| {
            Message::assistant(if is_summary(request) { answer.clone() } else { "Yes.".to_owned() })
        });
        let chat = chat(Some(1_500)).checkpointer(MemorySaver::new());
        let record = loop {
            let out = say(&chat, &model, &"tell me more ".repeat(20)).await;
            if let Some(record) = out.state().compaction.clone().filter(|record| record.cut.is_some()) {
                break record;
            }
        };
        let length = record.summary.chars().count();
        assert!(record.summary.ends_with('…') && length <= most, "{length} of {}", written.chars().count());
    }
}
