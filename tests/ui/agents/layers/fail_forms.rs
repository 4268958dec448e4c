//! Layers of the library in a wrong form.
use hier_agents::layer::Limit;
use hier_agents::prelude::*;

graph! {
    Support<BaseState> = Agent {
        layers: [
            Limit { model_call: 50 },
            Limit {},
            Limit(50),
            Retry { attempts: 0, interval: 10 },
            Redact,
            Redact { find: Emails },
            Fallback(),
            Guard {},
            Inherited,
            "Limit",
            PIIMiddleware("email"),
        ],
        middleware: [Limit { model_calls: 50 }],
    }
}

graph! {
    Plain<BaseState> = Graph { nodes: [a], edges: [START >> a >> END], layers: [Limit { model_calls: 50 }] }
}

async fn a() {}

fn main() {}
