use hier_agents::prelude::*;
use hier_core::Result;
use hier_core::graph::Failure;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Filing {
    accepted: bool,
    #[reducer(append)]
    findings: Vec<String>,
}

graph! {
    Review<Filing> = Graph {
        nodes: [fetch, assess, archive, sorry, notify { on_error: mend }],
        edges: [
            START >> fetch >> assess >> archive >> sorry >> notify >> END,
        ],
    }
}

async fn fetch() {}
async fn assess(state: &Filing, run: &Run) -> Result<FilingUpdate> {
    let _ = run.context();
    Ok(Filing::update().accepted(!state.accepted))
}
async fn archive(_a: &Filing, _b: &Filing, _c: &Filing, _d: &Filing) -> FilingUpdate {
    Filing::update()
}
async fn sorry() -> Result<Command<Filing>, std::num::ParseIntError> {
    let _: u32 = "1".parse()?;
    Ok(Command::new())
}
async fn notify() -> Result<()> {
    Ok(())
}
async fn mend(_failure: Failure) {}

fn main() {
    let _ = Review::compile();
}
