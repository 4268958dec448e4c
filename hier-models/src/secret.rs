//! Removes keys and other secrets from errors and debug output.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use percent_encoding::percent_decode_str;

/// The maximum length of a server's text in an error, in characters.
const LONGEST: usize = 500;
/// Minimum length of a secret in a URL or a header, in characters. Shorter values, such as that of `api-version=1`, are
/// not secrets, and replacing them would garble the text.
const SHORTEST_SECRET: usize = 5;

/// Number of fetched secrets that are kept, so that errors of requests in flight do not show them: eight credentials of
/// at most three parts.
const REMEMBERED: usize = 24;

/// Secrets that were fetched for recent requests.
#[derive(Clone, Default)]
pub(crate) struct RecentSecrets(Arc<Mutex<VecDeque<String>>>);

impl RecentSecrets {
    fn lock(&self) -> MutexGuard<'_, VecDeque<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn add(&self, secret: &str) {
        let mut known = self.lock();
        if !known.iter().any(|one| one == secret) {
            known.push_back(secret.to_owned());
            if known.len() > REMEMBERED {
                known.pop_front();
            }
        }
    }

    pub(crate) fn list(&self) -> Vec<String> {
        self.lock().iter().cloned().collect()
    }
}

/// The secrets of one model: its keys, the values of its headers, and the secrets in its URL.
pub(crate) struct Secrets(Vec<(String, &'static str)>);

impl Secrets {
    /// Collects the secrets of keys, header values and a URL. Longer secrets come first, because a secret may be a part
    /// of another secret.
    pub(crate) fn new(
        keys: impl IntoIterator<Item = String>,
        headers: impl IntoIterator<Item = String>,
        url: &str,
    ) -> Self {
        let keys = keys.into_iter().filter(|key| !key.is_empty()).map(|key| (key, "[the key]"));
        let headers = headers.into_iter().filter(|value| value.chars().count() >= SHORTEST_SECRET);
        let mut found: Vec<(String, &'static str)> = keys.chain(headers.map(|value| (value, "…"))).collect();
        let (front, query) = url.split_once('?').unwrap_or((url, ""));
        let mut hide = |text: &str| {
            let decoded = percent_decode_str(text).decode_utf8_lossy().into_owned();
            for form in [text.to_owned(), decoded] {
                if form.chars().count() >= SHORTEST_SECRET {
                    found.push((form, "…"));
                }
            }
        };
        hide(query);
        query.split('&').filter_map(|pair| pair.split_once('=')).for_each(|(_, value)| hide(value));
        if let Some(user) = user_info(front) {
            hide(user.split_once(':').map_or("", |(_, password)| password));
            hide(&BASE64_STANDARD.encode(percent_decode_str(user).collect::<Vec<u8>>()));
        }
        found.sort_by_key(|(text, _)| std::cmp::Reverse(text.len()));
        Self(found)
    }

    /// Replaces the secrets and control characters, and limits the length.
    pub(crate) fn redact(&self, text: &str) -> String {
        let hidden = self.0.iter().fold(text.to_owned(), |text, (secret, shown)| text.replace(secret.as_str(), shown));
        let mut clean = String::with_capacity(hidden.len().min(LONGEST * 4));
        for (count, letter) in hidden.chars().enumerate() {
            if count == LONGEST {
                clean.push('…');
                break;
            }
            match letter {
                '\n' | '\t' => clean.push(letter),
                // A terminal would interpret these characters.
                letter if letter.is_control() || is_bidirectional(letter) => clean.extend(letter.escape_unicode()),
                letter => clean.push(letter),
            }
        }
        clean
    }
}

fn is_bidirectional(letter: char) -> bool {
    matches!(letter, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Returns `user:password` of a URL.
fn user_info(front: &str) -> Option<&str> {
    let (_, rest) = front.split_once("://")?;
    let host = &rest[..rest.find('/').unwrap_or(rest.len())];
    host.rfind('@').map(|at| &host[..at])
}

/// Returns a URL without user, password and query.
pub(crate) fn redacted_url(url: &str) -> String {
    let front = url.split_once('?').map_or(url, |(front, _)| front);
    match (user_info(front), front.split_once("://")) {
        (Some(user), Some((scheme, rest))) => format!("{scheme}://{}", &rest[user.len() + 1..]),
        _ => front.to_owned(),
    }
}
