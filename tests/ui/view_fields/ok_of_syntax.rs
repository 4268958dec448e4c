use hier_agents::prelude::*;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Filing {
    title: String,
}

#[derive(View)]
#[view(of = Filing)]
struct Titled {
    title: String,
}

graph! {
    Review<Filing> = SimpleGraph { compute: assess }
}

async fn assess() -> Titled {
    Titled { title: String::new() }
}

fn main() {
    let _ = Review::compile();
}
