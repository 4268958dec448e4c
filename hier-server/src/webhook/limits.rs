//! Limits of the attempts at the same time.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Number of attempts at the same time.
const MOST: usize = 64;
/// Number of attempts to one host at the same time. A host that does not respond leaves the others to other hosts.
pub(super) const MOST_PER_HOST: usize = MOST / 2;

/// The attempts that a sender can make at the same time, in total and to each host.
#[derive(Debug)]
pub(super) struct AttemptLimits {
    all: Arc<Semaphore>,
    hosts: Mutex<HashMap<String, Arc<Semaphore>>>,
}

/// The permission for one attempt.
#[derive(Debug)]
pub(super) struct AttemptPermit {
    _of_all: OwnedSemaphorePermit,
    _of_host: OwnedSemaphorePermit,
}

/// The limit that does not allow an attempt now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AttemptLimit {
    All,
    Host,
}

impl AttemptLimits {
    pub(super) fn new() -> Self {
        Self { all: Arc::new(Semaphore::new(MOST)), hosts: Mutex::default() }
    }

    /// Returns the permission for an attempt to a host.
    pub(super) fn try_acquire(&self, host: &str) -> Result<AttemptPermit, AttemptLimit> {
        let mut hosts = self.hosts.lock().unwrap_or_else(PoisonError::into_inner);
        hosts.retain(|_, attempts| attempts.available_permits() < MOST_PER_HOST);
        let attempts = hosts.entry(host.to_owned()).or_insert_with(|| Arc::new(Semaphore::new(MOST_PER_HOST)));
        // The limit of the host comes first: the sender postpones other attempts to a host that is full.
        let of_host = attempts.clone().try_acquire_owned().map_err(|_| AttemptLimit::Host)?;
        let of_all = self.all.clone().try_acquire_owned().map_err(|_| AttemptLimit::All)?;
        Ok(AttemptPermit { _of_all: of_all, _of_host: of_host })
    }
}

/// Returns the host of a URL. All invalid URLs have the same host.
pub(super) fn host_of(url: &str) -> String {
    reqwest::Url::parse(url).ok().and_then(|url| url.host_str().map(str::to_owned)).unwrap_or_default()
}
