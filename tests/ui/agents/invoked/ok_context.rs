use hier_core::prelude::*;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Filing {
    fee: u32,
}

struct Desk {
    fee: u32,
}

graph! {
    Review<Filing, Desk> = Graph { nodes: [charge], edges: [START >> charge >> END] }
}

async fn charge(run: &Run<Desk>) -> FilingUpdate {
    Filing::update().fee(run.context().fee)
}

async fn invoked() {
    let _ = Review::compile().invoke(Filing::update()).context(Desk { fee: 20 }).thread("case-17").await;
}

async fn streamed() {
    let mut events = Review::compile().with_context(Desk { fee: 20 }).stream(Filing::update()).modes([StreamMode::Values]);
    let _ = events.next().await;
}

fn main() {
    let _ = (invoked, streamed);
}
