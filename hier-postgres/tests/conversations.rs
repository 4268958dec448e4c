//! Conversations that are cached between runs while another process uses the same threads.
//!
//! On Postgres with a server: `scripts/postgres.sh test -p hier-postgres`.

mod kit;

use std::sync::Arc;

use hier_core::checkpoint::Checkpointer;
use hier_core::message::{Message, Messages};
use hier_core::prelude::*;
use hier_core::runs::{NewThread, RunStore};
use hier_sqlite::Sqlite;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Chat {
    #[reducer(messages)]
    messages: Messages,
}

graph! {
    Talk<Chat> = Graph { nodes: [answer], edges: [START >> answer >> END] }
}

async fn answer(chat: &Chat) -> ChatUpdate {
    Chat::update().messages(Message::assistant(chat.messages.len().to_string()))
}

/// Says something, and returns the conversation after the answer.
async fn say(saver: &Arc<impl Checkpointer>, thread: &str, text: &str) -> Vec<String> {
    let graph = Talk::compile().checkpointer(saver.clone());
    let said = Chat::update().messages(Messages::from(text));
    let out = graph.invoke(said).thread(thread).await.expect("a run");
    let stored = graph.state(thread).await.expect("the thread");
    assert_eq!(out.state().messages, stored.values.messages, "the cache equals the stored conversation");
    out.state().messages.iter().map(Message::text).collect()
}

fn kept(saver: &Arc<impl Checkpointer>) -> usize {
    saver.capabilities().cache.unwrap().conversations().expect("it keeps conversations").len()
}

/// Two handles, as of two processes.
async fn interleaved<S: RunStore>([one, other]: [Arc<S>; 2]) {
    let thread = &*uuid::Uuid::new_v4().to_string();
    say(&one, thread, "a").await;
    say(&one, thread, "b").await;
    assert_eq!((kept(&one), kept(&other)), (1, 0));
    assert_eq!(say(&other, thread, "c").await, ["a", "1", "b", "3", "c", "5"]);
    assert_eq!(say(&one, thread, "d").await, ["a", "1", "b", "3", "c", "5", "d", "7"]);
    assert_eq!(say(&one, thread, "e").await.len(), 10);
    assert_eq!(say(&other, thread, "f").await.len(), 12, "it is kept by both");
    // One that another process has deleted is not gone on with.
    other.delete_thread(thread).await.expect("a deletion");
    assert_eq!((kept(&one), kept(&other)), (1, 0));
    assert_eq!(say(&one, thread, "g").await, ["g", "1"]);
    assert_eq!(kept(&one), 0);
    // Any of these deletes it here.
    let copy = &*uuid::Uuid::new_v4().to_string();
    for way in 0..3 {
        say(&one, thread, "h").await;
        say(&one, thread, "i").await;
        assert_eq!(kept(&one), 1, "{way}");
        match way {
            0 => one.delete_thread(thread).await.expect("a deletion"),
            1 => one.admin().expect("copies").copy_thread(copy, thread).await.expect("a copy"),
            _ => {
                one.driver().create_thread(NewThread::new(thread)).await.expect("a row");
                assert!(one.driver().remove_thread(thread).await.expect("a deletion"));
            }
        }
        assert_eq!(kept(&one), 0, "{way}");
    }
}

#[tokio::test]
async fn cache_is_correct_for_two_handles_of_a_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let open = || async { Arc::new(Sqlite::open(folder.path().join("chat.db")).await.expect("a file")) };
    interleaved([open().await, open().await]).await;
}

#[tokio::test]
async fn zero_limit_disables_the_cache() {
    let saver = Arc::new(Sqlite::options().keep_conversations(0).in_memory().await.expect("a database"));
    for _ in 0..3 {
        say(&saver, "t", "a").await;
    }
    assert_eq!(kept(&saver), 0);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Postgres: run ./scripts/test.sh"]
async fn cache_is_correct_for_two_handles_of_a_schema() {
    let url = kit::server::server();
    let connect = || async {
        let saver = hier_postgres::Postgres::options().schema("conversations").connect(&url).await.expect("the server");
        saver.migrate().await.expect("the tables");
        Arc::new(saver)
    };
    interleaved([connect().await, connect().await]).await;
}
