use hier_agents::prelude::*;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Invoice {
    amount: u32,
    paid: bool,
}

#[derive(Question, Serialize, Deserialize, JsonSchema)]
#[question(answer = bool)]
struct Pay {
    amount: u32,
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct Note {}

graph! {
    Approval<Invoice> = Graph {
        nodes: [note],
        edges: [START >> note >> END],
    }
}

async fn note(_note: Ask<Note>) {}

fn main() {
    let _ = Approval::compile();
}
