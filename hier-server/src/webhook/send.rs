//! Tells the webhooks: at least once, with retries, whatever restarts.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use axum::http::HeaderMap;
use hier_core::CancellationToken;
use hier_core::runs::{self, Delivery, RunStore, RunsError};
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::redirect::Policy;
use tokio::sync::Semaphore;
use tokio_util::task::TaskTracker;

use super::address::is_public;
use super::options::Webhooks;
use super::payload::payload;
use crate::graphs::Served;

/// How often the sender looks for something to tell.
const EVERY: Duration = Duration::from_secs(1);
/// How long one attempt may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// For how long nobody else tries what one has claimed: longer than an attempt takes.
const CLAIM: Duration = Duration::from_mins(1);
/// How many are told at once.
const AT_ONCE: usize = 32;
/// How long it waits after each attempt that failed. After the last it gives up.
const WAITS: [u64; 8] = [1, 5, 30, 120, 600, 3_600, 6 * 3_600, 24 * 3_600];

/// Tells the webhooks of a store.
#[derive(Clone)]
pub(crate) struct Sender {
    store: Arc<dyn RunStore>,
    options: Webhooks,
    headers: HeaderMap,
    client: reqwest::Client,
    /// The address of this server, if it is one.
    own: Option<SocketAddr>,
    /// The graphs, by their names, whose messages are translated.
    graphs: Arc<BTreeMap<String, Served>>,
}

/// Resolves names, and refuses those that stand for an address inside. What it returns is what is connected to: there is no
/// second look-up whose answer could be another.
struct Guarded {
    private: bool,
}

impl Resolve for Guarded {
    fn resolve(&self, name: Name) -> Resolving {
        let private = self.private;
        Box::pin(async move {
            let found: Vec<SocketAddr> = tokio::net::lookup_host((name.as_str(), 0)).await?.collect();
            if let Some(inside) = found.iter().find(|address| !private && !is_public(address.ip())) {
                return Err(format!(
                    "`{}` stands for {}, which is not on the open internet",
                    name.as_str(),
                    inside.ip()
                )
                .into());
            }
            Ok(Box::new(found.into_iter()) as Addrs)
        })
    }
}

impl Sender {
    pub(crate) fn new(store: Arc<dyn RunStore>, options: Webhooks, own: Option<SocketAddr>) -> Result<Self, String> {
        let headers = options.header_map()?;
        let client = reqwest::Client::builder()
            .dns_resolver(Arc::new(Guarded { private: options.private }))
            // A redirect would be followed to an address that nobody has checked, and a proxy would look names up itself.
            .redirect(Policy::none())
            .no_proxy()
            .connect_timeout(PATIENCE / 2)
            .timeout(PATIENCE)
            .pool_max_idle_per_host(0)
            .user_agent(concat!("hier/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(|error| format!("webhooks cannot be told: {error}"))?;
        Ok(Self { store, options, headers, client, own, graphs: Arc::default() })
    }

    /// Sets the graphs whose runs it reports.
    pub(crate) fn graphs(self, graphs: BTreeMap<String, Served>) -> Self {
        Self { graphs: Arc::new(graphs), ..self }
    }

    /// Tells what is to be told until the token is cancelled; then what is being told is waited for.
    pub(crate) async fn run_until(self, stop: CancellationToken) {
        let (room, telling) = (Arc::new(Semaphore::new(AT_ONCE)), TaskTracker::new());
        loop {
            if let Err(error) = self.look(&room, &telling).await {
                tracing::warn!(%error, "cannot look for webhooks to tell; trying again later");
            }
            if stop.run_until_cancelled(tokio::time::sleep(EVERY)).await.is_none() {
                break;
            }
        }
        telling.close();
        telling.wait().await;
    }

    /// Begins to tell what is due, as far as there is room.
    async fn look(&self, room: &Arc<Semaphore>, telling: &TaskTracker) -> Result<(), RunsError> {
        let webhooks = runs::Webhooks::of(&*self.store);
        for delivery in webhooks.due(SystemTime::now()).await? {
            let Some(url) = self.url(&delivery) else { continue };
            let Ok(place) = room.clone().try_acquire_owned() else { return Ok(()) };
            let Some((claimed, run)) = webhooks.claim(&delivery, SystemTime::now(), CLAIM).await? else { continue };
            let sender = self.clone();
            telling.spawn(async move {
                let _place = place;
                let told = match run {
                    Ok(run) => {
                        let places = sender.graphs.get(&run.graph).map(|served| served.places.clone()).unwrap_or_default();
                        sender.tell(&url, &claimed, payload(&places, &run, SystemTime::now())).await
                    }
                    // A program of another version may be able to read it.
                    Err(error) => Err(error.to_string()),
                };
                if let Err(error) = sender.settle(&claimed, told).await {
                    tracing::warn!(run = claimed.id, %error, "what came of a webhook cannot be stored: it is told again");
                }
            });
        }
        Ok(())
    }

    /// The whole address; none if it is a path of a server, and this process is none.
    fn url(&self, delivery: &Delivery) -> Option<String> {
        if !delivery.address.starts_with('/') {
            return Some(delivery.address.clone());
        }
        let mut own = self.own?;
        if own.ip().is_unspecified() {
            own.set_ip(if own.is_ipv4() { [127, 0, 0, 1].into() } else { std::net::Ipv6Addr::LOCALHOST.into() });
        }
        Some(format!("http://{own}{}", delivery.address))
    }

    /// One attempt. What went wrong is told without the path of the address, which may hold a secret.
    async fn tell(&self, url: &str, delivery: &Delivery, body: Vec<u8>) -> Result<(), String> {
        // The options may have changed since the run was accepted.
        self.options.check(&delivery.address)?;
        let request = self.client.post(url).headers(self.headers.clone()).header("content-type", "application/json");
        let sent = request.header("webhook-id", &delivery.id).body(body).send().await;
        let answer = sent.map_err(|error| {
            let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}")).unwrap_or_default();
            format!("{}{cause}", error.without_url())
        })?;
        if answer.status().is_success() { Ok(()) } else { Err(format!("it answered {}", answer.status().as_u16())) }
    }

    async fn settle(&self, claimed: &Delivery, told: Result<(), String>) -> Result<(), RunsError> {
        let webhooks = runs::Webhooks::of(&*self.store);
        let Err(reason) = told else { return webhooks.done(claimed).await };
        let tried = usize::try_from(claimed.attempts).unwrap_or(usize::MAX);
        if let Some(seconds) = WAITS.get(tried.saturating_sub(1)) {
            tracing::info!(run = claimed.id, reason, attempts = claimed.attempts, "a webhook was not told");
            return webhooks.again(claimed, SystemTime::now() + Duration::from_secs(*seconds)).await;
        }
        tracing::warn!(run = claimed.id, reason, attempts = claimed.attempts, "a webhook is given up");
        webhooks.done(claimed).await
    }
}

#[cfg(test)]
mod tests {
    use hier_core::runs::{Cancel, Document, MemoryRuns, NewRun, Request};
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    #[tokio::test]
    async fn a_name_that_stands_for_an_address_inside_is_not_connected_to() {
        let name = || "localhost".parse::<Name>().expect("a name");
        let refused = Guarded { private: false }.resolve(name()).await.err().expect("a refusal").to_string();
        assert!(refused.contains("not on the open internet"), "{refused}");
        assert!(Guarded { private: true }.resolve(name()).await.is_ok());
    }

    /// One look begins to tell all of them, though the run of the first cannot be read; that was an attempt.
    #[tokio::test]
    async fn a_run_that_cannot_be_read_holds_up_no_others() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = format!("http://{}/hook", listener.local_addr().expect("an address"));
        let store = Arc::new(MemoryRuns::new());
        for thread in ["broken", "whole"] {
            let mut request = Request::default();
            request.webhook = Some(address.clone());
            let run =
                store.driver().create_run(NewRun::new(thread, "desk", request).create_thread()).await.expect("a run");
            store.driver().cancel_runs(thread, &[run.id], Cancel::Interrupt).await.expect("its end");
        }
        let webhooks = runs::Webhooks::of(&*store);
        let due = webhooks.due(SystemTime::now()).await.expect("what is to be told");
        let [broken, whole] = &due[..] else { panic!("{due:?}") };
        let other = Document::new("webhook_run", &*broken.id, 7.into());
        assert!(store.driver().put_document(other, Some(1)).await.expect("a change"));
        let sender = Sender::new(store.clone(), Webhooks::new().allow_private(), None).expect("a sender");
        let telling = TaskTracker::new();
        sender.look(&Arc::new(Semaphore::new(AT_ONCE)), &telling).await.expect("a look");
        let answer = async {
            let (mut socket, _) = listener.accept().await.expect("a connection");
            socket.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").await.expect("an answer");
            let mut asked = Vec::new();
            socket.read_to_end(&mut asked).await.expect("the request");
            String::from_utf8_lossy(&asked).into_owned()
        };
        telling.close();
        let (asked, ()) = tokio::join!(answer, telling.wait());
        assert!(asked.contains(&whole.id), "{asked}");
        let kept = webhooks.all().await.expect("webhooks");
        assert_eq!(kept.iter().map(|kept| (&kept.id, kept.attempts)).collect::<Vec<_>>(), [(&broken.id, 1)]);
        assert!(kept[0].next < SystemTime::now() + CLAIM / 2, "it is tried again as any that failed: {kept:?}");
    }
}
