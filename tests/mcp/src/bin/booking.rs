//! One process of a booking: `booking DATABASE PEER COUNTS [ANSWER]`. Without an answer it starts the booking; with an answer (JSON) it
//! resumes it. It prints the open question, or the answers of the tools.

use hier_agents::prelude::*;
use hier_mcp_tests::agent::{Helper, answers, desk, peer};
use hier_sqlite::Sqlite;
use serde_json::{Value, json};

#[tokio::main(flavor = "current_thread")]
async fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [database, program, counts, rest @ ..] = args.as_slice() else {
        return Err("DATABASE PEER COUNTS [ANSWER]".into());
    };
    let saver = Sqlite::open(database).await?;
    let helper = Helper::compile().checkpointer(saver);
    let client = peer(program, counts.as_ref()).build()?;
    let thread = || Config::new().thread("trip");
    let out = match rest {
        [] => {
            let context = desk(&client, [Message::call("book_trip", json!({"text": "x"}))]);
            helper.invoke(Message::user("Book me a trip.")).config(thread()).context(context).await?
        }
        [answer, ..] => {
            let answer: Value = serde_json::from_str(answer)?;
            helper
                .invoke(Command::resume(answer))
                .config(thread())
                .context(desk(&client, [Message::assistant("Done.")]))
                .await?
        }
    };
    match &out {
        Outcome::Interrupted(asked) => {
            let asked = &asked.questions[0];
            println!("{}", json!({"asked": asked.value, "schema": asked.schema}));
        }
        _ => println!("{}", json!({"answers": answers(&out)})),
    }
    Ok(())
}
