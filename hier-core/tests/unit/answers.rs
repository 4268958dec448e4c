//! The forms in which clients answer questions, and results of client tools that arrive late.

use serde_json::json;

use super::*;

const PICK: &str = "0000000000000000000000000000000a";
const LATE: &str = "0000000000000000000000000000000b";

fn matched(resume: Value, results: &[&str]) -> Result<Option<CommandAnswers>, String> {
    let call = json!({ "type": "tool", "toolCall": { "id": "c1", "name": "pick", "args": {} } });
    let open = Question::new(PICK.to_owned(), Vec::new(), call);
    let results = results.iter().map(|id| (*id).to_owned()).collect();
    JsonAnswers { resume, results }.matched(&[&open])
}

fn by_id(answers: &[(&str, Value)]) -> CommandAnswers {
    CommandAnswers::ById(answers.iter().map(|(id, answer)| ((*id).to_owned(), answer.clone())).collect())
}

#[test]
fn forms_of_clients_become_answers_by_id() {
    for resume in [json!({ "c1": 5 }), json!({ PICK: 5 }), json!({ PICK: { "c1": 5 } })] {
        assert_eq!(matched(resume.clone(), &[]), Ok(Some(by_id(&[(PICK, json!(5))]))), "{resume}");
    }
    for one in [json!("yes"), json!({}), json!([{ "c2": 5 }])] {
        assert_eq!(matched(one.clone(), &[]), Ok(Some(CommandAnswers::One(one))));
    }
    assert!(matched(json!({ "c2": 5 }), &[]).expect_err("another call").contains("`c1`"));
}

#[test]
fn only_results_of_client_tools_may_be_late() {
    assert_eq!(matched(json!({ LATE: 6 }), &[LATE]), Ok(None));
    assert_eq!(matched(json!({ LATE: 6, PICK: 5 }), &[LATE, PICK]), Ok(Some(by_id(&[(PICK, json!(5))]))));
    let both = Ok(Some(by_id(&[(PICK, json!(5)), (LATE, json!(6))])));
    assert_eq!(matched(json!({ LATE: 6, PICK: 5 }), &[PICK]), both);
}
