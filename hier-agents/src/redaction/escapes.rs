//! Reads texts that JSON has escaped, once or several times.

use std::ops::Range;

/// A text without its escapes, and the position of each of its bytes in the original.
pub(super) struct Unescaped {
    pub(super) text: String,
    /// The position in the original of each byte of the text, and the length of the original.
    places: Vec<usize>,
}

impl Unescaped {
    pub(super) fn new(text: &str) -> Self {
        Self { text: text.to_owned(), places: (0..=text.len()).collect() }
    }

    /// Removes one more level of escapes, or returns `None` if the text has no escapes. Leaves out a truncated escape
    /// at the end, because it may be the next letter of a secret. Also returns the position of this truncated escape in
    /// the original.
    pub(super) fn deeper(&self) -> (Option<Self>, Option<usize>) {
        let Some(first) = self.text.find('\\') else { return (None, None) };
        let mut text = self.text[..first].to_owned();
        let mut places = self.places[..first].to_vec();
        let (mut at, mut cut, mut reads) = (first, None, false);
        while let Some(letter) = self.text[at..].chars().next() {
            let (read, length) = match escape(&self.text[at..]) {
                Escape::None => (letter, letter.len_utf8()),
                Escape::Cut => {
                    cut = Some(self.places[at]);
                    break;
                }
                Escape::Letter(read, length) => {
                    reads = true;
                    (read, length)
                }
            };
            text.push(read);
            places.resize(text.len(), self.places[at]);
            at += length;
        }
        places.push(self.place(self.text.len()));
        ((reads || cut.is_some()).then_some(Self { text, places }), cut)
    }

    /// Finds the remaining escapes. Returns their ranges in the original, and the position of a truncated escape at the
    /// end.
    pub(super) fn escapes(&self) -> (Vec<Range<usize>>, Option<usize>) {
        let (mut found, mut at): (Vec<Range<usize>>, usize) = (Vec::new(), 0);
        while let Some(next) = self.text[at..].find('\\') {
            let start = at + next;
            let length = match escape(&self.text[start..]) {
                Escape::None => {
                    at = start + 1;
                    continue;
                }
                Escape::Cut => return (found, Some(self.place(start))),
                Escape::Letter(_, length) => length,
            };
            at = start + length;
            let range = self.place(start)..self.place(at);
            match found.last_mut().filter(|last| last.end == range.start) {
                Some(last) => last.end = range.end,
                None => found.push(range),
            }
        }
        (found, None)
    }

    /// Maps a byte position in the text to its position in the original.
    pub(super) fn place(&self, byte: usize) -> usize {
        self.places.get(byte).or(self.places.last()).copied().unwrap_or_default()
    }
}

/// The escape sequence at the start of a text.
enum Escape {
    None,
    /// The truncated beginning of an escape.
    Cut,
    /// A letter, and its number of bytes.
    Letter(char, usize),
}

fn escape(text: &str) -> Escape {
    let mut bytes = text.bytes();
    if bytes.next() != Some(b'\\') {
        return Escape::None;
    }
    let letter = match bytes.next() {
        None => return Escape::Cut,
        Some(b'u') => return unicode(text),
        Some(b'b') => '\u{8}',
        Some(b'f') => '\u{c}',
        Some(b'n') => '\n',
        Some(b'r') => '\r',
        Some(b't') => '\t',
        Some(same @ (b'"' | b'\\' | b'/')) => char::from(same),
        Some(_) => return Escape::None,
    };
    Escape::Letter(letter, 2)
}

/// Reads the letter of an escape `\u….`, or of two such escapes that form a surrogate pair.
fn unicode(text: &str) -> Escape {
    let first = match unit(text) {
        Ok(unit) => unit,
        Err(escape) => return escape,
    };
    if !(0xd800..0xdc00).contains(&first) {
        return Escape::Letter(char::from_u32(first).unwrap_or(char::REPLACEMENT_CHARACTER), 6);
    }
    match unit(&text[6..]) {
        Ok(second @ 0xdc00..0xe000) => {
            let letter = 0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00);
            Escape::Letter(char::from_u32(letter).unwrap_or(char::REPLACEMENT_CHARACTER), 12)
        }
        Err(Escape::Cut) => Escape::Cut,
        _ => Escape::Letter(char::REPLACEMENT_CHARACTER, 6),
    }
}

/// Reads the number of an escape `\u….`.
fn unit(text: &str) -> Result<u32, Escape> {
    const FORM: &[u8] = b"\\u";
    let bytes = text.as_bytes();
    let begun = bytes.iter().zip(FORM).take_while(|(a, b)| a == b).count();
    if begun < FORM.len() {
        return Err(if begun == bytes.len() { Escape::Cut } else { Escape::None });
    }
    let digits = bytes[2..].iter().take(4).take_while(|byte| byte.is_ascii_hexdigit()).count();
    match digits {
        4 => u32::from_str_radix(&text[2..6], 16).map_err(|_| Escape::None),
        digits if 2 + digits == bytes.len() => Err(Escape::Cut),
        _ => Err(Escape::None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> String {
        let deeper = Unescaped::new(text).deeper().0.expect("it has escapes");
        assert_eq!(deeper.place(deeper.text.len()), text.len());
        deeper.text
    }

    #[test]
    fn escapes_are_read_as_json_does() {
        for text in ["plain", r"C:\dir \x"] {
            assert!(Unescaped::new(text).deeper().0.is_none(), "{text}");
        }
        assert_eq!(read(r#"a\"b\\c\/\n\u00fc!"#), "a\"b\\c/\nü!");
        assert_eq!(read(r"\ud83d\ude00\ud83d?"), "😀\u{fffd}?");
        let nested =
            Unescaped::new(r"x\\u00fc.").deeper().0.and_then(|once| once.deeper().0).expect("it has two levels");
        assert_eq!((&*nested.text, nested.place(1), nested.place(3)), ("xü.", 1, 8));
    }

    #[test]
    fn escape_may_be_cut_off_anywhere() {
        let whole = r"ab\ud83d\ude00";
        for end in 3..whole.len() {
            assert_eq!(Unescaped::new(&whole[..end]).deeper().1, Some(2), "{}", &whole[..end]);
        }
        assert_eq!(read(whole), "ab😀");
    }
}
