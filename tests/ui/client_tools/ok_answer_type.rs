use hier_agents::prelude::*;

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
struct Picked {
    name: String,
}

/// Lets the user pick a file.
#[tool(client)]
async fn pick_file(kind: String) -> Picked;

graph! {
    Desk<MessagesState> = Agent {
        tools: [pick_file],
        asks: [PickFileCall],
    }
}

fn answer(question: DeskQuestion) -> hier_core::QuestionAnswer {
    match question {
        DeskQuestion::PickFileCall(pick) => pick.answer(Picked { name: format!("{}.png", pick.args().kind) }.into()),
    }
}

fn main() {
    let _ = answer;
}
