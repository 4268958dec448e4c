use hier_agents::layer::Limit;
use hier_agents::prelude::*;

graph! {
    Whole<BaseState> = Agent { layers: [Limit { cost: 2 }] }
}

graph! {
    Quoted<BaseState> = Agent { layers: [Limit { cost: "2.00" }] }
}

fn main() {
    let _ = (Whole::compile(), Quoted::compile());
}
