//! The output of the commands, and their exit codes.

use super::*;

/// The output may go to a terminal or, without its escape sequences, to another program.
#[tokio::test(flavor = "multi_thread")]
async fn json_keeps_characters_that_a_terminal_interprets() {
    const TEXT: &str = "a\u{7f}b\u{9b}31mc\u{1b}[2J\u{202e}d\nü";
    let desk = Desk::new().await;
    desk.run("case-18", Case::update().amount(1.0).log([Line { text: TEXT.to_owned() }])).await;
    assert_eq!(desk.json(&["state", "case-18"])["values"]["log"][0]["text"], TEXT);
    for color in ["always", "never"] {
        let shown = out(&desk.hier(&["state", "case-18", "--json", "--color", color]));
        let value: Value = serde_json::from_str(&shown).expect("JSON");
        assert_eq!(value["values"]["log"][0]["text"], TEXT);
        let safe = |letter: char| letter == '\n' || !(letter.is_control() || letter == '\u{202e}');
        assert!(shown.chars().all(safe), "{shown:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn limit_of_zero_lists_nothing() {
    let desk = Desk::new().await;
    for arguments in [&["threads"][..], &["history", "case-17"]] {
        let empty = desk.hier(&[arguments, &["--limit", "0"]].concat());
        assert_eq!((empty.status.code(), err(&empty)), (Some(0), String::new()));
        assert_eq!(desk.json(&[arguments, &["--limit", "0"]].concat()), json!([]));
    }
}
