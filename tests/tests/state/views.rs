//! Views, and what two states share.

use super::shapes::{Book, Page};
use super::*;
use hier_core::Result;

#[derive(View)]
#[view(of = Filing)]
struct Question {
    title: String,
    list: Vec<u32>,
    owner: Option<String>,
}

#[derive(View)]
#[view(of = Base)]
struct Spent {
    tokens: u64,
}

#[test]
fn owned_view_is_an_input_and_an_output() {
    let question = Question { title: "t".to_owned(), list: vec![1], owner: Some("o".to_owned()) };
    let writes: Writes<Filing> = crate::writes(question.into_input());
    let state = applied(Filing::default(), [FilingUpdate::from_writes(writes)]);
    let Question { title, list, owner } = Question::from_state(&state);
    assert_eq!((&*title, list, owner.as_deref()), ("t", vec![1], Some("o")));
    // A view of a state is one of every state that flattens it.
    let writes: Writes<Filing> = crate::writes(Spent { tokens: 5 }.into_input());
    let state = applied(state, [FilingUpdate::from_writes(writes)]);
    assert_eq!(<Spent as GraphOutput<Filing>>::from_state(&state).tokens, 5);
}

#[derive(View)]
#[view(of = Filing)]
struct Seen<'a> {
    list: &'a Vec<u32>,
    owner: &'a Option<String>,
    remaining_steps: &'a RemainingSteps,
}

#[derive(View)]
#[view(of = Base)]
struct Left<'a> {
    steps_left: &'a RemainingSteps,
}

async fn look(seen: Seen<'_>, left: Left<'_>) -> Result<FilingUpdate> {
    assert_eq!(seen.remaining_steps, left.steps_left);
    let owner = seen.owner.clone().unwrap_or_default();
    let left = seen.remaining_steps.get();
    Ok(Filing::update().list([7]).log([format!("{owner} sees {:?}, {left} left", seen.list)]))
}

graph! {
    Look<Filing> = Graph {
        nodes: [look],
        edges: [START >> look >> END],
    }
}

graph! {
    Ask<Filing> = Graph {
        input: Question,
        output: Spent,
        nodes: [look],
        edges: [START >> look >> END],
    }
}

#[tokio::test]
async fn borrowed_view_is_a_node_argument() {
    let input = Filing::update().list([1, 2]).owner("o".to_owned());
    let Outcome::Finished(state) = Look::compile().invoke(input).recursion_limit(9).await.unwrap() else {
        panic!("stopped")
    };
    assert_eq!(state.list, [1, 2, 7]);
    assert_eq!(state.base.root.log, ["o sees [1, 2], 8 left"]);
}

#[test]
fn states_share_the_channels_of_equal_names_and_types() {
    const fn shares<A: SharesWith<B>, B>() {}
    #[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
    struct Child {
        list: Vec<u32>,
        owner: Option<String>,
        #[state(rename = "own-count")]
        count: String,
        other: u8,
    }
    shares::<Child, Filing>();
    shares::<Filing, Child>();
    shares::<Filing, Filing>();
    shares::<Book, Filing>();
    shares::<Page<u32, 1>, Root>();
}
