// Models, callers and listings see the other channels.

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
    name: &'a Option<String>,
}

#[derive(View)]
#[view(of = Desk)]
struct Login {
    token: Option<String>,
}

#[derive(View)]
#[view(of = Desk)]
struct Outcome {
    name: Option<String>,
}

fn greet(greeting: Greeting<'_>) -> String {
    greeting.name.clone().unwrap_or_default()
}

fn all(base: Name<'_>) -> String {
    base.name.clone().unwrap_or_default()
}

#[derive(View)]
#[view(of = Desk)]
struct Name<'a> {
    name: &'a Option<String>,
}

/// Answers with its view.
#[tool]
async fn look(#[inject] greeting: Greeting<'_>) -> String {
    greeting.name.clone().unwrap_or_default()
}

/// Reads everything.
#[tool]
async fn read(#[inject] _name: Name<'_>) -> &'static str {
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

graph! { Viewed<Desk> = Agent { system: greet, tools: [look, read], answer: name } }
graph! { Whole<Desk> = ReactGraph { system: "You are a desk.", reasoning: all, report_into: name } }
graph! {
    Plain<Desk> = Graph {
        input: Login,
        output: Outcome,
        inbox: open,
        nodes: [work],
        edges: [START >> work >> END],
    }
}

fn main() {
    let _ = (Viewed::compile(), Whole::compile(), Plain::compile());
}
