//! Commands that change a database: fork, prune and discard.

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn fork_continues_independently() {
    let desk = Desk::new().await;
    assert_eq!(desk.hier(&["fork", "case-17", "copy"]).status.code(), Some(0));
    assert_eq!(desk.ids("copy").await, desk.ids("case-17").await);
    desk.run("copy", hier_core::graph::Command::resume(false)).await;
    assert_eq!(desk.json(&["state", "copy"])["values"]["approved"], false);
    assert_eq!(desk.json(&["state", "case-17"])["next"], json!(["ask"]));
    let again = desk.hier(&["fork", "case-17", "copy"]);
    assert!(again.status.code() == Some(2) && err(&again).contains("--replace"), "{}", err(&again));
    assert_eq!(desk.json(&["state", "copy"])["values"]["approved"], false);
    assert_eq!(desk.hier(&["fork", "case-17", "copy", "--replace"]).status.code(), Some(0));
    assert_eq!(desk.json(&["state", "copy"])["next"], json!(["ask"]));
}

#[tokio::test(flavor = "multi_thread")]
async fn fork_refuses_names_that_no_new_thread_may_have() {
    let desk = Desk::new().await;
    let before = desk.json(&["threads"]);
    for (name, text) in [("x/background/y", "give a name without `/background/`"), ("", "at least one character")] {
        for more in [&[][..], &["--replace"]] {
            let refused = desk.hier(&[&["fork", "case-17", name], more].concat());
            assert!(!refused.status.success() && err(&refused).contains(text), "{}", err(&refused));
        }
    }
    assert_eq!(desk.json(&["threads"]), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn fork_from_a_checkpoint_repeats_later_steps() {
    let desk = Desk::new().await;
    let history = desk.json(&["history", "case-17"]);
    let after_check = history.as_array().and_then(|all| all.iter().find(|it| it["step"] == 1)).expect("step 1");
    let id = after_check["checkpoint"].as_str().expect("an id");
    let forked = desk.json(&["fork", "case-17", "copy", "--checkpoint", id]);
    let state = desk.json(&["state", "copy"]);
    assert_eq!(state["checkpoint"], forked["checkpoint"]);
    assert_eq!((&state["source"], &state["parent"], &state["step"]), (&json!("fork"), &json!(id), &json!(2)));
    assert_eq!((&state["next"], &state["tasks"]), (&json!(["count", "count"]), &json!([])));
    desk.run("copy", ()).await;
    let state = desk.json(&["state", "copy"]);
    assert_eq!(state["next"], json!(["ask"]));
    assert_eq!(state["values"]["log"].as_array().map(Vec::len), Some(3));
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_fork_from_a_checkpoint_changes_no_thread() {
    let desk = Desk::new().await;
    desk.run("other", Case::update().amount(3.0)).await;
    let (threads, other) = (desk.json(&["threads"]), desk.ids("other").await);
    let id = desk.ids("case-17").await.pop().expect("a checkpoint");
    // Only the new checkpoint of a fork belongs to a thread that was claimed after it was copied.
    let full = "create trigger full before insert on blobs
        when (select holder from threads join spaces on spaces.thread = threads.key where spaces.key = new.space) = 'hier fork'
        begin select raise(abort, 'the disk is full'); end";
    rusqlite::Connection::open(desk.path()).expect("the file").execute_batch(full).expect("a trigger");
    for new in [&["copy"][..], &["other", "--replace"]] {
        let failed = desk.hier(&[&["fork", "case-17", "--checkpoint", &id], new].concat());
        assert!(!failed.status.success() && err(&failed).contains("the disk is full"), "{}", err(&failed));
        assert_eq!((desk.json(&["threads"]), desk.ids("other").await), (threads.clone(), other.clone()), "{new:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn fork_keeps_unread_messages_unless_asked() {
    use hier_core::graph::Signal;

    let desk = Desk::new().await;
    let graph = Approval::compile().checkpointer(desk.saver.clone());
    graph.send("later", Signal::new("paid", &17)).await.expect("it is sent");
    for more in [&[][..], &["--checkpoint", &desk.ids("case-17").await[0]]] {
        let refused = desk.hier(&[&["fork", "case-17", "later"], more].concat());
        assert_eq!(refused.status.code(), Some(2));
        let text =
            "error: thread `later` has unread messages: choose another name, or delete the messages with `--replace`\n";
        assert_eq!(err(&refused), text);
    }
    assert_eq!(desk.saver.inbox().unwrap().messages("later").await.unwrap().len(), 1);
    assert_eq!(desk.hier(&["fork", "case-17", "later", "--replace"]).status.code(), Some(0));
    assert_eq!(desk.json(&["inbox", "list", "later"]), json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn fork_and_discard_keep_the_time_to_live() {
    use hier_core::graph::{Signal, ThreadMessage};

    let desk = Desk::new().await;
    let graph = Approval::compile().checkpointer(desk.saver.clone());
    let run = graph.invoke(Case::update()).thread("short").time_to_live(std::time::Duration::from_hours(1));
    let _ = run.await.expect("a run");
    let id = uuid::Uuid::from_u128(7);
    graph.send("short", ThreadMessage::from(Signal::new("paid", &17)).id(id)).await.expect("it is sent");
    assert_eq!(desk.hier(&["inbox", "discard", "short", &id.to_string()]).status.code(), Some(0));
    let checkpoint = &desk.ids("short").await[1];
    for more in [&[][..], &["--replace"]] {
        let forked = desk.hier(&[&["fork", "short", "copy", "--checkpoint", checkpoint], more].concat());
        assert_eq!(forked.status.code(), Some(0), "{}", err(&forked));
        let expiring = |it: &&Value| !it["expires"].is_null();
        let threads = desk.json(&["threads"]);
        let found: Vec<_> = threads.as_array().unwrap().iter().filter(expiring).map(|it| &it["thread"]).collect();
        assert_eq!(found, ["copy", "short"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn fork_deletes_the_drafts_of_killed_commands() {
    let desk = Desk::new().await;
    let draft = |minutes: u64| {
        let at = std::time::SystemTime::now() - std::time::Duration::from_mins(minutes);
        let at = at.duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
        format!("hier fork {}", uuid::Uuid::new_v6(uuid::Timestamp::from_unix(uuid::NoContext, at, 0), &[0; 6]))
    };
    let (old, young) = (draft(61), draft(59));
    for draft in [&old, &young] {
        assert_eq!(desk.hier(&["fork", "case-17", draft]).status.code(), Some(0));
    }
    assert_eq!(desk.hier(&["fork", "case-17", "copy"]).status.code(), Some(0));
    let threads = desk.json(&["threads"]);
    let mut names: Vec<_> = threads.as_array().unwrap().iter().map(|it| it["thread"].as_str().unwrap()).collect();
    names.sort_unstable();
    assert_eq!(names, ["case-17", "copy", &young]);
}

/// The command of a draft was killed, and its user copies the draft, or replaces it.
#[tokio::test(flavor = "multi_thread")]
async fn fork_keeps_an_old_draft_that_it_names() {
    let desk = Desk::new().await;
    let old = || {
        let at = std::time::SystemTime::now() - std::time::Duration::from_hours(2);
        let at = at.duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
        let node = uuid::Uuid::new_v4().as_bytes()[..6].try_into().unwrap();
        format!("hier fork {}", uuid::Uuid::new_v6(uuid::Timestamp::from_unix(uuid::NoContext, at, 0), &node))
    };
    let (draft, other) = (old(), old());
    assert_eq!(desk.hier(&["fork", "case-17", &draft]).status.code(), Some(0));
    let copied = desk.hier(&["fork", &draft, "copy"]);
    assert_eq!(copied.status.code(), Some(0), "{}", err(&copied));
    assert_eq!(desk.ids("copy").await, desk.ids("case-17").await);
    assert_eq!(desk.ids(&draft).await, desk.ids("case-17").await);
    let id = desk.ids("copy").await[0].clone();
    let replaced = desk.hier(&["fork", "copy", &draft, "--replace", "--checkpoint", &id]);
    assert_eq!(replaced.status.code(), Some(0), "{}", err(&replaced));
    // A command that fails deletes nothing.
    assert_eq!(desk.hier(&["fork", "copy", &other]).status.code(), Some(0));
    assert_eq!(desk.hier(&["fork", "missing", "another"]).status.code(), Some(1));
    assert_eq!(desk.ids(&other).await, desk.ids("copy").await);
    assert_eq!(desk.hier(&["fork", "case-17", "another"]).status.code(), Some(0));
    assert_eq!(desk.ids(&other).await.len() + desk.ids(&draft).await.len(), 0, "now they are deleted");
}

#[tokio::test(flavor = "multi_thread")]
async fn pruning_keeps_the_requested_checkpoints() {
    let desk = Desk::new().await;
    desk.run("other", Case::update()).await;
    let (before, other) = (desk.ids("case-17").await, desk.ids("other").await);
    let young = desk.json(&["prune", "case-17", "--delete", "--older-than", "7d"]);
    assert_eq!(young, json!({ "deleted": 0 }));
    let output = desk.hier(&["prune", "case-17", "--keep", "2"]);
    assert_eq!(out(&output), format!("deleted {} checkpoints\n", before.len() - 2));
    assert_eq!(desk.ids("case-17").await, before[..2]);
    assert_eq!(desk.ids("other").await, other);
    assert_eq!(desk.json(&["state", "case-17"])["values"]["log"].as_array().map(Vec::len), Some(3));
    assert_eq!(desk.json(&["prune", "--keep-latest"])["deleted"], json!(other.len()));
    let all = desk.hier(&["prune", "--delete"]);
    assert!(all.status.code() == Some(2) && err(&all).contains("--all"), "{}", err(&all));
    assert_eq!(desk.ids("other").await.len(), 1);
    assert_eq!(desk.json(&["prune", "--delete", "--all"]), json!({ "deleted": 2 }));
    let none = desk.hier(&["threads"]);
    assert_eq!((none.status.code(), err(&none).as_str()), (Some(1), "error: the database has no threads\n"));
    assert_eq!(desk.json(&["threads"]), json!([]));
    assert_eq!(desk.hier(&["prune"]).status.code(), Some(2));
    assert_eq!(desk.hier(&["prune", "--keep", "1", "--delete"]).status.code(), Some(2));
}

#[tokio::test(flavor = "multi_thread")]
async fn unreadable_signal_is_discarded() {
    use hier_core::graph::{Signal, ThreadMessage};

    let desk = Desk::new().await;
    let graph = Approval::compile().checkpointer(desk.saver.clone());
    let id = uuid::Uuid::from_u128(7);
    graph.send("case-17", ThreadMessage::from(Signal::new("paid", &17)).id(id)).await.expect("it is sent");
    assert_eq!(desk.json(&["inbox", "list", "case-17"]), json!([{ "id": id, "signal": "paid", "value": 17 }]));
    let text = out(&desk.hier(&["inbox", "list", "case-17"]));
    assert_eq!(text, format!("{id}  signal `paid`  17\n"));
    let wrong = desk.hier(&["inbox", "discard", "case-17", &uuid::Uuid::from_u128(8).to_string()]);
    assert!(err(&wrong).contains("`hier inbox list` shows the ids"), "{}", err(&wrong));
    assert_eq!(
        out(&desk.hier(&["inbox", "discard", "case-17", &id.to_string()])),
        format!("discarded `{id}` from the inbox of `case-17`\n")
    );
    let empty = desk.hier(&["inbox", "list", "case-17"]);
    assert!(err(&empty).contains("the inbox of `case-17` is empty"), "{}", err(&empty));
    assert_eq!(desk.json(&["inbox", "list", "case-17"]), json!([]));
}
