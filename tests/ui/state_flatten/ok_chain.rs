use hier_agents::prelude::*;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct A {
    a: String,
}

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct B<T> {
    #[state(flatten)]
    first: A,
    b: Vec<T>,
}

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Filing<T> {
    #[state(flatten)]
    second: B<T>,
    title: String,
}

fn main() {
    let _ = Filing::<u8>::update().a("a").b([1]).title("t");
}
