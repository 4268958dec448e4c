//! A joke about each of several subjects, side by side, and the best of them.

use hier_agents::prelude::*;
use hier_core::Result;
use hier_testkit::ScriptedModel;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Comedy {
    topic: String,
    subjects: Vec<String>,
    #[reducer(append)]
    jokes: Vec<String>,
    best: String,
}

graph! {
    JokeContest<Comedy, BaseContext> = Graph {
        nodes: [subjects, joke, best],
        edges: [START >> subjects >> for subject in state.subjects { joke(subject) }, joke >> best >> END],
    }
}

async fn subjects(state: &Comedy, run: &Run<BaseContext>) -> Result<ComedyUpdate> {
    Ok(Comedy::update()
        .subjects(run.model()?.ask(format!("Subjects of {}?", state.topic)).output::<Vec<String>>().await?))
}

async fn joke(Sent(subject): Sent<String>, run: &Run<BaseContext>) -> Result<ComedyUpdate> {
    Ok(Comedy::update().jokes(run.model()?.ask(format!("A joke about {subject}")).await?.text()))
}

async fn best(state: &Comedy, run: &Run<BaseContext>) -> Result<ComedyUpdate> {
    Ok(Comedy::update().best(run.model()?.ask(format!("The best of {:?}", state.jokes)).await?.text()))
}

#[tokio::test]
async fn best_joke() -> Result<()> {
    let model = ScriptedModel::new([r#"["lions"]"#, "Lions lie.", "Lions lie."].map(Message::assistant));
    let out = JokeContest::compile().invoke(Comedy::update().topic("animals")).context(BaseContext::new(model)).await?;
    assert_eq!((out.state().jokes.len(), &*out.state().best), (1, "Lions lie."));
    Ok(())
}
