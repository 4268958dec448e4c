use hier_agents::prelude::*;

struct Shop {
    base: BaseContext,
    limit: f64,
}

impl AsRef<BaseContext> for Shop {
    fn as_ref(&self) -> &BaseContext {
        &self.base
    }
}

/// Gives money back.
#[tool]
async fn refund(order: u32, eur: f64) -> String {
    format!("{order}: {eur}")
}

fn is_large(args: &hier_agents::ArgsOf<refund>, shop: &Shop) -> bool {
    args.order > 0 && shop.limit > 0.0
}

graph! {
    Support<BaseState, Shop> = Agent {
        tools: [refund { approve: is_large }],
    }
}

fn main() {
    let _ = Support::compile();
}
