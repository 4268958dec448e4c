//! Parses thoughts between tags, for servers that do not separate thoughts from the answer.
//!
//! Only tags at the very beginning count. Later tags are text, perhaps about tags.

const TAGS: [(&str, &str); 3] = [("<think>", "</think>"), ("<thinking>", "</thinking>"), ("<mm:think>", "</mm:think>")];

#[derive(Debug)]
pub(super) enum ThinkTags {
    /// The text so far, which may still become an opening tag.
    Beginning(String),
    /// After an opening tag: the closing tag, and text that may become a part of it.
    Inside(&'static str, String),
    /// After a closing tag, before the first character of the answer.
    Behind,
    Answer,
}

impl Default for ThinkTags {
    fn default() -> Self {
        Self::Beginning(String::new())
    }
}

impl ThinkTags {
    /// Reads more text. Returns the part that is a thought, and the part that is an answer.
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
                    let answer = rest.trim_start();
                    if answer.is_empty() {
                        *self = Self::Behind;
                    }
                    return (thought, answer.to_owned());
                }
                Self::Answer => return (thought, rest),
            }
        }
    }

    /// Returns the text that was held back, as thought and answer.
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
    use super::ThinkTags;

    /// Each text is split at every position.
    #[test]
    fn leading_tags_are_thoughts() {
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
        for (text, thought, answer) in cases {
            for cut in (0..=text.len()).filter(|cut| text.is_char_boundary(*cut)) {
                for next in (cut..=text.len()).filter(|cut| text.is_char_boundary(*cut)) {
                    let mut tags = ThinkTags::default();
                    let pieces = [&text[..cut], &text[cut..next], &text[next..]].map(|piece| tags.split(piece));
                    let all: Vec<_> = pieces.into_iter().chain([tags.end()]).collect();
                    let read_thought: String = all.iter().map(|(thought, _)| &**thought).collect();
                    let read_answer: String = all.iter().map(|(_, answer)| &**answer).collect();
                    assert_eq!((&*read_thought, &*read_answer), (thought, answer), "{text:?} cut at {cut} and {next}");
                }
            }
        }
    }
}
