// The nearest programs: channels of associated types of a parameter.

use hier_agents::prelude::*;

trait Kind {
    type Item;
}

#[derive(State, Clone, Default)]
struct Case<T: Kind> {
    item: Option<T::Item>,
    #[reducer(append)]
    more: Vec<<T as Kind>::Item>,
    #[channel(untracked)]
    raw: Option<T>,
}

#[derive(Clone, Default, Serialize, Deserialize)]
struct Tax;

impl Kind for Tax {
    type Item = u32;
}

async fn count() -> CaseUpdate<Tax> {
    Case::update().item(5)
}

graph! {
    Count<Case<Tax>> = Graph { nodes: [count], edges: [START >> count >> END] }
}

fn main() {
    let _ = Case::<Tax>::update().more([5]);
    let _ = Count::compile();
}
