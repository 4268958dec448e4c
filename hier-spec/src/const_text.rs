//! Error messages that are put together in constants, for the rules that the compiler evaluates.

/// Maximum length of a message in bytes. A longer message is cut.
const CAPACITY: usize = 640;

/// An error message that a constant can build, because all methods are `const`. A message longer than 640 bytes is cut.
#[derive(Debug)]
pub struct ConstText {
    bytes: [u8; CAPACITY],
    len: usize,
}

impl ConstText {
    /// Creates an empty message.
    #[allow(clippy::new_without_default)] // of use in constants only
    pub const fn new() -> Self {
        Self { bytes: [0; CAPACITY], len: 0 }
    }

    /// Appends a text.
    #[must_use]
    pub const fn text(mut self, text: &str) -> Self {
        let (bytes, mut at) = (text.as_bytes(), 0);
        while at < bytes.len() && self.len < CAPACITY {
            self.bytes[self.len] = bytes[at];
            self.len += 1;
            at += 1;
        }
        self
    }

    /// Appends a name in backticks.
    #[must_use]
    pub const fn quoted(self, name: &str) -> Self {
        self.text("`").text(name).text("`")
    }

    /// Returns the message.
    pub const fn as_str(&self) -> &str {
        let (bytes, _) = self.bytes.split_at(self.len);
        match std::str::from_utf8(bytes) {
            Ok(text) => text,
            Err(cut) => match std::str::from_utf8(bytes.split_at(cut.valid_up_to()).0) {
                Ok(text) => text,
                Err(_) => "",
            },
        }
    }

    /// Panics with the message. In a constant, the panic is a compile error at the place in the user's code that calls
    /// this function.
    ///
    /// # Panics
    ///
    /// Always.
    #[track_caller]
    pub const fn refuse(&self) -> ! {
        panic!("{}", self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_cut_at_a_character() {
        let text = ConstText::new().quoted("name").text(" and ").text(&"ä".repeat(CAPACITY));
        let long = text.as_str();
        assert!(long.starts_with("`name` and ä") && long.len() >= CAPACITY - 1, "{long}");
    }
}
