//! Servers that are programs.

use std::time::Duration;

use hier_agents::prelude::*;
use hier_agents::{AgentBuilder, Body, Content, Part, Toolset, TrustLabels};
use hier_core::Result;
use hier_core::checkpoint::MemorySaver;
use hier_mcp::{McpClient, McpError};
use hier_mcp_tests::agent::{Helper, answers, desk};
use hier_testkit::ScriptedModel;
use serde_json::json;

use crate::{Counts, called, peer};

#[tokio::test]
async fn tools_of_all_pages_are_listed() -> Result<()> {
    let counts = Counts::new();
    let client = peer(&counts).prefix("p_").only(["echo", "book.trip", "refuse"]).build().unwrap();
    let names: Vec<String> = client.tools().await?.iter().map(|tool| tool.name.clone()).collect();
    assert_eq!(names, ["p_echo", "p_book_trip", "p_refuse"]);
    assert_eq!(counts.all(), ["start", "list", "list", "list", "list"], "it is started once, and has four pages");
    assert_eq!(called(&client, "p_echo", json!({"text": "hello"})).await.unwrap(), "hello");
    Ok(())
}

#[tokio::test]
async fn model_receives_tool_failures_and_server_refusals() {
    let counts = Counts::new();
    let client = peer(&counts).build().unwrap();
    assert_eq!(called(&client, "fail", json!({})).await.unwrap(), "Error: the archive is closed");
    assert_eq!(called(&client, "refuse", json!({})).await.unwrap(), "Error: `text` is too short");
    let unknown = called(&client, "nothing", json!({})).await.unwrap();
    assert!(unknown.starts_with("Error: nothing is not a valid tool, try one of [echo, book_trip"), "{unknown}");
}

#[tokio::test]
async fn results_are_bounded_and_can_contain_images() -> Result<()> {
    let counts = Counts::new();
    let client = peer(&counts).max_text(1_000).build().unwrap();
    let long = called(&client, "long", json!({})).await.unwrap();
    assert!(
        long.ends_with("[299000 more bytes of this result are omitted: request less]"),
        "{}",
        &long[long.len() - 99..]
    );

    let context = desk(&client, [Message::call("picture", json!({})), Message::assistant("Done.")]);
    let out = Helper::compile().invoke(Message::user("Go.")).context(context).await?;
    let result = out.state().messages.iter().find(|message| message.tool_call_id().is_some()).unwrap();
    let Body::Tool { content, .. } = &result.body else { panic!("{result:?}") };
    let parts = [Part::text("a dot"), Part::image_data("image/png", "aGk="), Part::text("{\"dots\":1}")];
    assert_eq!(*content, Content::parts(parts));
    let client = peer(&counts).max_media(3).build().unwrap();
    let noted = called(&client, "picture", json!({})).await.unwrap();
    assert!(noted.contains("[image (image/png) omitted: 4 bytes exceed the limit of 3]"), "{noted}");
    Ok(())
}

#[tokio::test]
async fn program_starts_in_its_folder() {
    let counts = Counts::new();
    let shell = McpClient::stdio("shell", "/bin/sh").args(["-c", "pwd -P >&2; exit 1"]);
    let client = shell.dir(counts.folder().display().to_string()).build().unwrap();
    let failed = client.tools().await.unwrap_err().to_string();
    let folder = counts.folder().canonicalize().unwrap();
    assert!(failed.contains(&*folder.to_string_lossy()), "{failed}");
}

#[tokio::test]
async fn conversation_gets_the_labels_of_the_server() -> Result<()> {
    let counts = Counts::new();
    for (client, labels) in
        [(peer(&counts), TrustLabels::UNTRUSTED), (peer(&counts).labels(TrustLabels::PRIVATE), TrustLabels::PRIVATE)]
    {
        let answers = [Message::call("echo", json!({"text": "hello"})), Message::assistant("Done.")];
        let context = desk(&client.build().unwrap(), answers);
        let out = Helper::compile().invoke(Message::user("Go.")).context(context).await?;
        assert_eq!(out.state().trust_labels.labels(), labels);
    }
    Ok(())
}

#[tokio::test]
async fn child_environment_has_only_allowed_variables() {
    let counts = Counts::new();
    let client = peer(&counts).build().unwrap();
    assert_eq!(called(&client, "env", json!({})).await.unwrap(), "PEER_COUNTS");
    let client = peer(&counts).env("TOKEN", "t").pass_env(["PATH", "NO_SUCH_VARIABLE"]).build().unwrap();
    assert_eq!(called(&client, "env", json!({})).await.unwrap(), "PATH,PEER_COUNTS,TOKEN");
}

#[tokio::test]
async fn call_of_a_dying_server_is_not_repeated() {
    let counts = Counts::new();
    let client = peer(&counts).build().unwrap();
    let failed = called(&client, "crash", json!({})).await.unwrap_err().to_string();
    assert!(failed.contains("the MCP server `peer` disconnected during `tools/call crash`"), "{failed}");
    assert!(failed.contains("and may have executed it, so hier does not repeat it"), "{failed}");
    assert_eq!(called(&client, "echo", json!({"text": "again"})).await.unwrap(), "again");
    assert_eq!(counts.done(), ["start", "crash -", "start", "echo -"]);
}

#[tokio::test]
async fn slow_call_times_out_and_is_cancelled() {
    let counts = Counts::new();
    let client = peer(&counts).call_timeout(Duration::from_millis(100)).build().unwrap();
    let failed = called(&client, "slow", json!({})).await.unwrap_err().to_string();
    assert!(failed.contains("did not respond to `tools/call slow` within 100 ms"), "{failed}");
    counts.wait_for("cancelled").await;
}

#[tokio::test]
async fn cancelled_run_cancels_the_call() {
    let counts = Counts::new();
    let client = peer(&counts).build().unwrap();
    let call = called(&client, "slow", json!({}));
    tokio::select! {
        ended = call => panic!("{ended:?}"),
        () = counts.wait_for("slow -") => {}
    }
    counts.wait_for("cancelled").await;
}

#[tokio::test]
async fn child_ends_with_the_last_client() {
    let counts = Counts::new();
    let client = peer(&counts).build().unwrap();
    let other = client.clone();
    client.connect().await.unwrap();
    drop(client);
    assert_eq!(called(&other, "echo", json!({"text": "still there"})).await.unwrap(), "still there");
    drop(other);
    counts.wait_for("end").await;
}

#[cfg(target_os = "linux")]
#[test]
fn child_and_its_children_end_with_the_runtime() {
    let (counts, folder) = (Counts::new(), tempfile::tempdir().unwrap());
    let pids = folder.path().join("pids");
    // Neither the process nor its child ends when its input closes or when it receives a signal.
    let script = format!("trap '' TERM; sleep 1000 & echo $$ $! > '{}'; \"$1\"; sleep 1000", pids.display());
    let client =
        McpClient::stdio("stubborn", "/bin/sh").args(["-c", script.as_str(), "sh", env!("CARGO_BIN_EXE_peer")]);
    let client = client.env("PEER_COUNTS", counts.path().display().to_string()).pass_env(["PATH"]).build().unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async { client.connect().await.unwrap() });
    let pids = std::fs::read_to_string(pids).unwrap();
    let stat = |pid: &str| std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let is_alive = |pid: &str| !stat(pid).is_empty() && !stat(pid).contains(") Z ");
    assert!(pids.split_whitespace().all(is_alive), "{pids}");
    drop(runtime);
    let ended = std::time::Instant::now();
    while pids.split_whitespace().any(is_alive) {
        assert!(ended.elapsed() < Duration::from_secs(30), "{pids}: they are still there");
        std::thread::sleep(Duration::from_millis(10));
    }
    drop(client);
}

#[tokio::test]
async fn failed_start_reports_its_reason() {
    let client = McpClient::stdio("ghost", "/nowhere/at/all").build().unwrap();
    let failed = client.connect().await.unwrap_err();
    assert!(failed.is_transient());
    assert!(failed.to_string().starts_with("the MCP server `ghost` cannot be reached: "), "{failed}");
    // A program that is not a server, with its output.
    let client =
        McpClient::stdio("shell", "/bin/sh").args(["-c", "echo no such database >&2; exit 1"]).build().unwrap();
    let failed = client.connect().await.unwrap_err().to_string();
    assert!(failed.contains("the MCP server `shell` cannot be reached"), "{failed}");
    // One that is silent.
    let client = McpClient::stdio("mute", "/bin/sleep").arg("60").timeout(Duration::from_millis(100)).build().unwrap();
    let failed = client.connect().await.unwrap_err().to_string();
    assert!(failed.contains("it did not start within 100 ms"), "{failed}");
    let mistaken = McpClient::stdio("x", "y").bearer("z").build().unwrap_err();
    assert!(matches!(mistaken, McpError::Options { .. }));
    assert!(mistaken.to_string().contains("`bearer` applies to URLs, but this server is a program"), "{mistaken}");
}

#[tokio::test]
async fn tool_list_is_cached_for_the_servers_ttl() -> Result<()> {
    let counts = Counts::new();
    let client = peer(&counts).args(["--ttl", "60000"]).build().unwrap();
    client.tools().await?;
    let listed = counts.all().len();
    client.tools().await?;
    assert_eq!(counts.all().len(), listed);

    let counts = Counts::new();
    let client = peer(&counts).build().unwrap();
    client.tools().await?;
    let listed = counts.all().len();
    client.tools().await?;
    assert_eq!(counts.all().len(), 2 * listed - 1, "it is stale at once");
    Ok(())
}

#[tokio::test]
async fn resources_and_prompts_can_be_read() {
    let counts = Counts::new();
    let client = peer(&counts).build().unwrap();
    let resources = client.resources().await.unwrap();
    assert_eq!((resources[0].uri.as_str(), resources[0].name.as_str()), ("memo:1", "memo"));
    assert_eq!(client.read("memo:1").await.unwrap(), Content::from("remember the milk"));
    let prompts = client.prompts().await.unwrap();
    assert!(prompts[0].arguments[0].required);
    let messages = client.prompt("greet", [("who".to_owned(), "Anna".to_owned())]).await.unwrap();
    assert_eq!(messages[0].text(), "Greet \"Anna\"");
}

struct Two {
    base: BaseContext,
    first: McpClient,
    second: McpClient,
}

impl AsRef<BaseContext> for Two {
    fn as_ref(&self) -> &BaseContext {
        &self.base
    }
}

#[tokio::test]
async fn several_servers_are_used_together() -> Result<()> {
    let (one, two) = (Counts::new(), Counts::new());
    let build = AgentBuilder::<BaseState, Two>::new("both");
    let both = build.toolset(|two| &two.first).toolset(|two: &Two| &two.second).compile()?;
    let says = |tool: &str| Message::call(tool, json!({"text": tool}));
    let model = ScriptedModel::new([says("one_echo"), says("two_echo"), Message::assistant("Done.")]);
    let first = peer(&one).prefix("one_").build().unwrap();
    let second = peer(&two).prefix("two_").build().unwrap();
    let context = Two { base: BaseContext::new(model), first: first.clone(), second };
    let out = both.invoke(Message::user("Go.")).context(context).await?;
    assert_eq!(answers(&out), ["one_echo", "two_echo"]);
    assert_eq!(
        (one.done(), two.done()),
        (vec!["start".to_owned(), "echo -".to_owned()], vec!["start".to_owned(), "echo -".to_owned()])
    );

    // With equal names, they are an error that names both.
    let second = peer(&two).prefix("one_").build().unwrap();
    let context = Two { base: BaseContext::new(ScriptedModel::new([])), first, second };
    let failed = both.invoke(Message::user("Go.")).context(context).await.unwrap_err().to_string();
    assert!(
        failed.contains("the tool `one_echo` of the toolset `peer` has the name of the tool `one_echo`"),
        "{failed}"
    );
    Ok(())
}

#[tokio::test]
async fn calls_that_need_approval_wait_for_it() -> Result<()> {
    let counts = Counts::new();
    let client = peer(&counts).approve(["book.trip", "echo"]).build().unwrap();
    let helper = Helper::compile().checkpointer(MemorySaver::new());
    let call = Message::call("echo", json!({"text": "hello"}));
    let context = || desk(&client, [call.clone(), Message::assistant("Done.")]);
    let out = helper.invoke(Message::user("Go.")).thread("t").context(context()).await?;
    assert!(!out.is_finished());
    assert_eq!(counts.done(), ["start"]);
    Ok(())
}

/// A program that is killed cannot end its child. A child that reads its input still ends with the program.
#[tokio::test]
async fn child_ends_with_its_killed_program_if_it_reads_its_input() {
    let counts = Counts::new();
    let mut holder = std::process::Command::new(env!("CARGO_BIN_EXE_holder"))
        .arg("/usr/bin/env")
        .arg(format!("PEER_COUNTS={}", counts.path().display()))
        .arg(env!("CARGO_BIN_EXE_peer"))
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(holder.stdout.as_mut().unwrap()), &mut said).unwrap();
    assert_eq!(said, "connected\n");
    assert_eq!(counts.all()[0], "start");
    // SIGKILL.
    holder.kill().unwrap();
    holder.wait().unwrap();
    tokio::time::timeout(Duration::from_secs(20), counts.wait_for("end")).await.expect("the child ends");
}

/// A program that hangs would otherwise fail all later calls.
#[tokio::test]
async fn program_that_does_not_respond_is_started_again() {
    let counts = Counts::new();
    let client = peer(&counts).call_timeout(Duration::from_millis(300)).timeout(Duration::from_secs(3));
    let client = client.build().unwrap();
    let failed = called(&client, "slow", json!({"text": "hang"})).await.unwrap_err().to_string();
    assert!(failed.contains("did not respond to `tools/call slow` within 300 ms"), "{failed}");
    for _ in 0..30 {
        if let Ok(answer) = called(&client, "echo", json!({"text": "again"})).await {
            assert_eq!(answer, "again");
            return;
        }
    }
    panic!("the program still hangs");
}
