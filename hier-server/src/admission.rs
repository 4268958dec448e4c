//! Limits on the requests of a user.

use std::collections::HashMap;
use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use axum::extract::{ConnectInfo, FromRequestParts, Request};
use axum::http::Extensions;
use axum::http::request::Parts;
use tokio::sync::OwnedSemaphorePermit;

use crate::auth::User;

/// Number of requests that each user has left.
#[derive(Debug)]
pub(crate) struct Rates {
    each_second: f64,
    /// True if the limit also applies to programs on this machine.
    holds_for_all: bool,
    left: Mutex<HashMap<Who, (f64, Instant)>>,
}

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
        Self { each_second: f64::from(each_second), holds_for_all, left: Mutex::default() }
    }

    /// Takes one; false if none is left.
    pub(crate) fn take(&self, who: &Who, now: Instant) -> bool {
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        // Users with a full allowance need not be remembered.
        if left.len() > 10_000 {
            let each = self.each_second;
            left.retain(|_, (tokens, at)| now.duration_since(*at).as_secs_f64().mul_add(each, *tokens) < each);
        }
        let (tokens, at) = left.entry(who.clone()).or_insert((self.each_second, now));
        *tokens = now.duration_since(*at).as_secs_f64().mul_add(self.each_second, *tokens).min(self.each_second);
        *at = now;
        if *tokens < 1.0 {
            return false;
        }
        *tokens -= 1.0;
        true
    }

    /// Returns true if the address of this request has sent too many requests from unknown senders. The server rejects such a request
    /// unread, so that tokens cannot be guessed faster than the rate limit.
    pub(crate) fn is_guessing(&self, request: &Extensions) -> bool {
        let Some(who) = self.unknown(request) else { return false };
        let (left, now) = (self.left.lock().unwrap_or_else(PoisonError::into_inner), Instant::now());
        left.get(&who)
            .is_some_and(|(tokens, at)| now.duration_since(*at).as_secs_f64().mul_add(self.each_second, *tokens) < 1.0)
    }

    /// Counts a request whose sender the server does not know.
    pub(crate) fn count_unknown(&self, request: &Extensions) {
        if let Some(who) = self.unknown(request) {
            self.take(&who, Instant::now());
        }
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

    #[test]
    fn unknown_senders_use_up_their_address_and_nothing_else() {
        let rates = Rates::new(2, true);
        let mut of = [[127, 0, 0, 1], [10, 0, 0, 1]].map(|address| {
            let mut request = Extensions::new();
            request.insert(ConnectInfo(SocketAddr::from((address, 1))));
            request
        });
        for _ in 0..3 {
            rates.count_unknown(&of[0]);
        }
        assert!(rates.is_guessing(&of[0]));
        assert!(!rates.is_guessing(&of[1]));
        of[0].insert(User::new("alice"));
        assert!(rates.who(&of[0]).is_some_and(|who| rates.take(&who, Instant::now())));
        let spared = Rates::new(2, false);
        for _ in 0..3 {
            spared.count_unknown(&of[0]);
        }
        assert!(!spared.is_guessing(&of[0]), "a proxy on this machine stands for all of its users");
    }
}
