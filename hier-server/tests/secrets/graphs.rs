//! The graphs of these tests.

use hier_core::prelude::*;
use hier_server::{Server, Webhooks};

/// The text for which every output is searched.
pub(crate) const CANARY: &str = "canary-7f3a-secret";

pub(crate) fn hides(what: &str, text: &str) {
    if let Some(found) = text.find(CANARY) {
        let from = (0..=found.saturating_sub(300)).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        let near: String = text[from..].chars().take(400).collect();
        panic!("{what} shows the secret: {near}");
    }
}

#[derive(State, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Vault {
    /// The access token of a customer.
    #[channel(secret)]
    token: String,
    #[channel(secret)]
    #[reducer(append)]
    keys: Vec<String>,
    #[channel(secret)]
    #[reducer(with = check)]
    checked: String,
    #[channel(secret)]
    pin: u32,
    #[channel(secret, ephemeral)]
    once: String,
    #[reducer(append)]
    lengths: Vec<usize>,
}

/// A reducer whose error quotes the value.
#[allow(clippy::needless_pass_by_value, reason = "the signature of reducers")]
fn check(_: &mut String, new: String) -> Result<(), String> {
    Err(format!("`{new}` is not valid"))
}

graph! {
    /// Uses the secret.
    Inner<Vault> = Graph { nodes: [renew, only_secret], edges: [START >> renew >> only_secret >> END] }
}

graph! {
    /// Asks, and uses the secret.
    Keeper<Vault> = Graph {
        name: "vault",
        nodes: [inner = Inner, spread, each = Inner, ask],
        edges: [START >> inner >> spread >> for state in copies { each(state) }, each >> ask >> END],
    }
}

graph! { Fails<Vault> = Graph { nodes: [fail], edges: [START >> fail >> END] } }
graph! { Panics<Vault> = Graph { nodes: [panic], edges: [START >> panic >> END] } }
graph! { Misfits<Vault> = Graph { nodes: [misfit], edges: [START >> misfit >> END] } }

async fn renew(vault: &Vault, run: &Run) -> VaultUpdate {
    run.emit(format!("{vault:?}"));
    let update = Vault::update().keys([format!("{}-renewed", vault.token)]).once(vault.token.clone());
    update.lengths([vault.token.len()])
}

async fn only_secret(vault: &Vault) -> VaultUpdate {
    Vault::update().keys(vault.keys.clone())
}

async fn spread() {}

/// States that are sent to a graph, with the secret.
fn copies(vault: &Vault) -> Vec<Vault> {
    vec![vault.clone(); 2]
}

async fn ask(vault: &Vault, run: &Run) -> hier_core::Result<VaultUpdate> {
    let more: usize = run.interrupt(&"how many more?").await?;
    Ok(Vault::update().token(vault.token.clone()).lengths([vault.token.len() + more]))
}

async fn fail(vault: &Vault) -> hier_core::Result<()> {
    Err(format!("cannot work with {vault:?} and {:?}", Vault::update().token(vault.token.clone())).into())
}

async fn panic(vault: &Vault) {
    panic!("cannot work with {vault:?}");
}

async fn misfit(vault: &Vault) -> VaultUpdate {
    Vault::update().checked(vault.token.clone())
}

pub(crate) fn server() -> Server {
    Server::new()
        .graph("vault", Keeper::compile(), ())
        .graph("fails", Fails::compile(), ())
        .graph("panics", Panics::compile(), ())
        .graph("misfits", Misfits::compile(), ())
        .webhooks(Webhooks::new().allow_private())
}
