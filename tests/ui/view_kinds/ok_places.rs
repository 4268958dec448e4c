use hier_agents::prelude::*;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Filing {
    title: String,
}

#[derive(View)]
#[view(of = Filing)]
struct Seen<'a> {
    title: &'a String,
}

#[derive(View)]
#[view(of = Filing)]
struct Asked {
    title: String,
}

async fn look(view: Seen<'_>) -> FilingUpdate {
    Filing::update().title(view.title.to_uppercase())
}

graph! {
    Look<Filing> = Graph {
        input: Asked,
        output: Asked,
        nodes: [look],
        edges: [START >> look >> END],
    }
}

fn main() {
    let asked = Asked { title: String::new() };
    let _ = Look::compile().invoke(asked);
}
