//! Limits the rate of requests of each user or address.

use std::collections::{HashMap, HashSet};
use std::convert::Infallible;
use std::hash::{BuildHasher, RandomState};
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use axum::extract::{ConnectInfo, FromRequestParts, Request};
use axum::http::request::Parts;
use axum::http::{Extensions, HeaderMap, HeaderValue, header};

use crate::auth::User;

#[derive(Debug)]
pub(crate) struct RateLimiter {
    each_second: f64,
    /// True if the limit also applies to requests from this machine without a user.
    holds_for_all: bool,
    left: Mutex<HashMap<RequestSender, Allowance>>,
    valid: Mutex<ValidCredentials>,
}

/// The number of requests that a sender had left at a point in time. With less than 1, the sender must wait.
#[derive(Clone, Copy, Debug)]
struct Allowance {
    left: f64,
    at: Instant,
}

impl Allowance {
    /// Returns the number of requests that are left now. `each_second` requests are added each second.
    fn now(self, each_second: f64, now: Instant) -> f64 {
        now.saturating_duration_since(self.at).as_secs_f64().mul_add(each_second, self.left).min(each_second)
    }
}

const MAX_REMEMBERED: usize = 10_000;

const CREDENTIALS: [header::HeaderName; 3] =
    [header::AUTHORIZATION, header::HeaderName::from_static("x-api-key"), header::COOKIE];

/// Keyed hashes of credentials that were valid when a client last sent them.
#[derive(Debug, Default)]
struct ValidCredentials {
    key: RandomState,
    hashes: HashSet<u64>,
}

/// The keyed hash of a request's credentials. `None` if the request has no credentials.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CredentialsHash(Option<u64>);

/// The sender whose requests are counted together.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum RequestSender {
    User(String),
    Address(Option<IpAddr>),
    /// Clients at an address that have sent wrong credentials.
    Unknown(IpAddr),
}

impl RateLimiter {
    pub(crate) fn new(each_second: u32, holds_for_all: bool) -> Self {
        Self { each_second: f64::from(each_second), holds_for_all, left: Mutex::default(), valid: Mutex::default() }
    }

    /// Takes one request from the allowance of a sender. Returns false if no request is left.
    pub(crate) fn try_take(&self, sender: &RequestSender, now: Instant) -> bool {
        self.change(sender, now, |left| {
            let is_left = *left >= 1.0;
            *left -= f64::from(u8::from(is_left));
            is_left
        })
    }

    fn change<T>(&self, sender: &RequestSender, now: Instant, change: impl FnOnce(&mut f64) -> T) -> T {
        let (each, mut left) = (self.each_second, self.left.lock().unwrap_or_else(PoisonError::into_inner));
        // Senders with a full allowance need not be remembered.
        if left.len() > MAX_REMEMBERED {
            left.retain(|_, allowance| allowance.now(each, now) < each);
        }
        let allowance = left.entry(sender.clone()).or_insert(Allowance { left: each, at: now });
        *allowance = Allowance { left: allowance.now(each, now), at: now };
        change(&mut allowance.left)
    }

    pub(crate) fn credentials(&self, headers: &HeaderMap) -> CredentialsHash {
        let values: Vec<Vec<&[u8]>> =
            CREDENTIALS.iter().map(|name| headers.get_all(name).iter().map(HeaderValue::as_bytes).collect()).collect();
        let is_any = values.iter().any(|values| !values.is_empty());
        CredentialsHash(is_any.then(|| self.valid().key.hash_one(values)))
    }

    /// Returns true if the server refuses a request without checking its credentials. This is the case if the request's
    /// address has sent too many wrong credentials, and these credentials were not valid before. This limits guessing,
    /// but does not lock out known users of a shared address.
    pub(crate) fn is_guessing(&self, request: &Extensions, credentials: CredentialsHash) -> bool {
        let Some(sender) = self.unknown(request) else { return false };
        let (left, now) = (self.left.lock().unwrap_or_else(PoisonError::into_inner), Instant::now());
        left.get(&sender).is_some_and(|allowance| allowance.now(self.each_second, now) < 1.0)
            && !credentials.0.is_some_and(|hash| self.valid().hashes.contains(&hash))
    }

    /// Remembers valid credentials, unless the address of the request has sent too many wrong credentials. Otherwise, a
    /// client could evade the limit with headers that are valid in one request and wrong in the next.
    pub(crate) fn note_valid(&self, request: &Extensions, credentials: CredentialsHash) {
        let CredentialsHash(Some(hash)) = credentials else { return };
        let is_known = self.valid().hashes.contains(&hash);
        if is_known || self.is_guessing(request, CredentialsHash(None)) {
            return;
        }
        let mut valid = self.valid();
        if valid.hashes.len() >= MAX_REMEMBERED {
            // Active users are remembered again with their next request.
            valid.hashes.clear();
        }
        valid.hashes.insert(hash);
    }

    /// Counts a request with wrong credentials. If many such requests arrive at once, the allowance falls below zero.
    pub(crate) fn note_invalid(&self, request: &Extensions, credentials: CredentialsHash) {
        if let Some(hash) = credentials.0 {
            self.valid().hashes.remove(&hash);
        }
        if let Some(sender) = self.unknown(request) {
            self.change(&sender, Instant::now(), |left| *left -= 1.0);
        }
    }

    fn valid(&self) -> std::sync::MutexGuard<'_, ValidCredentials> {
        self.valid.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn unknown(&self, request: &Extensions) -> Option<RequestSender> {
        let address = address(request).filter(|address| self.holds_for_all || !address.is_loopback());
        address.map(RequestSender::Unknown)
    }

    /// Returns the sender of a request, or `None` if the limit does not apply to the sender.
    pub(crate) fn sender(&self, request: &Extensions) -> Option<RequestSender> {
        let user = request.get::<User>().map(|user| user.identity.as_str()).filter(|name| !name.is_empty());
        if let Some(user) = user {
            return Some(RequestSender::User(user.to_owned()));
        }
        let address = address(request);
        let is_counted = self.holds_for_all || !address.is_some_and(|address| address.is_loopback());
        is_counted.then_some(RequestSender::Address(address))
    }
}

fn address(request: &Extensions) -> Option<IpAddr> {
    request.get::<ConnectInfo<SocketAddr>>().map(|info| info.0.ip())
}

/// A request's sender. A connection that lasts longer than its request keeps it.
#[derive(Clone, Debug)]
pub(crate) struct Admission {
    rates: Arc<RateLimiter>,
    sender: Option<RequestSender>,
}

impl Admission {
    /// Adds the admission to a request that opens a connection, so that the route can read it.
    pub(crate) fn attach(request: &mut Request, rates: &Arc<RateLimiter>, sender: Option<RequestSender>) {
        let admission = Self { rates: rates.clone(), sender };
        request.extensions_mut().insert(admission);
    }

    /// Takes one request from the allowance of the sender. Returns false if no request is left.
    pub(crate) fn admits(&self) -> bool {
        self.sender.as_ref().is_none_or(|sender| self.rates.try_take(sender, Instant::now()))
    }
}

/// The admission of a request that opens a connection.
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
    fn exhausted_user_waits_and_others_do_not() {
        let (rates, now) = (RateLimiter::new(2, true), Instant::now());
        let [a, b] = ["a", "b"].map(|name| RequestSender::User(name.to_owned()));
        assert!(rates.try_take(&a, now) && rates.try_take(&a, now));
        assert!(!rates.try_take(&a, now));
        assert!(rates.try_take(&b, now), "others are not limited");
        assert!(rates.try_take(&a, now + Duration::from_millis(500)));
        assert!(!rates.try_take(&a, now + Duration::from_millis(500)));
    }

    fn from(address: [u8; 4]) -> Extensions {
        let mut request = Extensions::new();
        request.insert(ConnectInfo(SocketAddr::from((address, 1))));
        request
    }

    fn with_token(rates: &RateLimiter, token: &str) -> CredentialsHash {
        let mut headers = HeaderMap::new();
        headers.insert(header::AUTHORIZATION, token.parse().expect("a header"));
        rates.credentials(&headers)
    }

    #[test]
    fn unauthenticated_senders_exhaust_only_their_address() {
        let rates = RateLimiter::new(2, true);
        let [mut here, there] = [[127, 0, 0, 1], [10, 0, 0, 1]].map(from);
        let none = rates.credentials(&HeaderMap::new());
        for _ in 0..3 {
            rates.note_invalid(&here, none);
        }
        assert!(rates.is_guessing(&here, none));
        assert!(!rates.is_guessing(&there, none));
        here.insert(User::new("alice"));
        assert!(rates.sender(&here).is_some_and(|sender| rates.try_take(&sender, Instant::now())));
        let spared = RateLimiter::new(2, false);
        for _ in 0..3 {
            spared.note_invalid(&here, none);
        }
        assert!(!spared.is_guessing(&here, none), "a proxy on this machine stands for all of its users");
    }

    #[test]
    fn known_users_pass_while_others_guess() {
        let (rates, proxy) = (RateLimiter::new(2, true), from([10, 0, 0, 1]));
        let [alice, bob, wrong] = ["alice", "bob", "wrong"].map(|token| with_token(&rates, token));
        rates.note_valid(&proxy, alice);
        for _ in 0..3 {
            rates.note_invalid(&proxy, wrong);
        }
        assert!(!rates.is_guessing(&proxy, alice));
        assert!(
            rates.is_guessing(&proxy, wrong) && rates.is_guessing(&proxy, bob),
            "the valid one cannot be distinguished"
        );
        // A token that has become invalid is treated like all other tokens.
        rates.note_invalid(&proxy, alice);
        rates.note_valid(&proxy, alice);
        assert!(rates.is_guessing(&proxy, alice));
    }

    #[test]
    fn wrong_tokens_that_arrive_at_once_are_all_counted() {
        let (rates, proxy) = (RateLimiter::new(100, true), from([10, 0, 0, 1]));
        for _ in 0..100_000 {
            rates.note_invalid(&proxy, CredentialsHash(None));
        }
        let left = rates.left.lock().unwrap()[&RequestSender::Unknown([10, 0, 0, 1].into())];
        assert!(left.now(100.0, left.at + Duration::from_mins(15)) < 1.0);
    }
}
