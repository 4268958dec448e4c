//! The text form of composite values and of their arrays.
//!
//! Statements cast these texts to the types of `schema/rows.rs`. With binary parameters, the driver would first look up
//! the types with prepared statements, which a transaction pooler may confuse. Byte strings are not converted to text:
//! rows contain their places in [`Bodies`], which is a binary parameter.

use std::fmt::{Display, Write as _};

/// A composite value. The caller appends the fields in the order of the type.
#[derive(Debug, Default)]
pub(super) struct RecordLiteral(String);

impl RecordLiteral {
    fn next_field(&mut self) -> &mut String {
        self.0.push(if self.0.is_empty() { '(' } else { ',' });
        &mut self.0
    }

    /// Appends a number, a boolean or an id.
    pub(super) fn plain(self, value: impl Display) -> Self {
        self.optional(Some(value))
    }

    /// Appends a number, a boolean, an id, or null for `None`.
    pub(super) fn optional(mut self, value: Option<impl Display>) -> Self {
        let field = self.next_field();
        if let Some(value) = value {
            // Writing to a string does not fail.
            let _ = write!(field, "{value}");
        }
        self
    }

    /// Appends a text, or null for `None`.
    pub(super) fn text(mut self, value: Option<&str>) -> Self {
        let field = self.next_field();
        if let Some(value) = value {
            if !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-.:".contains(&byte)) {
                field.push_str(value);
            } else {
                push_quoted(field, value);
            }
        }
        self
    }

    pub(super) fn array(mut self, rows: ArrayLiteral) -> Self {
        push_quoted(self.next_field(), &rows.finish());
        self
    }

    pub(super) fn finish(mut self) -> String {
        self.0.push(')');
        self.0
    }
}

#[derive(Debug, Default)]
pub(super) struct ArrayLiteral(String);

impl ArrayLiteral {
    pub(super) fn push(&mut self, row: RecordLiteral) {
        self.0.push(if self.0.is_empty() { '{' } else { ',' });
        push_quoted(&mut self.0, &row.finish());
    }

    pub(super) fn finish(mut self) -> String {
        self.0.push_str(if self.0.is_empty() { "{}" } else { "}" });
        self.0
    }
}

fn push_quoted(out: &mut String, text: &str) {
    out.push('"');
    for part in text.split_inclusive(['"', '\\']) {
        match part.strip_suffix(['"', '\\']) {
            Some(start) => {
                out.push_str(start);
                out.push('\\');
                out.push_str(&part[start.len()..]);
            }
            None => out.push_str(part),
        }
    }
    out.push('"');
}

/// The byte strings of a statement. Rows refer to them by their places, which start at 1.
#[derive(Debug, Default)]
pub(super) struct Bodies<'a>(pub(super) Vec<&'a [u8]>);

impl<'a> Bodies<'a> {
    /// Adds a byte string and returns its place.
    pub(super) fn add(&mut self, body: &'a [u8]) -> usize {
        self.0.push(body);
        self.0.len()
    }
}

#[cfg(test)]
mod tests {
    use super::{ArrayLiteral, RecordLiteral};

    #[test]
    fn nested_values_are_quoted_once_per_level() {
        let mut rows = ArrayLiteral::default();
        rows.push(RecordLiteral::default().plain(1).text(None).text(Some("")).text(Some("a-b_c")));
        rows.push(RecordLiteral::default().optional(None::<i64>).text(Some(r#"a "b", c\d"#)));
        let nested = RecordLiteral::default().array(rows).array(ArrayLiteral::default()).finish();
        let wanted = r#"("{\"(1,,\\\"\\\",a-b_c)\",\"(,\\\"a \\\\\\\"b\\\\\\\", c\\\\\\\\d\\\")\"}","{}")"#;
        assert_eq!(nested, wanted);
    }
}
