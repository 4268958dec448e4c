use hier_agents::prelude::*;

graph! {
    Chat<BaseState> = Agent { system: "You are brief." }
}

async fn said(context: BaseContext) {
    let _ = Chat::compile().invoke(Message::user("Hello?")).context(context);
}

fn main() {
    let _ = said;
}
