//! The `hier-conformance` command as its users see it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::{Value, json};

fn hier(arguments: &[&Path]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hier-conformance"));
    command.args(arguments).output().expect("the command starts")
}

fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Creates an empty folder for a test.
fn folder(test: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("conformance").join(test);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("the folder can be made");
    folder
}

fn file(folder: &Path, name: &str, text: impl AsRef<str>) -> PathBuf {
    let path = folder.join(name);
    fs::write(&path, text.as_ref()).expect("the file can be written");
    path
}

/// A scenario that agrees, with these fields replaced.
fn scenario(changes: &Value) -> String {
    let mut scenario = json!({
        "name": "small",
        "channels": { "log": "append", "tick": "sum" },
        "nodes": { "a": { "do": [{ "write": { "log": ["a"] } }] } },
        "edges": [["START", "a"], ["a", "END"]],
        "branches": [],
        "calls": [{ "invoke": { "log": ["in"] } }],
        "expect": { "calls": [{
            "steps": [
                { "custom": [], "updates": [], "values": { "log": ["in"], "tick": 0 } },
                { "custom": [], "updates": [["a", { "log": ["a"] }]], "values": { "log": ["in", "a"], "tick": 0 } },
            ],
            "interrupts": [],
            "error": null,
        }] },
    });
    for (field, value) in changes.as_object().expect("the changes are an object") {
        scenario[field] = value.clone();
    }
    scenario.to_string()
}

/// Returns the exit code, lines and errors (without the file's name) of one scenario.
fn says(test: &str, json: impl AsRef<str>) -> (Option<i32>, String, String) {
    let path = file(&folder(test), "case.json", json);
    let output = hier(&[&path]);
    let complaint = err(&output).replace(&format!("error: {}: ", path.display()), "");
    (output.status.code(), out(&output), complaint)
}

fn recorded(folder: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(folder)
}

#[test]
fn recorded_graphs_agree() {
    let output = hier(&[&recorded("graphs")]);
    let lines = out(&output);
    let different: Vec<&str> = lines.lines().filter(|line| line.starts_with("DIFF")).collect();
    assert_eq!(different, Vec::<&str>::new());
    let last = lines.lines().last().unwrap_or_default();
    assert!(last.contains(" passed, 0 failed"), "{last}");
    let passed: usize = last.split(' ').next().and_then(|count| count.parse().ok()).unwrap_or_default();
    assert!(passed >= 64, "{last}");
    assert_eq!((output.status.code(), err(&output)), (Some(0), String::new()));
}

#[test]
fn folders_are_searched_at_any_depth() {
    let root = folder("depth");
    fs::create_dir_all(root.join("b/c")).expect("the folder can be made");
    file(&root, "z.json", scenario(&json!({ "name": "last" })));
    file(&root.join("b/c"), "deep.json", scenario(&json!({ "name": "first" })));
    file(&root, "notes.txt", "no scenario");
    let output = hier(&[&root]);
    assert_eq!(out(&output), "ok first\nok last\n2 passed, 0 failed\n");
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn scenario_is_named_after_its_file_by_default() {
    let unnamed = scenario(&json!({ "name": null, "remark": "fields of the author are left alone" }));
    assert_eq!(says("unnamed", unnamed).1, "ok case\n1 passed, 0 failed\n");
}

#[test]
fn difference_is_named_and_exits_with_1() {
    let nodes = json!({ "a": { "do": [{ "write": { "log": ["b"] } }] } });
    let (code, lines, complaint) = says("difference", scenario(&json!({ "nodes": nodes })));
    let line = r#"DIFF small: calls[0].steps[1].updates[0][1].log[0], expected "a", got "b""#;
    assert_eq!(lines, format!("{line}\n0 passed, 1 failed\n"));
    assert_eq!((code, complaint), (Some(1), String::new()));
}

#[test]
fn missing_values_equal_empty_ones() {
    let edges = json!([["START", "a"], ["START", "b"]]);
    let nodes = json!({ "a": { "do": [{ "write": { "log": ["a"] } }] }, "b": {} });
    let (_, lines, _) = says("missing", scenario(&json!({ "edges": edges, "nodes": nodes })));
    assert!(lines.contains(r#"updates[1], expected nothing, got ["b",null]"#), "{lines}");
}

#[test]
fn expectations_do_not_change_the_run() {
    let (code, lines, _) = says("blind", scenario(&json!({ "expect": { "compile_error": true } })));
    assert_eq!(lines, "DIFF small: compile_error, expected true, got nothing\n0 passed, 1 failed\n");
    assert_eq!(code, Some(1));
}

#[test]
fn unexpected_refusal_shows_its_reason() {
    let (code, lines, _) = says("refused", scenario(&json!({ "edges": [["START", "aa"]] })));
    assert!(
        lines.contains("DIFF small: compile_error, expected nothing, got \"graph `root` cannot be built:"),
        "{lines}"
    );
    assert!(lines.contains("there is no node `aa`; did you mean `a`?"), "{lines}");
    assert_eq!((code, lines.lines().count()), (Some(1), 2));
}

#[test]
fn refused_graph_is_compared_without_its_text() {
    let refused = json!({ "edges": [["START", "x"]], "expect": { "compile_error": true, "message": "other words" } });
    assert_eq!(says("compile_error", scenario(&refused)).1, "ok small\n1 passed, 0 failed\n");
    let target = json!({ "a": { "targets": ["x"] } });
    let refused = json!({ "nodes": target, "expect": { "compile_error": true } });
    assert_eq!(says("target", scenario(&refused)).1, "ok small\n1 passed, 0 failed\n");
}

/// A hierarchy that agrees, with these fields replaced.
fn hierarchy(changes: &Value) -> String {
    let system = json!({ "role": "system", "content": "You are desk." });
    let asked = json!({ "role": "user", "content": "What now?\n\n[Iteration 1 of 50 — 49 iterations left]" });
    let mut scenario = json!({
        "name": "small",
        "kind": "hierarchy",
        "channels": { "artifact": "last" },
        "root": "desk",
        "agents": { "desk": { "type": "react", "policy": null, "report_into": "artifact" } },
        "script": [{ "calls": [{ "name": "finish_task", "args": { "result": "done" }, "id": "1" }] }],
        "expect": {
            "prompts": [[system, asked]],
            "final": {
                "artifact": "done", "current_agent_report": "done", "is_finished": true, "todo_list": {}, "stack_depth": 0,
            },
            "error": null,
            "script_left": 0,
        },
    });
    for (field, value) in changes.as_object().expect("the changes are an object") {
        scenario[field] = value.clone();
    }
    scenario.to_string()
}

#[test]
fn hierarchies_are_compared() {
    assert_eq!(says("hierarchy", hierarchy(&json!({}))).1, "ok small\n1 passed, 0 failed\n");
    let changes = json!({ "script": [] });
    let (code, lines, _) = says("hierarchy_diff", hierarchy(&changes));
    assert_eq!(code, Some(1));
    assert!(lines.starts_with("DIFF small: final, expected {"), "{lines}");
}

#[test]
fn mistakes_in_a_hierarchy_are_reported_with_their_location() {
    let agents = |desk: Value| json!({ "agents": { "desk": desk } });
    let cases = [
        (agents(json!({ "type": "reakt" })), "at `agents.desk.type`: unknown variant `reakt`"),
        (
            agents(json!({ "type": "react", "subagent": [] })),
            "at `agents.desk.subagent`: there is no such field; did you mean",
        ),
        (agents(json!({ "type": "react", "subagents": ["desk"] })), "at `agents.desk`: an agent cannot contain itself"),
        (agents(json!({ "type": "react", "back": ["desc"] })), "there is no agent `desc`; did you mean `desk`?"),
        (json!({ "root": "x" }), "at `root`: there is no agent `x`"),
        (
            agents(json!({ "type": "react", "report_into": "artefact" })),
            "there is no channel `artefact`; did you mean `artifact`?",
        ),
    ];
    for (changes, complaint) in cases {
        let (code, lines, complaints) = says("hierarchy_bad", hierarchy(&changes));
        assert_eq!((code, &*lines), (Some(2), "0 passed, 0 failed\n"));
        assert!(complaints.contains(complaint), "{complaint} in {complaints}");
    }
}

#[test]
fn question_needs_no_saver_to_be_asked() {
    let nodes = json!({ "a": { "do": [{ "interrupt": { "ask": 1 }, "into": "log" }] } });
    let step = json!({ "custom": [], "updates": [], "values": { "log": ["in"], "tick": 0 } });
    let expect = json!({ "calls": [{ "steps": [step], "interrupts": [{ "ask": 1 }], "error": null }] });
    let (_, lines, _) = says("question", scenario(&json!({ "nodes": nodes, "expect": expect })));
    assert_eq!(lines, "ok small\n1 passed, 0 failed\n");
}

#[test]
fn missing_path_exits_with_2() {
    let path = folder("nowhere").join("x.json");
    let output = hier(&[&path]);
    assert_eq!((output.status.code(), out(&output)), (Some(2), "0 passed, 0 failed\n".to_owned()));
    assert!(err(&output).starts_with(&format!("error: {}: cannot be read: ", path.display())), "{}", err(&output));
}

#[test]
fn folder_without_scenarios_exits_with_2() {
    let output = hier(&[&folder("empty")]);
    assert_eq!(output.status.code(), Some(2));
    assert!(err(&output).contains("there is no scenario in this folder"), "{}", err(&output));
}

#[test]
fn good_files_next_to_a_bad_one_are_run() {
    let root = folder("beside");
    file(&root, "a.json", "[]");
    file(&root, "b.json", scenario(&json!({})));
    let output = hier(&[&root]);
    assert_eq!((output.status.code(), out(&output)), (Some(2), "ok small\n1 passed, 0 failed\n".to_owned()));
    assert!(err(&output).contains("a.json: a scenario must be a JSON object"), "{}", err(&output));
}

#[test]
fn non_scenario_files_are_reported() {
    let cases = [
        ("{\"a\": 1", "this is no JSON: EOF while parsing an object at line 1 column 7"),
        ("3", "a scenario must be a JSON object"),
        (
            r#"{"name": "x"}"#,
            "there is no object `expect`, what the reference did: add it with `python record.py FILE`",
        ),
        (r#"{"kind": "tree", "expect": {}}"#, r#"at `kind`: "tree" is no kind: leave it out, or write "hierarchy""#),
    ];
    for (text, complaint) in cases {
        assert_eq!(says("no-scenario", text), (Some(2), "0 passed, 0 failed\n".to_owned(), format!("{complaint}\n")));
    }
    let path = folder("no-text").join("case.json");
    fs::write(&path, [0xff, 0xfe]).expect("the file can be written");
    assert!(err(&hier(&[&path])).contains("cannot be read: "));
}

/// Changes to the scenario, each with its error.
fn mistakes() -> Vec<(Value, &'static str)> {
    let node = |action: Value| json!({ "nodes": { "a": { "do": [action] } } });
    vec![
        (json!({ "channels": { "log": "apend" } }), "at `channels.log`: unknown variant `apend`, expected one of"),
        (json!({ "nodes": { "a": { "retries": 3 } } }), "at `nodes.a.retries`: unknown field `retries`"),
        (json!({ "nodes": { "a": { "retry": -1 } } }), "at `nodes.a.retry`: invalid value: integer `-1`"),
        (json!({ "edges": [["START"]] }), "at `edges[0]`: invalid length 1"),
        (json!({ "edges": [["START", 7]] }), "expected the name of a node or a list of such names"),
        (node(json!({})), "at `nodes.a.do[0]`: an action needs one of `write`"),
        (node(json!({ "emit": 1, "goto": ["a"] })), "an action takes only one of `write`"),
        (node(json!({ "observe": "log" })), "`observe` needs `into`: the channel to write to"),
        (node(json!({ "interrupt": null })), "`interrupt` needs `into`: the channel to write to"),
        (node(json!({ "write": { "lgo": 1 } })), "at `nodes.a.do[0]`: there is no channel `lgo`; did you mean `log`?"),
        (node(json!({ "fail": 2 })), "at `nodes.a.do[0].fail`"),
        (json!({ "branches": [{ "from": "a", "on": "tick" }] }), "a branch has `from` and either `on`, `lt`"),
        (
            json!({ "branches": [{ "from": "a", "each": "tock", "to": "a", "as": "x" }] }),
            "at `branches[0]`: there is no channel `tock`; did you mean `tick`?",
        ),
        (json!({ "calls": [{}] }), "at `calls[0]`: a call needs one of `invoke`"),
        (json!({ "calls": [{ "invoke": {}, "resume": 1 }] }), "a call takes only one of `invoke`"),
        (json!({ "calls": [{ "invoke": [] }] }), "at `calls[0].invoke`: an input is an object of channels, or null"),
        (
            json!({ "calls": [{ "invoke": { "x": 1 } }] }),
            "at `calls[0].invoke`: there is no channel `x`; known: `log`, `tick`",
        ),
        (json!({ "calls": null }), "at `calls`: invalid type: null"),
        (
            json!({ "interupt_before": ["a"] }),
            "at `interupt_before`: there is no such field; did you mean `interrupt_before`?",
        ),
        (json!({ "nodes": { "a": { "graph": "g" } } }), "at `nodes.a.graph`: there is no subgraph `g`"),
        (
            json!({ "nodes": { "a": { "graph": "g", "do": [{ "emit": 1 }] } },
                    "subgraphs": { "g": { "channels": {}, "nodes": {} } } }),
            "at `nodes.a`: a node has `do` or `graph`: leave one out",
        ),
        (
            json!({ "subgraphs": { "g": { "channels": {}, "nodes": { "n": { "graph": "h" } } },
                                   "h": { "channels": {}, "nodes": { "n": { "graph": "g" } } } } }),
            "at `subgraphs.g`: the graph contains itself: let none of its nodes run it",
        ),
        (
            json!({ "subgraphs": { "g": { "channels": {}, "nodes": {}, "edgse": [] } } }),
            "at `subgraphs.g.edgse`: there is no such field; did you mean `edges`?",
        ),
    ]
}

#[test]
fn mistakes_in_a_scenario_are_reported_with_their_location() {
    for (changes, expected) in mistakes() {
        let (code, lines, complaint) = says("mistakes", scenario(&changes));
        assert!(complaint.contains(expected), "{changes}: {complaint}");
        assert!(complaint.lines().all(|line| !line.contains("panicked")), "{complaint}");
        assert_eq!((code, lines.as_str()), (Some(2), "0 passed, 0 failed\n"), "{changes}");
    }
}

#[test]
fn all_mistakes_of_a_file_are_reported_at_once() {
    let changes = json!({ "edges": 3, "calls": 4, "check_pointer": true });
    assert_eq!(says("several", scenario(&changes)).2.lines().count(), 3);
}

#[test]
fn failures_of_a_run_are_differences() {
    let calls = |changes: Value| says("failures", scenario(&changes)).1;
    let lines = calls(json!({ "calls": [{ "invoke": null }] }));
    assert!(
        lines.contains(r#"error, expected null, got {"kind":"run","message":"graph `root` has no input"#),
        "{lines}"
    );
    let lines = calls(json!({ "calls": [{ "invoke": { "log": 3 } }] }));
    assert!(lines.contains("`append` cannot merge 3 into []"), "{lines}");
    let lines = calls(json!({ "calls": [{ "invoke": {}, "recursion_limit": 0 }] }));
    assert!(lines.contains("`recursion_limit` is 0"), "{lines}");
    let branch = json!([{ "from": "a", "on": "hint", "lt": 1, "then": ["END"], "else": ["END"] }]);
    let channels = json!({ "log": "append", "tick": "sum", "hint": "last" });
    let lines = calls(json!({ "branches": branch, "channels": channels }));
    assert!(lines.contains("`nothing to compare`"), "{lines}");
}

#[test]
fn missing_arguments_show_the_usage() {
    let output = hier(&[]);
    assert_eq!(output.status.code(), Some(2));
    assert!(err(&output).contains("<PATH>..."), "{}", err(&output));
}

#[test]
fn closed_output_is_not_an_error() {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let mut command = Command::new(env!("CARGO_BIN_EXE_hier-conformance"));
    let output = command.arg(recorded("graphs")).stdout(writer).output().expect("the command ends");
    assert_eq!((output.status.code(), err(&output)), (Some(2), String::new()));
}
