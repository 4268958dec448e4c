use hier_agents::layer::{Emails, Fallback, Guard, Inherited, Limit, Redact, Verdict};
use hier_agents::prelude::*;
use hier_core::graph::Retry;

struct Desk {
    base: BaseContext,
    cheap: std::sync::Arc<dyn hier_agents::ChatModel>,
}

impl AsRef<BaseContext> for Desk {
    fn as_ref(&self) -> &BaseContext {
        &self.base
    }
}

graph! {
    Support<BaseState, Desk> = Agent {
        layers: [
            Limit { model_calls: 50 },
            Retry { attempts: 2, interval: 10ms },
            Redact(Emails),
            Fallback(|desk| &desk.cheap),
            Guard(|call, _| if call.name.is_empty() { Verdict::Deny("no".into()) } else { Verdict::Allow }),
            Inherited(Limit { model_calls: 50 }),
        ],
    }
}

fn main() {
    assert_eq!(Support::compile().layers().len(), 6);
}
