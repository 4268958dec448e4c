//! Finders of secrets in texts.

use std::fmt;
use std::ops::Range;

/// A finder of secrets in a string. Functions `fn(&str) -> Option<Range<usize>>` implement this trait. Example with the
/// crate `regex`: `|text| PATTERN.find(text).map(|found| found.range())`.
///
/// ```
/// use std::ops::Range;
///
/// use hier_agents::layer::{Find, Redact};
///
/// /// Keys of our own service: `key-` and 32 digits.
/// fn keys(text: &str) -> Option<Range<usize>> {
///     let start = text.find("key-")?;
///     let digits = text[start + 4..].bytes().take_while(u8::is_ascii_hexdigit).count();
///     (digits >= 32).then(|| start..start + 4 + digits)
/// }
///
/// let layer = Redact::new(keys);
/// # let _ = layer;
/// ```
pub trait Find: Send + Sync + 'static {
    /// Returns the byte range of the first secret in `text`, or `None` if `text` contains no secret. If the range is
    /// empty, exceeds `text`, or splits a character, the layer redacts everything from the start of the range.
    fn find(&self, text: &str) -> Option<Range<usize>>;

    /// Returns the byte position from which `text` may contain the beginning of an incomplete secret. While a reply is
    /// streamed, the layer does not send the text after this position until more text arrives.
    ///
    /// Defaults to the position 256 bytes before the end. If secrets can be longer, override this method. Otherwise the
    /// layer streams the beginning of a longer secret.
    fn open(&self, text: &str) -> usize {
        text.len().saturating_sub(LONGEST)
    }
}

/// The default maximum length of a secret, in bytes.
const LONGEST: usize = 256;

impl<F: Fn(&str) -> Option<Range<usize>> + Send + Sync + 'static> Find for F {
    fn find(&self, text: &str) -> Option<Range<usize>> {
        self(text)
    }
}

/// Returns the start of the run of matching bytes at the end of a text, at most `most` bytes long.
fn start_of_run(text: &str, most: usize, is_part: impl Fn(u8) -> bool) -> usize {
    let length = text.bytes().rev().take(most).take_while(|byte| is_part(*byte)).count();
    text.len() - length
}

/// A finder of e-mail addresses.
#[derive(Clone, Copy, Debug, Default)]
pub struct Emails;

fn in_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"._%+-".contains(&byte)
}

fn in_host(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'.' || byte == b'-'
}

impl Find for Emails {
    fn find(&self, text: &str) -> Option<Range<usize>> {
        let bytes = text.as_bytes();
        text.match_indices('@').find_map(|(at, _)| {
            let name = bytes[..at].iter().rev().take_while(|byte| in_name(**byte)).count();
            let host = bytes[at + 1..].iter().take_while(|byte| in_host(**byte)).count();
            let host = text[at + 1..at + 1 + host].trim_end_matches(['.', '-']);
            let (_, last) = host.rsplit_once('.')?;
            let is_address = name > 0 && last.len() >= 2 && last.bytes().all(|byte| byte.is_ascii_alphabetic());
            is_address.then_some(at - name..at + 1 + host.len())
        })
    }

    fn open(&self, text: &str) -> usize {
        // An address has at most 320 bytes.
        start_of_run(text, 320, |byte| in_name(byte) || byte == b'@')
    }
}

/// A finder of credit card numbers: 13 to 19 digits, optionally in groups, with a valid check digit.
#[derive(Clone, Copy, Debug, Default)]
pub struct CardNumbers;

impl Find for CardNumbers {
    fn find(&self, text: &str) -> Option<Range<usize>> {
        let bytes = text.as_bytes();
        let mut at = 0;
        while at < bytes.len() {
            if !bytes[at].is_ascii_digit() {
                at += 1;
                continue;
            }
            let length = bytes[at..].iter().take_while(|byte| in_card(**byte)).count();
            let run = text[at..at + length].trim_end_matches([' ', '-']);
            if let Some(found) = card(run) {
                return Some(at + found.start..at + found.end);
            }
            at += length;
        }
        None
    }

    fn open(&self, text: &str) -> usize {
        start_of_run(text, 48, in_card)
    }
}

fn in_card(byte: u8) -> bool {
    byte.is_ascii_digit() || byte == b' ' || byte == b'-'
}

/// Returns the first card number in a run of digits and separators, the longest if several begin at the same position.
/// The number starts and ends at the edge of a group of digits.
fn card(run: &str) -> Option<Range<usize>> {
    let bytes = run.as_bytes();
    let is_digit = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_digit);
    let mut starts = (0..bytes.len()).filter(|at| is_digit(*at) && (*at == 0 || !is_digit(at - 1)));
    starts.find_map(|start| {
        let (mut digits, mut count, mut end) = ([0; MOST_DIGITS], 0, None);
        let group = bytes.iter().enumerate().skip(start).filter(|(_, byte)| byte.is_ascii_digit());
        for (at, byte) in group.take(MOST_DIGITS) {
            digits[count] = byte - b'0';
            count += 1;
            if !is_digit(at + 1) && is_card(&digits[..count]) {
                end = Some(at + 1);
            }
        }
        end.map(|end| start..end)
    })
}

const MOST_DIGITS: usize = 19;

/// Returns true if a card can have these digits: their number and the check digit are right.
fn is_card(digits: &[u8]) -> bool {
    if digits.len() < 13 {
        return false;
    }
    let doubled = digits.iter().rev().enumerate().map(|(place, digit)| match place % 2 {
        0 => u32::from(*digit),
        _ if *digit > 4 => u32::from(*digit) * 2 - 9,
        _ => u32::from(*digit) * 2,
    });
    let sum: u32 = doubled.sum();
    sum > 0 && sum.is_multiple_of(10)
}

/// A finder of IPv4 and IPv6 addresses.
#[derive(Clone, Copy, Debug, Default)]
pub struct IpAddresses;

fn in_address(byte: u8) -> bool {
    byte.is_ascii_hexdigit() || byte == b'.' || byte == b':'
}

impl Find for IpAddresses {
    fn find(&self, text: &str) -> Option<Range<usize>> {
        let bytes = text.as_bytes();
        let mut at = 0;
        while at < bytes.len() {
            let length = bytes[at..].iter().take_while(|byte| in_address(**byte)).count();
            let run = text.get(at..at + length).unwrap_or_default();
            let address = run.trim_end_matches(['.', ':']);
            // The address without a port.
            let alone = address.split_once(':').map_or(address, |(alone, _)| alone);
            // Parts of words, as in `std::fmt`, do not count.
            let is_letter = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_alphanumeric);
            let stands_alone = |found: &&str| (at == 0 || !is_letter(at - 1)) && !is_letter(at + found.len());
            let found = [run, address, alone].into_iter().find(|text| text.parse::<std::net::IpAddr>().is_ok());
            if let Some(found) = found.filter(|found| found.len() > 2).filter(stands_alone) {
                return Some(at..at + found.len());
            }
            at += length.max(1);
        }
        None
    }

    fn open(&self, text: &str) -> usize {
        start_of_run(text, 64, |byte| in_address(byte) || byte.is_ascii_alphanumeric())
    }
}

/// A finder of fixed strings, such as keys and names. While a reply is streamed, [`Redact`](super::Redact) holds back
/// only text that may be the beginning of such a string.
#[derive(Clone)]
pub struct Texts(Vec<String>);

impl Texts {
    /// Creates a finder of these strings. Ignores empty strings.
    pub fn new<T: Into<String>>(texts: impl IntoIterator<Item = T>) -> Self {
        Self(texts.into_iter().map(Into::into).filter(|text| !text.is_empty()).collect())
    }
}

impl fmt::Debug for Texts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Texts").field(&self.0.len()).finish()
    }
}

impl Find for Texts {
    fn find(&self, text: &str) -> Option<Range<usize>> {
        let longest = self.0.iter().map(String::len).max()?;
        let mut window = longest.max(LONGEST);
        loop {
            // The searches cover only this window. A text that does not occur is thus not searched in the whole text.
            let end =
                (0..=text.len().min(window.saturating_add(longest))).rev().find(|end| text.is_char_boundary(*end))?;
            let found = self.0.iter().filter_map(|secret| Some((text[..end].find(secret.as_str())?, secret.len())));
            // If two texts begin at the same position, the longer text wins.
            let first = found.min_by_key(|(start, length)| (*start, usize::MAX - length));
            if end == text.len() || first.is_some_and(|(start, _)| start < window) {
                return first.map(|(start, length)| start..start + length);
            }
            window = window.saturating_mul(2);
        }
    }

    fn open(&self, text: &str) -> usize {
        let begun = |secret: &String| {
            let longest = secret.len().saturating_sub(1).min(text.len());
            let ends = (1..=longest).rev().filter(|length| secret.is_char_boundary(*length));
            ends.map(|length| &secret[..length]).find(|start| text.ends_with(start)).map_or(0, str::len)
        };
        text.len() - self.0.iter().map(begun).max().unwrap_or_default()
    }
}
