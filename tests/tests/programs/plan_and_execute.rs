//! Plans, does one step after the other, and plans anew after each, until it can answer.

use hier_agents::prelude::*;
use hier_core::Result;
use hier_testkit::ScriptedModel;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Trip {
    input: String,
    plan: Vec<String>,
    #[reducer(append)]
    past_steps: Vec<(String, String)>,
    response: Option<String>,
}

/// The steps that are still to be done, in order.
#[derive(Deserialize, JsonSchema)]
struct Plan {
    steps: Vec<String>,
}

/// The next action.
#[derive(Deserialize, JsonSchema)]
enum Act {
    /// Answers the user.
    Response(String),
    /// Continues with these steps.
    Plan(Vec<String>),
}

graph! {
    PlanAndExecute<Trip, BaseContext> = Graph {
        nodes: [plan, execute, replan],
        edges: [START >> plan >> execute >> replan >> if state.response.is_some() { END } else { execute }],
    }
}

async fn plan(state: &Trip, run: &Run<BaseContext>) -> Result<TripUpdate> {
    let plan = run.model()?.ask(&*state.input).system("Make a plan, step by step.").output::<Plan>().await?;
    Ok(Trip::update().plan(plan.steps))
}

async fn execute(state: &Trip, run: &Run<BaseContext>) -> Result<TripUpdate> {
    let step = state.plan.first().ok_or("there is nothing to do")?;
    let answer = run.model()?.ask(format!("The plan: {:?}. Do this: {step}", state.plan)).await?;
    Ok(Trip::update().past_steps((step.clone(), answer.text())))
}

async fn replan(state: &Trip, run: &Run<BaseContext>) -> Result<TripUpdate> {
    let asked = format!("Wanted: {}. Planned: {:?}. Done: {:?}", state.input, state.plan, state.past_steps);
    Ok(match run.model()?.ask(asked).system("Answer, or plan what is left.").output::<Act>().await? {
        Act::Response(response) => Trip::update().response(response),
        Act::Plan(steps) => Trip::update().plan(steps),
    })
}

#[tokio::test]
async fn plans_and_executes() -> Result<()> {
    let model = ScriptedModel::new([
        Message::assistant(r#"{"steps": ["find the winner", "find the hometown"]}"#),
        Message::assistant("Jannik Sinner"),
        Message::assistant(r#"{"value": {"Plan": ["find the hometown"]}}"#),
        Message::assistant("Sexten"),
        Message::assistant(r#"{"value": {"Response": "Sexten"}}"#),
    ]);
    let question = Trip::update().input("What is the hometown of the winner?");
    let out = PlanAndExecute::compile().invoke(question).context(BaseContext::new(model)).await?;
    assert_eq!(out.state().response.as_deref(), Some("Sexten"));
    Ok(())
}
