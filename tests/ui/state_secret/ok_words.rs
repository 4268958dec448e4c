// `secret` stands alone, or next to a kind of channel and a reducer.

use hier_agents::prelude::*;

#[derive(State, Clone, Default)]
struct Base {
    #[channel(secret)]
    plain: String,
    #[channel(secret, ephemeral)]
    ephemeral: String,
    #[channel(untracked, secret)]
    untracked: String,
    #[channel(topic, secret)]
    topic: Vec<String>,
    #[channel(secret, delta)]
    #[reducer(extend)]
    reduced: std::collections::BTreeSet<String>,
    #[channel(secret)]
    #[reducer(with = merge)]
    custom: u64,
}

fn merge(old: &mut u64, new: u64) -> Result<(), String> {
    *old = old.checked_add(new).ok_or("too much")?;
    Ok(())
}

#[derive(State, Clone, Debug, Default)]
struct Desk {
    #[state(flatten)]
    base: Base,
}

/// A parameter needs no `Debug`.
#[derive(State, Clone, Default)]
struct Of<T> {
    #[channel(secret)]
    value: T,
    open: Vec<T>,
}

fn main() {
    let _ = (Desk::update().plain("p").custom(7), Of::<u32>::update().value(7_u32));
    println!("{:?}", Of::<u32>::default());
}
