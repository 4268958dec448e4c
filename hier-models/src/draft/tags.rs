//! Reads thoughts between tags at the beginning of a text, for servers that do not separate thoughts from the answer.
//!
//! Only tags at the very beginning count: later ones are text, perhaps about tags.

/// The tags between which models think.
const TAGS: [(&str, &str); 3] = [("<think>", "</think>"), ("<thinking>", "</thinking>"), ("<mm:think>", "</mm:think>")];

/// Splits the text of an answer, which comes in pieces.
#[derive(Debug)]
pub(super) enum Tags {
    /// The beginning, as far as it may still become a tag.
    Beginning(String),
    /// Behind the opening tag: the closing one, and what may become a part of it.
    Inside(&'static str, String),
    /// Behind the closing tag: the answer has not begun yet.
    Behind,
    Answer,
}

impl Default for Tags {
    fn default() -> Self {
        Self::Beginning(String::new())
    }
}

impl Tags {
    /// Reads more text. Returns its thought and its answer part.
    pub(super) fn split(&mut self, text: &str) -> (String, String) {
        let (mut thought, mut rest) = (String::new(), text.to_owned());
        loop {
            match std::mem::replace(self, Self::Answer) {
                Self::Beginning(held) => {
                    let held = held + &rest;
                    let begun = held.trim_start();
                    if let Some((open, close)) = TAGS.iter().find(|(open, _)| begun.starts_with(open)) {
                        begun[open.len()..].clone_into(&mut rest);
                        *self = Self::Inside(close, String::new());
                    } else if TAGS.iter().any(|(open, _)| open.starts_with(begun)) {
                        *self = Self::Beginning(held);
                        return (thought, String::new());
                    } else {
                        return (thought, held);
                    }
                }
                Self::Inside(close, held) => {
                    let held = held + &rest;
                    if let Some((inside, behind)) = held.split_once(close) {
                        thought.push_str(inside);
                        behind.clone_into(&mut rest);
                        *self = Self::Behind;
                    } else {
                        let end = (0..close.len()).rev().find(|length| held.ends_with(&close[..*length]));
                        let (inside, tail) = held.split_at(held.len() - end.unwrap_or(0));
                        thought.push_str(inside);
                        *self = Self::Inside(close, tail.to_owned());
                        return (thought, String::new());
                    }
                }
                Self::Behind => {
                    let said = rest.trim_start();
                    if said.is_empty() {
                        *self = Self::Behind;
                    }
                    return (thought, said.to_owned());
                }
                Self::Answer => return (thought, rest),
            }
        }
    }

    /// Returns the remaining text that can no longer become a tag, as thought and answer.
    pub(super) fn end(&mut self) -> (String, String) {
        match std::mem::replace(self, Self::Answer) {
            Self::Beginning(held) => (String::new(), held),
            Self::Inside(_, held) => (held, String::new()),
            Self::Behind | Self::Answer => Default::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Tags;

    /// Each text, with what of it is thought and what is said, cut at every place.
    #[test]
    fn tags_at_the_beginning_are_thought() {
        let cases = [
            ("<think>hm</think>The answer", "hm", "The answer"),
            ("\n <think>\nhm\n</think>\n\n{\"a\": 1}", "\nhm\n", "{\"a\": 1}"),
            ("<thinking>h</think>m</thinking>yes", "h</think>m", "yes"),
            ("<mm:think>hm</mm:think>yes", "hm", "yes"),
            ("<think></think>yes", "", "yes"),
            ("<think>cut o", "cut o", ""),
            ("<think>cut </thi", "cut </thi", ""),
            ("<think>a</think>b<think>c</think>d", "a", "b<think>c</think>d"),
            ("Write <think>a</think>.", "", "Write <think>a</think>."),
            ("  <thin", "", "  <thin"),
            ("  grüß", "", "  grüß"),
            ("<b>no</b>", "", "<b>no</b>"),
            ("", "", ""),
        ];
        for (text, thought, said) in cases {
            for cut in (0..=text.len()).filter(|cut| text.is_char_boundary(*cut)) {
                for next in (cut..=text.len()).filter(|cut| text.is_char_boundary(*cut)) {
                    let mut tags = Tags::default();
                    let pieces = [&text[..cut], &text[cut..next], &text[next..]].map(|piece| tags.split(piece));
                    let all: Vec<_> = pieces.into_iter().chain([tags.end()]).collect();
                    let told: String = all.iter().map(|(thought, _)| &**thought).collect();
                    let told_said: String = all.iter().map(|(_, said)| &**said).collect();
                    assert_eq!((&*told, &*told_said), (thought, said), "{text:?} cut at {cut} and {next}");
                }
            }
        }
    }
}
