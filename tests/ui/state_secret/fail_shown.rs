//! Models, callers and listings would see a secret channel.

use hier_agents::prelude::*;

#[derive(State, Clone, Default)]
struct Desk {
    #[state(flatten)]
    base: BaseState,
    #[channel(secret)]
    #[state(rename = "access_token")]
    token: Option<String>,
    #[channel(secret)]
    #[reducer(append)]
    notes: Vec<String>,
    name: Option<String>,
    #[reducer(append)]
    open: Vec<String>,
}

#[derive(View)]
#[view(of = Desk)]
struct Greeting<'a> {
    token: &'a Option<String>,
}

#[derive(View)]
#[view(of = Desk)]
struct Login {
    token: Option<String>,
}

#[derive(View)]
#[view(of = Desk)]
struct Outcome {
    token: Option<String>,
}

fn greet(greeting: Greeting<'_>) -> String {
    greeting.token.clone().unwrap_or_default()
}

fn all(desk: &Desk) -> String {
    desk.token.clone().unwrap_or_default()
}

/// Answers with its view.
#[tool]
async fn look(#[inject] greeting: Greeting<'_>) -> String {
    greeting.token.clone().unwrap_or_default()
}

/// Reads everything.
#[tool]
async fn read(desk: &Desk) -> &'static str {
    "read"
}

// Nodes read it.
async fn work(_: &Desk, login: Read<'_>) {
    let _ = login.token;
}

#[derive(View)]
#[view(of = Desk)]
struct Read<'a> {
    token: &'a Option<String>,
}

graph! { Viewed<Desk> = Agent { system: greet, tools: [look, read], answer: token } }
graph! { Whole<Desk> = ReactGraph { system: |desk: &Desk| desk.name.clone().unwrap_or_default(), reasoning: all, report_into: token } }
graph! {
    Plain<Desk> = Graph {
        input: Login,
        output: Outcome,
        inbox: notes,
        nodes: [work],
        edges: [START >> work >> END],
    }
}

fn main() {
    let _ = (Viewed::compile(), Whole::compile(), Plain::compile());
}
