//! Limits on the requests of a user.

use std::collections::{HashMap, HashSet};
use std::convert::Infallible;
use std::hash::{BuildHasher, RandomState};
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use axum::extract::{ConnectInfo, FromRequestParts, Request};
use axum::http::request::Parts;
use axum::http::{Extensions, HeaderMap, HeaderValue, header};
use tokio::sync::OwnedSemaphorePermit;

use crate::auth::User;

/// Number of requests that each user has left.
#[derive(Debug)]
pub(crate) struct Rates {
    each_second: f64,
    /// True if the limit also applies to programs on this machine.
    holds_for_all: bool,
    left: Mutex<HashMap<Who, Allowance>>,
    known: Mutex<Known>,
}

/// Requests that are left, as of a time. Below zero, the sender has to wait for what it has sent too much.
#[derive(Clone, Copy, Debug)]
struct Allowance {
    left: f64,
    at: Instant,
}

impl Allowance {
    /// What is left now, refilled by this many each second.
    fn now(self, each_second: f64, now: Instant) -> f64 {
        now.saturating_duration_since(self.at).as_secs_f64().mul_add(each_second, self.left).min(each_second)
    }
}

/// Maximum number of credentials that are remembered.
const MOST_KNOWN: usize = 10_000;

/// The headers in which credentials are sent.
const CREDENTIALS: [header::HeaderName; 3] =
    [header::AUTHORIZATION, header::HeaderName::from_static("x-api-key"), header::COOKIE];

/// Keyed hashes of credentials that were valid when they were last sent.
#[derive(Debug, Default)]
struct Known {
    key: RandomState,
    hashes: HashSet<u64>,
}

/// Credentials of a request, as a keyed hash. None if it has none.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shown(Option<u64>);

/// Whose requests are counted.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Who {
    User(String),
    Address(Option<IpAddr>),
    /// Requests from an address whose senders the server does not know.
    Unknown(IpAddr),
}

impl Rates {
    pub(crate) fn new(each_second: u32, holds_for_all: bool) -> Self {
        Self { each_second: f64::from(each_second), holds_for_all, left: Mutex::default(), known: Mutex::default() }
    }

    /// Takes one; false if none is left.
    pub(crate) fn take(&self, who: &Who, now: Instant) -> bool {
        self.change(who, now, |left| {
            let is_left = *left >= 1.0;
            *left -= f64::from(u8::from(is_left));
            is_left
        })
    }

    fn change<T>(&self, who: &Who, now: Instant, change: impl FnOnce(&mut f64) -> T) -> T {
        let (each, mut left) = (self.each_second, self.left.lock().unwrap_or_else(PoisonError::into_inner));
        // Users with a full allowance need not be remembered.
        if left.len() > 10_000 {
            left.retain(|_, allowance| allowance.now(each, now) < each);
        }
        let allowance = left.entry(who.clone()).or_insert(Allowance { left: each, at: now });
        *allowance = Allowance { left: allowance.now(each, now), at: now };
        change(&mut allowance.left)
    }

    /// The credentials of a request.
    pub(crate) fn shown(&self, headers: &HeaderMap) -> Shown {
        let values: Vec<Vec<&[u8]>> =
            CREDENTIALS.iter().map(|name| headers.get_all(name).iter().map(HeaderValue::as_bytes).collect()).collect();
        let is_any = values.iter().any(|values| !values.is_empty());
        Shown(is_any.then(|| self.known().key.hash_one(values)))
    }

    /// Returns true if the server does not look at the credentials of a request: its address has sent too many wrong ones, and these were
    /// not valid before. So nobody tries credentials faster than the rate limit, and known users of a shared address are not locked out.
    pub(crate) fn is_guessing(&self, request: &Extensions, shown: Shown) -> bool {
        let Some(who) = self.unknown(request) else { return false };
        let (left, now) = (self.left.lock().unwrap_or_else(PoisonError::into_inner), Instant::now());
        left.get(&who).is_some_and(|allowance| allowance.now(self.each_second, now) < 1.0)
            && !shown.0.is_some_and(|hash| self.known().hashes.contains(&hash))
    }

    /// Remembers credentials that are valid, unless the address of the request sends too many wrong ones: then valid and wrong ones
    /// could alternate under the same headers.
    pub(crate) fn note_valid(&self, request: &Extensions, shown: Shown) {
        let Shown(Some(hash)) = shown else { return };
        let is_known = self.known().hashes.contains(&hash);
        if is_known || self.is_guessing(request, Shown(None)) {
            return;
        }
        let mut known = self.known();
        if known.hashes.len() >= MOST_KNOWN {
            // Those who are still there are remembered again with their next request.
            known.hashes.clear();
        }
        known.hashes.insert(hash);
    }

    /// Counts a request with wrong credentials. Requests that were sent at once are all counted, so that they are paid for afterwards.
    pub(crate) fn note_wrong(&self, request: &Extensions, shown: Shown) {
        if let Some(hash) = shown.0 {
            self.known().hashes.remove(&hash);
        }
        if let Some(who) = self.unknown(request) {
            self.change(&who, Instant::now(), |left| *left -= 1.0);
        }
    }

    fn known(&self) -> std::sync::MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn unknown(&self, request: &Extensions) -> Option<Who> {
        let address = address(request).filter(|address| self.holds_for_all || !address.is_loopback());
        address.map(Who::Unknown)
    }

    /// Whose request this is; none if it is not counted.
    pub(crate) fn who(&self, request: &Extensions) -> Option<Who> {
        let user = request.get::<User>().map(|user| user.identity.as_str()).filter(|name| !name.is_empty());
        if let Some(user) = user {
            return Some(Who::User(user.to_owned()));
        }
        let address = address(request);
        let is_counted = self.holds_for_all || !address.is_some_and(|address| address.is_loopback());
        is_counted.then_some(Who::Address(address))
    }
}

fn address(request: &Extensions) -> Option<IpAddr> {
    request.get::<ConnectInfo<SocketAddr>>().map(|info| info.0.ip())
}

/// A request's share of the server's limits. A connection that outlives its request keeps it.
#[derive(Clone, Debug)]
pub(crate) struct Admission {
    rates: Arc<Rates>,
    who: Option<Who>,
    _place: Arc<OwnedSemaphorePermit>,
}

impl Admission {
    /// Remembers what a request holds, for the route that answers it.
    pub(crate) fn put(request: &mut Request, rates: &Arc<Rates>, who: Option<Who>, place: &Arc<OwnedSemaphorePermit>) {
        let admission = Self { rates: rates.clone(), who, _place: place.clone() };
        request.extensions_mut().insert(admission);
    }

    /// Returns true if the sender may make another request now.
    pub(crate) fn admits(&self) -> bool {
        self.who.as_ref().is_none_or(|who| self.rates.take(who, Instant::now()))
    }
}

/// The admission of a request. Only set for a request that begins a connection.
#[derive(Clone, Debug)]
pub(crate) struct Admitted(pub(crate) Option<Admission>);

impl<S: Send + Sync> FromRequestParts<S> for Admitted {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(Self(parts.extensions.get::<Admission>().cloned()))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_user_that_asks_too_often_waits_and_others_do_not() {
        let (rates, now) = (Rates::new(2, true), Instant::now());
        let [a, b] = ["a", "b"].map(|name| Who::User(name.to_owned()));
        assert!(rates.take(&a, now) && rates.take(&a, now));
        assert!(!rates.take(&a, now));
        assert!(rates.take(&b, now), "others are not held up");
        assert!(rates.take(&a, now + Duration::from_millis(500)));
        assert!(!rates.take(&a, now + Duration::from_millis(500)));
    }

    fn from(address: [u8; 4]) -> Extensions {
        let mut request = Extensions::new();
        request.insert(ConnectInfo(SocketAddr::from((address, 1))));
        request
    }

    fn with_token(rates: &Rates, token: &str) -> Shown {
        let mut headers = HeaderMap::new();
        headers.insert(header::AUTHORIZATION, token.parse().expect("a header"));
        rates.shown(&headers)
    }

    #[test]
    fn unknown_senders_use_up_their_address_and_nothing_else() {
        let rates = Rates::new(2, true);
        let [mut here, there] = [[127, 0, 0, 1], [10, 0, 0, 1]].map(from);
        let nobody = rates.shown(&HeaderMap::new());
        for _ in 0..3 {
            rates.note_wrong(&here, nobody);
        }
        assert!(rates.is_guessing(&here, nobody));
        assert!(!rates.is_guessing(&there, nobody));
        here.insert(User::new("alice"));
        assert!(rates.who(&here).is_some_and(|who| rates.take(&who, Instant::now())));
        let spared = Rates::new(2, false);
        for _ in 0..3 {
            spared.note_wrong(&here, nobody);
        }
        assert!(!spared.is_guessing(&here, nobody), "a proxy on this machine stands for all of its users");
    }

    #[test]
    fn known_users_pass_where_others_guess() {
        let (rates, proxy) = (Rates::new(2, true), from([10, 0, 0, 1]));
        let [alice, bob, wrong] = ["alice", "bob", "wrong"].map(|token| with_token(&rates, token));
        rates.note_valid(&proxy, alice);
        for _ in 0..3 {
            rates.note_wrong(&proxy, wrong);
        }
        assert!(!rates.is_guessing(&proxy, alice));
        assert!(rates.is_guessing(&proxy, wrong) && rates.is_guessing(&proxy, bob), "it cannot be told which is valid");
        // A token that is no longer valid, or stands beside something that is guessed, is one among all others.
        rates.note_wrong(&proxy, alice);
        rates.note_valid(&proxy, alice);
        assert!(rates.is_guessing(&proxy, alice));
    }

    #[test]
    fn wrong_tokens_that_were_sent_at_once_are_paid_for() {
        let (rates, proxy) = (Rates::new(100, true), from([10, 0, 0, 1]));
        for _ in 0..100_000 {
            rates.note_wrong(&proxy, Shown(None));
        }
        let left = rates.left.lock().unwrap()[&Who::Unknown([10, 0, 0, 1].into())];
        assert!(left.now(100.0, left.at + Duration::from_mins(15)) < 1.0);
    }
}
