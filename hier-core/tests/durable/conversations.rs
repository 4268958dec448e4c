//! Conversations that stay in memory between runs: a run continues from the stored state, whatever happened to the thread in between.

use std::sync::{Arc, Mutex};

use hier_core::checkpoint::{
    CheckpointCache, Checkpointer, Claim, Conversations, MemorySaver, Prune, Strategy, ThreadAdmin, WhenRunning,
    WriteRecord,
};
use hier_core::graph::CompiledGraph;
use hier_core::message::{Message, Messages};
use hier_core::prelude::*;
use hier_core::{Durability, Result, StateUpdate};

/// Declares a graph with these channels.
macro_rules! chat {
    ($module:ident, $(#[$state:meta])* $extra:ident: $type:ty) => {
        mod $module {
            use super::*;

            #[derive(State, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
            $(#[$state])*
            pub(super) struct Chat {
                #[reducer(messages)]
                pub(super) messages: Messages,
/// A channel of the same type, without a reducer.
                pub(super) last: Messages,
                /// A value that is written twice occurs twice.
                #[reducer(with = behind)]
                pub(super) notes: Messages,
                #[channel(untracked)]
                #[serde(skip)]
                pub(super) scratch: Messages,
                pub(super) $extra: $type,
            }

            graph! {
                pub(super) Talk<Chat, Heard> = Graph {
                    name: "talk",
                    nodes: [listen, answer],
                    edges: [START >> listen >> answer >> END],
                }
            }

            /// Reports its input.
            async fn listen(state: &Chat, run: &Run<Heard>) -> ChatUpdate {
                run.context().0.lock().unwrap().push((texts(&state.messages), state.scratch.len()));
                Chat::update().last(state.messages.clone()).scratch(Messages::from("never stored"))
            }

            /// Answers, or fails or asks as configured.
            async fn answer(state: &Chat, run: &Run<Heard>) -> Result<ChatUpdate> {
                let said = state.messages.last().map(Message::text).unwrap_or_default();
                match &*said {
                    "fail" => return Err("it was requested".into()),
                    "ask" => {
                        let answer: String = run.interrupt(&"what?").await?;
                        return Ok(Chat::update().messages(Message::assistant(format!("you said {answer}"))));
                    }
                    "forget" => return Ok(Chat::update().messages([Message::remove_all(), Message::user("anew")])),
                    _ => {}
                }
                Ok(Chat::update().messages(Message::assistant(format!("re: {said}"))))
            }
        }
    };
}

chat!(v1, turns: u32);
chat!(v2, #[state(version = 2, migrate = count)] count: u32);

/// A custom reducer.
fn behind(notes: &mut Messages, new: Messages) {
    let all: Vec<Message> = [std::mem::take(notes), new].iter().flat_map(Messages::iter).cloned().collect();
    *notes = all.into_iter().map(|note| note.with_id(fresh())).collect();
}

fn fresh() -> String {
    uuid::Uuid::new_v4().to_string()
}

/// `turns` is called `count` now, and of the messages only the first is left.
fn count(stored: &mut serde_json::Map<String, serde_json::Value>) -> Result<()> {
    let turns = stored.remove("turns").ok_or("version 1 counts its turns")?;
    stored.insert("count".to_owned(), turns);
    let messages = stored.get_mut("messages").and_then(serde_json::Value::as_array_mut).ok_or("it has messages")?;
    messages.truncate(1);
    Ok(())
}

/// The inputs of the nodes: the conversation, and the length of the untracked one.
#[derive(Clone, Default)]
struct Heard(Arc<Mutex<Vec<Given>>>);

type Given = (Vec<String>, usize);

impl Heard {
    fn last(&self) -> Given {
        self.0.lock().unwrap().last().cloned().expect("a node has run")
    }
}

fn texts(messages: &Messages) -> Vec<String> {
    messages.iter().map(Message::text).collect()
}

fn kept(saver: &MemorySaver) -> &Conversations {
    saver.conversations().expect("it keeps conversations")
}

fn thread() -> Config {
    Config::new().thread("t")
}

/// Makes the stored conversation of a thread unreadable, under the ids that it has.
async fn spoil(saver: &MemorySaver, thread: &str) {
    let found = saver.get(thread, "", None).await.unwrap().expect("a checkpoint");
    let channel = found.checkpoint.channels.iter().position(|name| &**name == "messages").expect("the channel");
    let version = found.checkpoint.versions[channel];
    let mut spoilt = saver.get(thread, "", Some(version)).await.unwrap().expect("the storing program").checkpoint;
    spoilt.id = version;
    let lease = saver.acquire(thread, Claim::default()).await.unwrap();
    let piece = hier_core::checkpoint::ChannelBlob { channel, base: None, bytes: b"nothing of ours".to_vec() };
    let record = WriteRecord::Checkpoint { namespace: "".into(), checkpoint: Box::new(spoilt), pieces: vec![piece] };
    saver.commit(&lease, vec![record].into()).await.unwrap();
    saver.release(&lease).await.unwrap();
}

#[tokio::test]
async fn continued_thread_is_not_read_again() {
    let (saver, heard) = (MemorySaver::new(), Heard::default());
    let graph = v1::Talk::compile().checkpointer(saver.clone());
    let say = |text: &str| {
        graph.invoke(v1::Chat::update().messages(Messages::from(text))).config(thread()).context(heard.clone())
    };
    let _ = say("one").await.unwrap();
    assert!(kept(&saver).is_empty(), "a thread with a single run costs nothing");
    let _ = say("two").await.unwrap();
    assert_eq!(kept(&saver).len(), 1);
    spoil(&saver, "t").await;
    let _ = say("three").await.unwrap();
    assert_eq!(heard.last(), (["one", "re: one", "two", "re: two", "three"].map(String::from).to_vec(), 0));
    // Values that are not in memory are read.
    kept(&saver).forget_all();
    spoil(&saver, "t").await;
    let error = say("four").await.unwrap_err();
    assert!(error.to_string().contains("`messages` does not fit"), "{error}");
}

#[tokio::test]
async fn deleted_conversations_leave_the_cache() {
    let saver = MemorySaver::new();
    let graph = v1::Talk::compile().checkpointer(saver.clone());
    let all = Prune { strategy: Strategy::Delete, ..Prune::default() };
    let one = Prune { threads: Some(vec!["t".to_owned()]), ..all.clone() };
    for case in 0..5 {
        for _ in 0..2 {
            let config = thread().metadata("run_id", "r");
            let _ = graph
                .invoke(v1::Chat::update().messages(Messages::from("hi")))
                .config(config)
                .context(Heard::default())
                .await
                .unwrap();
        }
        assert_eq!(kept(&saver).len(), 1, "{case}");
        match case {
            0 => saver.delete_thread("t").await.unwrap(),
            1 => saver.copy_thread("another", "t").await.unwrap(),
            2 => saver.delete_for_runs(&["r".to_owned()]).await.unwrap(),
            3 => drop(saver.prune(one.clone()).await.unwrap()),
            _ => drop(saver.prune(all.clone()).await.unwrap()),
        }
        assert!(kept(&saver).is_empty(), "{case}");
    }
}

#[tokio::test]
async fn another_state_version_reads_everything() {
    let (saver, heard) = (MemorySaver::new(), Heard::default());
    let old = v1::Talk::compile().checkpointer(saver.clone());
    for text in ["one", "two"] {
        let input = v1::Chat::update().messages(Messages::from(text)).turns(7_u32);
        let _ = old.invoke(input).config(thread()).context(heard.clone()).await.unwrap();
    }
    assert_eq!(kept(&saver).len(), 1);
    let new = v2::Talk::compile().checkpointer(saver.clone());
    for number in 0..3 {
        let input = v2::Chat::update().messages(Messages::from("new"));
        let out = new.invoke(input).config(thread()).context(heard.clone()).await.unwrap();
        assert_eq!(out.state().count, 7);
        assert_eq!(heard.last().0[..2], ["one", "new"], "{number}");
    }
    assert_eq!(heard.last().0.len(), 6);
}

/// An operation on a thread.
#[derive(Clone, Copy, Debug)]
enum Do {
    Say(&'static str),
    Answer,
    Command,
    Update,
    Fork,
    Prune,
    Copy,
    Delete,
    Cancel,
}

const ALL: [Do; 16] = [
    Do::Say("hello"),
    Do::Say("hello"),
    Do::Say("hello"),
    Do::Say("hello"),
    Do::Say("fail"),
    Do::Say("ask"),
    Do::Say("ask"),
    Do::Say("forget"),
    Do::Answer,
    Do::Command,
    Do::Update,
    Do::Fork,
    Do::Prune,
    Do::Copy,
    Do::Delete,
    Do::Cancel,
];

type Talking = CompiledGraph<v1::Chat, Heard>;

/// Does something, and says how a run that it began ended.
async fn done(
    graph: &Talking,
    saver: &MemorySaver,
    what: Do,
    config: Config,
    dice: &mut fastrand::Rng,
) -> Option<v1::Chat> {
    let heard = Heard::default();
    let said = |text: &str| v1::Chat::update().messages(Messages::from(text));
    let outcome = match what {
        Do::Say(text) => graph.invoke(said(text)).config(config).context(heard.clone()).await,
        Do::Answer => graph.invoke(Command::resume("42")).config(config).context(heard.clone()).await,
        Do::Command => {
            let update = said("by command").notes(Messages::from("noted"));
            graph.invoke(Command::update(update)).config(config).context(heard.clone()).await
        }
        Do::Fork => {
            let states = graph.states(config.clone()).await.unwrap();
            let earlier = (!states.is_empty()).then(|| states[dice.usize(..states.len())].checkpoint).flatten();
            let config = earlier.map_or(config.clone(), |id| config.checkpoint(id));
            graph.invoke(said("from before")).config(config).context(heard.clone()).await
        }
        Do::Cancel => {
            let run = graph.invoke(said("cancelled")).config(config).context(heard.clone()).into_future();
            tokio::pin!(run);
            let _ = futures_util::poll!(run);
            return None;
        }
        Do::Update => {
            let _ = graph.update_state(config, StateUpdate::update(said("by update")).as_node("answer")).await;
            return None;
        }
        Do::Prune => {
            saver.prune(Prune { threads: Some(vec!["t".to_owned()]), ..Prune::default() }).await.unwrap();
            return None;
        }
        Do::Copy => {
            let (from, to) = if dice.bool() { ("t", "copy") } else { ("copy", "t") };
            saver.copy_thread(from, to).await.unwrap();
            return None;
        }
        Do::Delete => {
            if dice.u8(..4) == 0 {
                saver.delete_thread("t").await.unwrap();
            }
            return None;
        }
    };
    if !heard.0.lock().unwrap().is_empty() {
        assert_eq!(heard.last().1, 0, "unstored messages are not cached");
    }
    outcome.ok().map(Outcome::into_state)
}

/// Sequences of all operations on a thread: its runs end with the stored state, and see the same as a program without a cache.
#[tokio::test]
async fn cached_conversation_equals_the_stored_one() {
    let mut recalled = 0;
    for seed in 0..300 {
        let mut dice = fastrand::Rng::with_seed(seed);
        let saver = MemorySaver::new();
        let graph = v1::Talk::compile().checkpointer(saver.clone());
        let durability = [Durability::Sync, Durability::Async, Durability::Exit][dice.usize(..3)];
        for number in 0..14 {
            let what = ALL[dice.usize(..ALL.len())];
            let config = thread().durability(durability).when_running(WhenRunning::TakeOver);
            recalled += kept(&saver).len();
            let ended = done(&graph, &saver, what, config, &mut dice).await;
            let stored = graph.state(thread()).await.unwrap();
            let Some(ended) = ended else { continue };
            // A question leaves the command's writes next to the checkpoint. The snapshot has them too.
            assert_eq!(ended.messages, stored.values.messages, "seed {seed}, {number}: {what:?}");
            assert_eq!(ended.last, stored.values.last, "seed {seed}, {number}: {what:?}");
            assert_eq!(texts(&ended.notes), texts(&stored.values.notes), "seed {seed}, {number}: {what:?}");
        }
    }
    assert!(recalled > 500, "only {recalled} times something was in memory");
}

graph! {
    /// One node writes, the other one asks.
    Beside<v1::Chat> = Graph { nodes: [write, ask], edges: [START >> [write, ask], write >> END, ask >> END] }
}

async fn write() -> v1::ChatUpdate {
    v1::Chat::update().messages(Message::assistant("written")).notes(Messages::from("noted"))
}

async fn ask(run: &Run) -> Result<()> {
    let _: String = run.interrupt(&"what?").await?;
    Ok(())
}

/// The outcome of a run that asks shows the results of the other tasks, which are not part of the stored conversation yet.
#[tokio::test]
async fn results_next_to_a_question_are_not_cached() {
    let saver = MemorySaver::new();
    let graph = Beside::compile().checkpointer(saver.clone());
    let say = |text: &str| graph.invoke(v1::Chat::update().messages(Messages::from(text))).config(thread());
    let notes = |outcome: &Outcome<v1::Chat>| texts(&outcome.state().notes);
    let shown = say("one").await.unwrap();
    assert_eq!(
        (texts(&shown.state().messages), notes(&shown)),
        (vec!["one".into(), "written".into()], vec!["noted".into()])
    );
    // A new input drops what the step has done so far.
    let shown = say("two").await.unwrap();
    assert_eq!(texts(&shown.state().messages), ["one", "two", "written"]);
    let shown = say("three").await.unwrap();
    assert_eq!(texts(&shown.state().messages), ["one", "two", "three", "written"]);
    assert_eq!(notes(&shown), ["noted"]);
    let ended = graph.invoke(Command::resume("yes")).config(thread()).await.unwrap();
    assert_eq!(texts(&ended.state().messages), ["one", "two", "three", "written"]);
    assert_eq!(notes(&ended), ["noted"], "the result is applied once");
    let stored = graph.state(thread()).await.unwrap().values;
    assert_eq!((&ended.state().messages, &ended.state().notes), (&stored.messages, &stored.notes));
}
