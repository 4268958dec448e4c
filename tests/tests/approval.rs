//! The decision whether a person must approve a call, in a file: a program that is killed after it has decided, and another
//! one that would decide differently.

use std::path::{Path, PathBuf};
use std::process::Command as Process;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use hier_agents::prelude::*;
use hier_agents::{Approval, ApprovalRule, Tool, ToolOutput, ToolSpec};
use hier_core::checkpoint::WhenRunning;
use hier_core::graph::{CompiledGraph, Task};
use hier_core::message::ToolCall;
use hier_core::{Durability, async_trait};
use hier_sqlite::Sqlite;
use hier_testkit::ScriptedModel;
use serde_json::{Value, json};

/// The shop in one life of the program.
struct Shop {
    base: BaseContext,
    limit: f64,
    decided: Arc<AtomicUsize>,
    paid: Arc<AtomicUsize>,
    dies: Dies,
}

#[derive(Clone, Copy, PartialEq)]
enum Dies {
    Never,
    /// After the decision, before the question.
    Undecided,
    /// In the call.
    Paying,
}

impl AsRef<BaseContext> for Shop {
    fn as_ref(&self) -> &BaseContext {
        &self.base
    }
}

/// Pays.
#[tool]
async fn pay(eur: f64, run: &Run<Shop>) -> String {
    if run.context().dies == Dies::Paying {
        std::process::abort();
    }
    run.context().paid.fetch_add(1, Ordering::Relaxed);
    format!("paid {eur}")
}

/// The tool, in a program that dies as soon as the arguments of an undecided call are checked for the second time: that
/// is between the decision and the question.
struct Deadly {
    dies: Dies,
    checked: AtomicUsize,
}

#[async_trait]
impl Tool<BaseState, Shop> for Deadly {
    fn spec(&self) -> ToolSpec {
        Tool::<BaseState, Shop>::spec(&pay::TOOL)
    }

    fn mistake(&self, call: &ToolCall) -> Option<String> {
        if self.checked.fetch_add(1, Ordering::Relaxed) == 1 && self.dies == Dies::Undecided {
            std::process::abort();
        }
        Tool::<BaseState, Shop>::mistake(&pay::TOOL, call)
    }

    async fn call(&self, call: &ToolCall, task: &Task<BaseState, Shop>) -> hier_core::Result<ToolOutput<BaseState>> {
        pay::TOOL.call(call, task).await
    }
}

async fn agent(file: &Path, dies: Dies) -> (Sqlite, CompiledGraph<BaseState, Shop>) {
    let saver = Sqlite::open(file).await.expect("a file");
    let rule = ApprovalRule::when(pay::TOOL, |args: &hier_agents::ArgsOf<pay>, shop: &Shop| {
        shop.decided.fetch_add(1, Ordering::Relaxed);
        args.eur > shop.limit
    });
    let tool = rule.of(Deadly { dies, checked: AtomicUsize::new(0) });
    let agent = hier_agents::AgentBuilder::<BaseState, Shop>::new("cashier").tool(tool).compile().expect("an agent");
    (saver.clone(), agent.checkpointer(saver))
}

fn call(args: Value) -> Message {
    Message::calls("", [ToolCall { name: "pay".to_owned(), args, id: "call-1".to_owned() }])
}

fn config() -> Config {
    Config::new().thread("case").durability(Durability::Sync).when_running(WhenRunning::TakeOver)
}

const FILE: &str = "HIER_TEST_APPROVAL_FILE";
const LIMIT: &str = "HIER_TEST_APPROVAL_LIMIT";
const DIES: &str = "HIER_TEST_APPROVAL_DIES";

/// The first life, in a separate process: the tests below start it and it dies.
#[tokio::test]
#[ignore = "a process that other tests start"]
async fn child_process() {
    let file = std::env::var_os(FILE).map(PathBuf::from).expect("started by the tests below");
    let limit = std::env::var(LIMIT).ok().and_then(|limit| limit.parse().ok()).expect("a limit");
    let dies = if std::env::var(DIES).is_ok_and(|dies| dies == "paying") { Dies::Paying } else { Dies::Undecided };
    let (_saver, agent) = agent(&file, dies).await;
    let model = ScriptedModel::new([call(json!({"eur": 80.0}))]);
    let shop = Shop { base: BaseContext::new(model), limit, decided: Arc::default(), paid: Arc::default(), dies };
    let out = agent.invoke(Message::user("Pay.")).config(config()).context(shop).await;
    panic!("the program should be dead: {out:?}");
}

fn live_and_die(file: &Path, limit: f64, dies: &str) {
    let program = std::env::current_exe().expect("this program");
    let mut process = Process::new(program);
    process.args(["--exact", "child_process", "--ignored", "--nocapture"]);
    process.env(FILE, file).env(LIMIT, limit.to_string()).env(DIES, dies);
    let output = process.output().expect("it runs");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && !text.contains("should be dead"), "{text}");
}

/// The numbers of decisions and payments of another life, and its end.
async fn next_life(file: &Path, limit: f64, resume: bool, said: Vec<Message>) -> (usize, usize, Outcome<BaseState>) {
    let (saver, agent) = agent(file, Dies::Never).await;
    let (decided, paid) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let base = BaseContext::new(ScriptedModel::new(said));
    let shop = Shop { base, limit, decided: decided.clone(), paid: paid.clone(), dies: Dies::Never };
    let out = if resume {
        agent.invoke(Command::resume(Approval::Approve)).config(config()).context(shop).await
    } else {
        agent.invoke(()).config(config()).context(shop).await
    };
    drop(agent);
    saver.close().await.expect("it closes");
    (decided.load(Ordering::Relaxed), paid.load(Ordering::Relaxed), out.expect("a run"))
}

#[tokio::test]
async fn a_person_is_asked_even_if_the_program_that_resumes_would_not() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("shop.db");
    live_and_die(&file, 50.0, "undecided");
    let (decided, paid, out) = next_life(&file, 1000.0, false, Vec::new()).await;
    assert!(matches!(out, Outcome::Interrupted(_)), "{out:?}");
    assert_eq!((decided, paid), (0, 0), "the decision is the stored one");
    let (decided, paid, out) = next_life(&file, 1000.0, true, vec![Message::assistant("Done.")]).await;
    assert!(out.is_finished(), "{out:?}");
    assert_eq!((decided, paid), (0, 1));
}

#[tokio::test]
async fn running_call_asks_no_person_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("shop.db");
    live_and_die(&file, 1000.0, "paying");
    let (decided, paid, out) = next_life(&file, 50.0, false, vec![Message::assistant("Done.")]).await;
    assert!(out.is_finished(), "{out:?}");
    assert_eq!((decided, paid), (0, 1));
}
