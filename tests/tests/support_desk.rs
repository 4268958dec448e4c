//! The example `support_desk`, at a terminal: approvals, the customer's app, costs, and processes that end at a question.

use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;

use hier_core::message::Usd;

const PHOTO: &str = "Please pick a photo. It should show the damage: ";
const APPROVAL: &str = r#"support_desk wants refund {"eur":250,"number":18}: "#;
const LARGE: &str = "Order 18 arrived broken.";

fn start(words: &[&str], input: &str) -> Child {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    let mut desk = Command::new(BUILT.get_or_init(|| hier_tests::example("support_desk")));
    desk.args(words).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut desk = desk.spawn().expect("the example starts");
    desk.stdin.as_mut().expect("its input").write_all(input.as_bytes()).expect("it reads");
    desk
}

fn ended(words: &[&str], input: &str) -> Output {
    let mut desk = start(words, input);
    drop(desk.stdin.take());
    desk.wait_with_output().expect("it ends")
}

/// Returns what the example prints with these arguments and this input.
fn printed(words: &[&str], input: &str) -> String {
    let output = ended(words, input);
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).expect("text")
}

/// The end of a conversation with this number of answers of the model.
fn costs(answers: u32) -> String {
    // 1,200 tokens for 2 dollars a million, and 60 for 10.
    let cost = f64::from(answers) * 0.003;
    format!("(the conversation has cost {})\n", Usd::from_dollars(cost))
}

#[test]
fn only_refunds_beyond_the_limit_need_approval() {
    let small = format!("{PHOTO}(order 17: 30 euros are paid back)\nOrder 17: 30 euros are on their way.\n");
    assert_eq!(printed(&[], "dent.jpg\n"), small + &costs(3));
    let paid = |eur: u32| {
        let said = format!("(order 18: {eur} euros are paid back)\nOrder 18: {eur} euros are on their way.\n");
        format!("{PHOTO}{APPROVAL}{said}{}", costs(3))
    };
    assert_eq!(printed(&[LARGE], "dent.jpg\nyes\n"), paid(250));
    assert_eq!(printed(&[LARGE], "dent.jpg\n20\n"), paid(20));
    let refused = "Order 18: Error: the operator did not approve this call: too late.\n";
    assert_eq!(printed(&[LARGE], "dent.jpg\ntoo late\n"), format!("{PHOTO}{APPROVAL}{refused}{}", costs(3)));
}

#[test]
fn failure_of_the_app_reaches_the_model() {
    assert_eq!(printed(&[], ""), format!("{PHOTO}Order 17: please send a photo of the damage.\n{}", costs(2)));
    let unknown = format!("{PHOTO}Order 3: there is no such order.\n{}", costs(2));
    assert_eq!(printed(&["Order 3 is lost."], "box.jpg\n"), unknown);
}

#[test]
fn run_ends_at_its_limit_of_cost() {
    let ended_at_limit = "No answer: the agent ended early: the run reached its cost limit ($0.05).\n";
    let expected = format!("{PHOTO}{ended_at_limit}(the conversation has cost $1.50)\n");
    assert_eq!(printed(&["--price", "1000", "5000"], "dent.jpg\n"), expected);
    let output = ended(&["--price", "1e9", "1"], "");
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && error.contains("`1000000000` is not a price"), "{error}");
}

/// Starts the example, and kills it when it has printed this.
fn killed_at(prompt: &str, words: &[&str], input: &str) {
    let mut desk = start(words, input);
    let (mut printed, mut out) = (Vec::new(), desk.stdout.take().expect("its output"));
    while !printed.ends_with(prompt.as_bytes()) {
        let mut byte = [0];
        out.read_exact(&mut byte).unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&printed)));
        printed.push(byte[0]);
    }
    desk.kill().expect("it can be killed");
    desk.wait().expect("it is dead");
}

/// Each process asks the open question only, and nothing that was answered or paid is repeated.
#[test]
fn each_answer_is_another_process() {
    let folder = tempfile::tempdir().expect("a folder");
    let db = folder.path().join("desk.db").display().to_string();
    let words = [LARGE, "--db", &db];
    killed_at(PHOTO, &words, "");
    killed_at(APPROVAL, &words, "dent.jpg\n");
    let paid = "(order 18: 250 euros are paid back)\nOrder 18: 250 euros are on their way.\n";
    assert_eq!(printed(&words, "yes\n"), format!("{APPROVAL}{paid}{}", costs(3)));
    // The next message is another turn of the same conversation.
    let next = printed(&["Thank you!", "--db", &db], "");
    assert_eq!(next, format!("Which order do you mean?\n{}", costs(4)));
}
