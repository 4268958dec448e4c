//! Sends webhooks at least once, with retries that survive restarts.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use axum::http::HeaderMap;
use hier_core::CancellationToken;
use hier_core::runs::{self, Delivery, RunStore, RunsError};
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::redirect::Policy;
use tokio_util::task::TaskTracker;

use super::address::is_public;
use super::limits::{AttemptLimit, AttemptLimits, MOST_PER_HOST, host_of};
use super::options::Webhooks;
use super::payload::payload;
use crate::graphs::ServedGraph;

/// Interval at which the sender looks for due webhooks.
const EVERY: Duration = Duration::from_secs(1);
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(10);
/// Time for which a claim keeps other processes from sending the webhook. It is longer than an attempt.
const CLAIM: Duration = Duration::from_mins(1);
/// Delays after failed attempts, in seconds. If the attempt after the last delay fails, the webhook is abandoned.
const DELAYS: [u64; 8] = [1, 5, 30, 120, 600, 3_600, 6 * 3_600, 24 * 3_600];
/// Time after which a webhook to a path is abandoned if no process with a server sends it.
const PATH_WAITS: Duration = Duration::from_hours(32);

#[derive(Clone)]
pub(crate) struct WebhookSender {
    store: Arc<dyn RunStore>,
    options: Webhooks,
    headers: HeaderMap,
    client: reqwest::Client,
    /// The address of this server, if the process has one.
    own: Option<SocketAddr>,
    /// The graphs by name, for the translation of messages.
    graphs: Arc<BTreeMap<String, ServedGraph>>,
    /// True if workers in other processes send the webhooks to URLs.
    only_paths: bool,
}

/// The number of attempts to one host in a pass.
#[derive(Default)]
struct HostAttempts {
    started: usize,
    refused: usize,
}

impl HostAttempts {
    /// Returns the delay after which the host can accept the next refused attempt.
    fn delay(&mut self) -> Duration {
        // A host whose limit was free at the start of the pass may respond before the next pass.
        let each = if self.started < MOST_PER_HOST { ATTEMPT_TIMEOUT } else { EVERY };
        let turn = self.refused / MOST_PER_HOST + 1;
        self.refused += 1;
        each.saturating_mul(u32::try_from(turn).unwrap_or(u32::MAX))
    }
}

/// Resolves names, and refuses names with an internal address. The client connects to the returned addresses, because a
/// second look-up could return other addresses.
struct PublicResolver {
    private: bool,
}

impl Resolve for PublicResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let private = self.private;
        Box::pin(async move {
            let found: Vec<SocketAddr> = tokio::net::lookup_host((name.as_str(), 0)).await?.collect();
            if let Some(inside) = found.iter().find(|address| !private && !is_public(address.ip())) {
                return Err(format!(
                    "`{}` resolves to {}, which is not on the public internet",
                    name.as_str(),
                    inside.ip()
                )
                .into());
            }
            Ok(Box::new(found.into_iter()) as Addrs)
        })
    }
}

impl WebhookSender {
    pub(crate) fn new(store: Arc<dyn RunStore>, options: Webhooks, own: Option<SocketAddr>) -> Result<Self, String> {
        let headers = options.header_map()?;
        let client = reqwest::Client::builder()
            .dns_resolver(Arc::new(PublicResolver { private: options.private }))
            // A redirect could lead to an address that was not checked, and a proxy would resolve names itself.
            .redirect(Policy::none())
            .no_proxy()
            .connect_timeout(ATTEMPT_TIMEOUT / 2)
            .timeout(ATTEMPT_TIMEOUT)
            .pool_max_idle_per_host(0)
            .user_agent(concat!("hier/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(|error| format!("cannot create the client of webhooks: {error}"))?;
        Ok(Self { store, options, headers, client, own, graphs: Arc::default(), only_paths: false })
    }

    pub(crate) fn graphs(self, graphs: BTreeMap<String, ServedGraph>) -> Self {
        Self { graphs: Arc::new(graphs), ..self }
    }

    /// Leaves the webhooks to URLs to other processes.
    pub(crate) fn only_paths(self) -> Self {
        Self { only_paths: true, ..self }
    }

    /// Sends due webhooks until the token is cancelled. Then waits for the attempts in progress.
    pub(crate) async fn run_until(self, stop: CancellationToken) {
        let (limits, attempts) = (AttemptLimits::new(), TaskTracker::new());
        loop {
            if let Err(error) = self.send_due(&limits, &attempts).await {
                tracing::warn!(%error, "failed to look for due webhooks; trying again later");
            }
            if stop.run_until_cancelled(tokio::time::sleep(EVERY)).await.is_none() {
                break;
            }
        }
        attempts.close();
        attempts.wait().await;
    }

    /// Starts attempts for due webhooks while the limits allow it.
    async fn send_due(&self, limits: &AttemptLimits, attempts: &TaskTracker) -> Result<(), RunsError> {
        let (webhooks, now) = (runs::Webhooks::of(&*self.store), SystemTime::now());
        let mut due = if self.only_paths { Vec::new() } else { webhooks.due(now).await? };
        match self.own {
            Some(_) => due.extend(webhooks.due_paths(now).await?),
            None => self.abandon_paths(now).await?,
        }
        due.sort_by(|a, b| a.created.cmp(&b.created).then_with(|| a.id.cmp(&b.id)));
        let mut hosts = BTreeMap::<String, HostAttempts>::new();
        for delivery in due {
            let url = self.url(&delivery);
            let host = host_of(&url);
            let permit = match limits.try_acquire(&host) {
                Ok(permit) => permit,
                Err(AttemptLimit::All) => return Ok(()),
                Err(AttemptLimit::Host) => {
                    // The store returns a limited number of webhooks. Others must come first in the next pass.
                    let delay = hosts.entry(host).or_default().delay();
                    if let Err(error) = webhooks.again(&delivery, SystemTime::now() + delay).await {
                        tracing::warn!(run = delivery.id, %error, "failed to postpone a webhook; trying again later");
                    }
                    continue;
                }
            };
            hosts.entry(host).or_default().started += 1;
            let Some((claimed, run)) = webhooks.claim(&delivery, SystemTime::now(), CLAIM).await? else { continue };
            let sender = self.clone();
            attempts.spawn(async move {
                let _permit = permit;
                let sent = match run {
                    Ok(run) => {
                        let message_paths = sender.graphs.get(&run.graph).map(|served| served.message_paths.clone()).unwrap_or_default();
                        sender.send(&url, &claimed, payload(&message_paths, &run, SystemTime::now())).await
                    }
                    // Another version of the program may be able to read the run.
                    Err(error) => Err(error.to_string()),
                };
                if let Err(error) = sender.record_attempt(&claimed, sent).await {
                    tracing::warn!(run = claimed.id, %error, "failed to store the result of a webhook; sending the webhook again later");
                }
            });
        }
        Ok(())
    }

    /// Abandons webhooks to paths that no process with a server has sent.
    async fn abandon_paths(&self, now: SystemTime) -> Result<(), RunsError> {
        let Some(before) = now.checked_sub(PATH_WAITS) else { return Ok(()) };
        let webhooks = runs::Webhooks::of(&*self.store);
        for delivery in webhooks.due_paths(before).await? {
            tracing::warn!(
                run = delivery.id,
                address = delivery.address,
                "abandoned a webhook to a path: no process with a server runs on this database"
            );
            webhooks.done(&delivery).await?;
        }
        Ok(())
    }

    /// Returns the whole URL. A path is one of this process, which reads such webhooks only if it has a server.
    fn url(&self, delivery: &Delivery) -> String {
        let Some(mut own) = self.own.filter(|_| delivery.address.starts_with('/')) else {
            return delivery.address.clone();
        };
        if own.ip().is_unspecified() {
            own.set_ip(if own.is_ipv4() { [127, 0, 0, 1].into() } else { std::net::Ipv6Addr::LOCALHOST.into() });
        }
        format!("http://{own}{}", delivery.address)
    }

    /// Makes one attempt. The error does not contain the address, because its path may contain a secret.
    async fn send(&self, url: &str, delivery: &Delivery, body: Vec<u8>) -> Result<(), String> {
        // The options may have changed since the run was accepted.
        self.options.check(&delivery.address)?;
        let request = self.client.post(url).headers(self.headers.clone()).header("content-type", "application/json");
        let response = request.header("webhook-id", &delivery.id).body(body).send().await;
        let response = response.map_err(|error| {
            let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}")).unwrap_or_default();
            format!("{}{cause}", error.without_url())
        })?;
        let status = response.status();
        if status.is_success() { Ok(()) } else { Err(format!("the receiver responded with {}", status.as_u16())) }
    }

    async fn record_attempt(&self, claimed: &Delivery, sent: Result<(), String>) -> Result<(), RunsError> {
        let webhooks = runs::Webhooks::of(&*self.store);
        let Err(reason) = sent else { return webhooks.done(claimed).await };
        let tried = usize::try_from(claimed.attempts).unwrap_or(usize::MAX);
        if let Some(seconds) = DELAYS.get(tried.saturating_sub(1)) {
            tracing::info!(
                run = claimed.id,
                reason,
                attempts = claimed.attempts,
                "failed to send a webhook; trying again later"
            );
            return webhooks.again(claimed, SystemTime::now() + Duration::from_secs(*seconds)).await;
        }
        tracing::warn!(
            run = claimed.id,
            reason,
            attempts = claimed.attempts,
            "abandoned a webhook after its last attempt: the receiver does not learn that the run has ended"
        );
        webhooks.done(claimed).await
    }
}

#[cfg(test)]
mod tests {
    use hier_core::runs::{Cancel, Document, MemoryRuns, NewRun, Request};
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    #[tokio::test]
    async fn names_with_internal_addresses_are_refused() {
        let name = || "localhost".parse::<Name>().expect("a name");
        let refused = PublicResolver { private: false }.resolve(name()).await.err().expect("a refusal").to_string();
        assert!(refused.contains("not on the public internet"), "{refused}");
        assert!(PublicResolver { private: true }.resolve(name()).await.is_ok());
    }

    /// The run of the first webhook cannot be read, which counts as an attempt. Both attempts start in one pass.
    #[tokio::test]
    async fn unreadable_run_does_not_delay_other_webhooks() {
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
        let due = webhooks.due(SystemTime::now()).await.expect("due webhooks");
        let [broken, whole] = &due[..] else { panic!("{due:?}") };
        let other = Document::new("webhook_run", &*broken.id, 7.into());
        assert!(store.driver().put_document(other, Some(1)).await.expect("a change"));
        let sender = WebhookSender::new(store.clone(), Webhooks::new().allow_private(), None).expect("a sender");
        let attempts = TaskTracker::new();
        sender.send_due(&AttemptLimits::new(), &attempts).await.expect("a pass");
        let answer = async {
            let (mut socket, _) = listener.accept().await.expect("a connection");
            socket.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").await.expect("an answer");
            let mut asked = Vec::new();
            socket.read_to_end(&mut asked).await.expect("the request");
            String::from_utf8_lossy(&asked).into_owned()
        };
        attempts.close();
        let (asked, ()) = tokio::join!(answer, attempts.wait());
        assert!(asked.contains(&whole.id), "{asked}");
        let kept = webhooks.all().await.expect("webhooks");
        assert_eq!(kept.iter().map(|kept| (&kept.id, kept.attempts)).collect::<Vec<_>>(), [(&broken.id, 1)]);
        assert!(kept[0].next < SystemTime::now() + CLAIM / 2, "it is tried again like any failed attempt: {kept:?}");
    }

    /// Adds ended runs with webhooks to these addresses.
    async fn add_due(store: &MemoryRuns, addresses: impl IntoIterator<Item = String>) {
        for (number, address) in addresses.into_iter().enumerate() {
            add_one(store, number, address).await;
        }
    }

    async fn add_one(store: &MemoryRuns, number: usize, address: String) {
        let mut request = Request::default();
        request.webhook = Some(address);
        let new = NewRun::new(format!("{number}"), "desk", request).create_thread();
        let run = store.driver().create_run(new).await.expect("a run");
        store.driver().cancel_runs(&run.thread, &[run.id], Cancel::Interrupt).await.expect("its end");
    }

    /// Returns the number of attempts to each address that was tried.
    async fn tried(store: &MemoryRuns) -> BTreeMap<String, u32> {
        let mut tried = BTreeMap::new();
        for webhook in
            runs::Webhooks::of(store).all().await.expect("webhooks").into_iter().filter(|one| one.attempts > 0)
        {
            *tried.entry(webhook.address).or_default() += webhook.attempts;
        }
        tried
    }

    /// No process with a server is running, so the paths wait. They are more than a pass reads.
    #[tokio::test]
    async fn paths_without_a_server_delay_no_others_and_are_abandoned_at_last() {
        let store = MemoryRuns::new();
        let (webhooks, other) = (runs::Webhooks::of(&store), "http://127.0.0.1:1/hook");
        let address = |number| if number < 299 { "/hook" } else { other }.to_owned();
        add_due(&store, (0..300).map(address)).await;
        let options = Webhooks::new().allow_private().allow_relative();
        let sender = WebhookSender::new(Arc::new(store.clone()), options, None).expect("a sender");
        let (limits, attempts) = (AttemptLimits::new(), TaskTracker::new());
        sender.send_due(&limits, &attempts).await.expect("a pass");
        attempts.close();
        attempts.wait().await;
        assert_eq!(tried(&store).await, BTreeMap::from([(other.to_owned(), 1)]));
        let all = webhooks.all().await.expect("webhooks");
        assert_eq!(all.len(), 300, "they wait for a server");
        let waits = all.iter().find(|one| one.address == "/hook").expect("a path");
        webhooks.again(waits, SystemTime::now() - PATH_WAITS - EVERY).await.expect("a change");
        sender.send_due(&limits, &attempts).await.expect("a pass");
        let left = webhooks.all().await.expect("webhooks");
        assert!(left.len() == 299 && left.iter().all(|one| one.id != waits.id), "{} are left", left.len());
    }

    /// The listener accepts connections but never responds. Its webhooks are more than a pass reads.
    #[tokio::test]
    async fn silent_host_delays_no_other_host() {
        let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let silent = (format!("http://{}/hook", silent.local_addr().expect("an address")), silent);
        let (store, other) = (MemoryRuns::new(), "http://localhost:1/hook");
        let address = |number| if number < 299 { silent.0.clone() } else { other.to_owned() };
        add_due(&store, (0..300).map(address)).await;
        let sender = WebhookSender::new(Arc::new(store.clone()), Webhooks::new().allow_private(), None);
        let (sender, limits, attempts) = (sender.expect("a sender"), AttemptLimits::new(), TaskTracker::new());
        for _ in 0..2 {
            sender.send_due(&limits, &attempts).await.expect("a pass");
        }
        let most = u32::try_from(MOST_PER_HOST).expect("a number");
        assert_eq!(tried(&store).await, BTreeMap::from([(silent.0.clone(), most), (other.to_owned(), 1)]));
    }

    /// Creates a listener that accepts connections but never responds.
    async fn silent() -> (tokio::net::TcpListener, u16) {
        let listener = tokio::net::TcpListener::bind("0.0.0.0:0").await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        (listener, port)
    }

    /// Makes one pass over the due webhooks, without waiting for the attempts.
    async fn pass(sender: &WebhookSender, limits: &AttemptLimits) {
        sender.send_due(limits, &TaskTracker::new()).await.expect("a pass");
    }

    /// A host that does not respond can accept [`MOST_PER_HOST`] attempts in each [`ATTEMPT_TIMEOUT`].
    #[tokio::test]
    async fn webhooks_of_a_silent_host_wait_until_it_can_accept_them() {
        let (_listener, port) = silent().await;
        let store = MemoryRuns::new();
        add_due(&store, (0..MOST_PER_HOST).map(|_| format!("http://127.0.0.1:{port}/first"))).await;
        let sender = WebhookSender::new(Arc::new(store.clone()), Webhooks::new().allow_private(), None);
        let (sender, limits) = (sender.expect("a sender"), AttemptLimits::new());
        pass(&sender, &limits).await;
        let rest = (MOST_PER_HOST..MOST_PER_HOST * 3).map(|number| (number, format!("http://127.0.0.1:{port}/rest")));
        for (number, address) in rest {
            add_one(&store, number, address).await;
        }
        let begin = SystemTime::now();
        pass(&sender, &limits).await;
        let all = runs::Webhooks::of(&store).all().await.expect("webhooks");
        let mut waits: Vec<u64> = all
            .iter()
            .filter(|one| one.attempts == 0)
            .map(|one| one.next.duration_since(begin).expect("a later time").as_secs() / ATTEMPT_TIMEOUT.as_secs())
            .collect();
        waits.sort_unstable();
        assert_eq!(waits, [[1; MOST_PER_HOST], [2; MOST_PER_HOST]].concat());
    }

    /// Otherwise, its webhooks would fill each read of the store while two such hosts hold all permits.
    #[tokio::test]
    async fn webhooks_of_a_full_host_wait_even_if_no_attempt_is_possible() {
        let (_listener, port) = silent().await;
        let store = MemoryRuns::new();
        let host = |number| if number < MOST_PER_HOST + 8 { "localhost" } else { "127.0.0.1" };
        add_due(&store, (0..2 * (MOST_PER_HOST + 8)).map(|number| format!("http://{}:{port}/hook", host(number))))
            .await;
        let sender = WebhookSender::new(Arc::new(store.clone()), Webhooks::new().allow_private(), None);
        pass(&sender.expect("a sender"), &AttemptLimits::new()).await;
        assert_eq!(runs::Webhooks::of(&store).due(SystemTime::now()).await.expect("webhooks"), []);
    }

    #[tokio::test]
    async fn older_path_precedes_urls() {
        let (listener, port) = silent().await;
        let store = MemoryRuns::new();
        let address = |number| match number {
            0 => "/hook".to_owned(),
            number if number <= MOST_PER_HOST => format!("http://localhost:{port}/hook"),
            _ => format!("http://127.0.0.2:{port}/hook"),
        };
        add_due(&store, (0..=2 * MOST_PER_HOST).map(address)).await;
        let options = Webhooks::new().allow_private().allow_relative();
        let sender = WebhookSender::new(Arc::new(store.clone()), options, listener.local_addr().ok());
        pass(&sender.expect("a sender"), &AttemptLimits::new()).await;
        assert_eq!(tried(&store).await.get("/hook"), Some(&1));
    }
}
