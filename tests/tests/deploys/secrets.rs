//! Channels that become secret, and channels that stop to be.

use hier_core::graph::CompiledGraph;
use hier_core::prelude::*;
use hier_core::state::SharesWith;
use serde_json::{Map, Value, json};

use crate::kit::{Builder, Case, Logs, case, compile, note, review};
use crate::states::{Empty, Number};

/// Declares states whose channel `x` is secret. Such a state has its own `Debug`.
macro_rules! secret_state {
    ($(#[$attribute:meta])* $name:ident) => {
        #[derive(State, Clone, Default)]
        $(#[$attribute])*
        pub(crate) struct $name {
            #[reducer(append)]
            log: Vec<String>,
            #[channel(secret)]
            x: u32,
        }

        impl Logs for $name {
            fn logged(text: &str) -> Self::Update {
                $name::update().log([text.to_owned()])
            }
        }
    };
}

crate::kit::state!(
    #[state(version = 2, migrate = forget_x)]
    Forgotten { x: u32 }
);
secret_state!(Hidden);

#[allow(clippy::unnecessary_wraps, reason = "the signature of migrations")]
fn forget_x(stored: &mut Map<String, Value>) -> hier_core::Result<()> {
    stored.remove("x");
    Ok(())
}

/// A graph around `review`, which shares `x` with it.
fn around<S: Logs + SharesWith<S>>() -> CompiledGraph<S> {
    let graph = Builder::<S>::new("outer").node("first", note("first")).subgraph("inner", &review::<S>());
    compile(graph.edge(START, "first").edge("first", "inner").edge("inner", END))
}

pub(crate) fn breaking() -> Vec<Case> {
    let five = || json!({ "x": 5 });
    let removed = &["secret-removed"];
    vec![
        case("secret removed", review::<Hidden>(), review::<Number>()).input(five()).with_key().breaks(removed),
        case("secret of a finished thread removed", review::<Hidden>(), review::<Number>())
            .input(five())
            .finished(json!({}))
            .with_key()
            .breaks(removed),
        case("secret of a tree removed", around::<Hidden>(), around::<Number>())
            .input(five())
            .with_key()
            .breaks(removed),
        case("secret in a database without a key", review::<Number>(), review::<Hidden>())
            .input(five())
            .breaks(&["unencrypted"]),
        case("new secret in a database without a key", review::<Empty>(), review::<Hidden>()).breaks(&["unencrypted"]),
    ]
}

pub(crate) fn harmless() -> Vec<Case> {
    let five = || json!({ "x": 5 });
    vec![
        case("channel becomes secret", review::<Number>(), review::<Hidden>()).input(five()).with_key(),
        case("channel of a tree becomes secret", around::<Number>(), around::<Hidden>()).input(five()).with_key(),
        case("secret channel stays", review::<Hidden>(), review::<Hidden>()).input(five()).with_key(),
        case("secret channel added", review::<Empty>(), review::<Hidden>()).with_key(),
        case("secret forgotten by a migration", review::<Hidden>(), review::<Forgotten>()).input(five()).with_key(),
    ]
}
