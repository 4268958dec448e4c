//! Ranks short texts by Okapi BM25: rare words count more than common words, and words of a short text more than words
//! of a long text. The order is the same on every machine.

use std::collections::{BTreeMap, BTreeSet};

/// The saturation of repeated words. `LENGTH` is the influence of a text's length. Both have the usual values.
const SATURATION: f64 = 1.2;
const LENGTH: f64 = 0.75;
/// The share of the best score that a text needs. Common words of a query therefore find nothing by themselves.
const LEAST_SHARE: f64 = 1.0 / 3.0;
/// The number of words of a query that count.
const MOST_WORDS: usize = 64;

/// A text, as the weights of its words.
#[derive(Debug, Default)]
pub(super) struct WordBag {
    words: BTreeMap<String, f64>,
    length: f64,
}

impl WordBag {
    /// Adds a text whose words have this weight.
    pub(super) fn add(&mut self, text: &str, weight: f64) {
        for word in words(text) {
            *self.words.entry(word).or_default() += weight;
            self.length += weight;
        }
    }
}

/// Returns the indices of the texts that match the query, the best first. Equally good texts keep their order.
pub(super) fn ranked(texts: &[WordBag], query: &str) -> Vec<usize> {
    let count = number(texts.len());
    let average = texts.iter().map(|text| text.length).sum::<f64>() / count.max(1.0);
    let wanted: BTreeSet<String> = words(query).into_iter().take(MOST_WORDS).collect();
    let mut scores = vec![0.0_f64; texts.len()];
    for word in &wanted {
        let having = number(texts.iter().filter(|text| text.words.contains_key(word)).count());
        let rarity = (1.0 + (count - having + 0.5) / (having + 0.5)).ln();
        for (text, score) in texts.iter().zip(&mut scores) {
            let Some(weight) = text.words.get(word) else { continue };
            let norm = SATURATION * (1.0 - LENGTH + LENGTH * text.length / average);
            *score += rarity * weight * (SATURATION + 1.0) / (weight + norm);
        }
    }
    let least = scores.iter().copied().fold(0.0, f64::max) * LEAST_SHARE;
    let mut found: Vec<usize> = (0..texts.len()).filter(|text| scores[*text] > 0.0 && scores[*text] >= least).collect();
    found.sort_by(|one, other| scores[*other].total_cmp(&scores[*one]));
    found
}

fn number(count: usize) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}

/// Returns the words of a text in lower case. `createIssue` and `create_issues` have the same two words.
fn words(text: &str) -> Vec<String> {
    let (mut words, mut word, mut was_lower) = (Vec::new(), String::new(), false);
    let mut end = |word: &mut String| {
        if !word.is_empty() {
            words.push(singular(std::mem::take(word)));
        }
    };
    for letter in text.chars() {
        let is_own = is_ideograph(letter);
        if !letter.is_alphanumeric() || is_own || (letter.is_uppercase() && was_lower) {
            end(&mut word);
        }
        if letter.is_alphanumeric() {
            word.extend(letter.to_lowercase());
        }
        if is_own {
            end(&mut word);
        }
        was_lower = letter.is_lowercase();
    }
    end(&mut word);
    words
}

/// Removes the plural of an English word, so that `orders` finds `order`.
fn singular(mut word: String) -> String {
    if word.len() > 3 && word.ends_with('s') && !word.ends_with("ss") {
        word.pop();
    }
    word
}

/// Returns true for letters of scripts without spaces between words. Each letter counts as a word.
fn is_ideograph(letter: char) -> bool {
    matches!(letter, '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{323af}')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bags(texts: &[&str]) -> Vec<WordBag> {
        let bag = |text: &&str| {
            let mut bag = WordBag::default();
            bag.add(text, 1.0);
            bag
        };
        texts.iter().map(bag).collect()
    }

    #[test]
    fn names_are_split_into_words() {
        assert_eq!(words("createIssue"), ["create", "issue"]);
        assert_eq!(words("create_issues--now 2"), ["create", "issue", "now", "2"]);
        assert_eq!(words("退款 Größe"), ["退", "款", "größe"]);
        assert_eq!(words("gas glass"), ["gas", "glass"]);
        assert!(words(" _-\u{0}").is_empty());
    }

    #[test]
    fn rare_words_and_short_texts_come_first() {
        let texts = bags(&["send a mail", "send a letter", "send a mail to all people of a list", "close"]);
        assert_eq!(ranked(&texts, "mail"), [0, 2]);
        assert_eq!(ranked(&texts, "send the letter"), [1]);
        assert_eq!(ranked(&texts, "send the mail"), [0, 2, 1]);
        assert_eq!(ranked(&texts, "Mails, MAIL"), [0, 2]);
        assert!(ranked(&texts, "refund").is_empty());
        assert!(ranked(&texts, "").is_empty());
        assert!(ranked(&[], "mail").is_empty());
    }

    #[test]
    fn equal_texts_keep_their_order() {
        let texts = bags(&["b", "a", "a", "b", "a"]);
        assert_eq!(ranked(&texts, "a"), [1, 2, 4]);
        let empty = bags(&["", ""]);
        assert!(ranked(&empty, "a").is_empty());
    }
}
