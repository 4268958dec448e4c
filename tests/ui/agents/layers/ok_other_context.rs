use hier_agents::prelude::*;
use hier_agents::layer::Layer;
use hier_core::state::Values;

struct Desk(BaseContext);

impl AsRef<BaseContext> for Desk {
    fn as_ref(&self) -> &BaseContext {
        &self.0
    }
}

struct Audit;

impl<S: Values> Layer<S, Desk> for Audit {}

graph! {
    Support<BaseState, Desk> = Agent {
        layers: [Audit],
    }
}

fn main() {
    let _ = Support::compile();
}
