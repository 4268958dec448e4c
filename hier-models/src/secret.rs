//! Keeps keys and other secrets of an address out of what is told.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use percent_encoding::percent_decode_str;

/// The longest piece of a server's text that an error repeats, in characters.
const LONGEST: usize = 500;
/// Shorter values of a query (`api-version=1`) are no secrets, and replacing them would garble what is told.
const SHORTEST_SECRET: usize = 5;

/// The secrets of one model: its key, and those of its address.
pub(crate) struct Secrets(Vec<(String, &'static str)>);

impl Secrets {
    /// Collects the secrets of a key and an address, the longest first: one may be a part of another.
    pub(crate) fn new(key: Option<&str>, url: &str) -> Self {
        let mut found: Vec<(String, &'static str)> = Vec::new();
        found.extend(key.filter(|key| !key.is_empty()).map(|key| (key.to_owned(), "[the key]")));
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
        if let Some(user) = user_of(front) {
            hide(user.split_once(':').map_or("", |(_, password)| password));
            hide(&BASE64_STANDARD.encode(percent_decode_str(user).collect::<Vec<u8>>()));
        }
        found.sort_by_key(|(text, _)| std::cmp::Reverse(text.len()));
        Self(found)
    }

    /// The text without the secrets, without control characters, and not too long.
    pub(crate) fn clean(&self, text: &str) -> String {
        let told = self.0.iter().fold(text.to_owned(), |text, (secret, shown)| text.replace(secret.as_str(), shown));
        let mut clean = String::with_capacity(told.len().min(LONGEST * 4));
        for (count, letter) in told.chars().enumerate() {
            if count == LONGEST {
                clean.push('…');
                break;
            }
            match letter {
                '\n' | '\t' => clean.push(letter),
                // A terminal would obey them.
                letter if letter.is_control() || is_bidirectional(letter) => clean.extend(letter.escape_unicode()),
                letter => clean.push(letter),
            }
        }
        clean
    }
}

/// Letters that turn the direction of what follows.
fn is_bidirectional(letter: char) -> bool {
    matches!(letter, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// The user's name and password in an address.
fn user_of(front: &str) -> Option<&str> {
    let (_, rest) = front.split_once("://")?;
    let host = &rest[..rest.find('/').unwrap_or(rest.len())];
    host.rfind('@').map(|at| &host[..at])
}

/// A URL as it may be shown: without a user's name and password, and without its query.
pub(crate) fn shown(url: &str) -> String {
    let front = url.split_once('?').map_or(url, |(front, _)| front);
    match (user_of(front), front.split_once("://")) {
        (Some(user), Some((scheme, rest))) => format!("{scheme}://{}", &rest[user.len() + 1..]),
        _ => front.to_owned(),
    }
}
