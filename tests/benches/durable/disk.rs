//! The size of a conversation on disk: 200 turns of messages of 2 KB.

use criterion::Criterion;
use hier_agents::prelude::*;
use hier_sqlite::Sqlite;

use super::runtime;

const TURNS: usize = 200;
const SIZE: usize = 2_048;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Talk {
    #[reducer(messages)]
    messages: Messages,
}

graph! {
    Chat<Talk> = Graph { nodes: [answer], edges: [START >> answer >> END] }
}

/// A text that does not compress.
fn text(seed: usize) -> String {
    let mut state = seed as u64 ^ 0x9e37_79b9_7f4a_7c15;
    let mut letter = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        char::from(b'0' + u8::try_from(state >> 58).unwrap_or_default())
    };
    (0..SIZE).map(|_| letter()).collect()
}

async fn answer(state: &Talk) -> TalkUpdate {
    Talk::update().messages(Message::assistant(text(state.messages.len())))
}

pub(crate) fn benches(_criterion: &mut Criterion) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("talk.db");
    let messages = runtime().block_on(async {
        let saver = Sqlite::open(&path).await.expect("a database");
        let graph = Chat::compile().checkpointer(saver.clone());
        let mut count = 0;
        for turn in 0..TURNS {
            let input = Talk::update().messages(Message::user(text(turn + 1_000_000)));
            let outcome = graph.invoke(input).thread("talk").await.expect("a turn");
            count = outcome.state().messages.len();
        }
        drop(graph);
        saver.close().await.expect("a closed file");
        count
    });
    let bytes = std::fs::metadata(&path).expect("the file").len();
    let said = (messages * SIZE) as u64;
    #[allow(clippy::cast_precision_loss)] // two digits are shown
    let ratio = bytes as f64 / said as f64;
    println!("{TURNS} turns, {messages} messages of {SIZE} bytes: {bytes} bytes on disk, {ratio:.2} of the messages");
}
