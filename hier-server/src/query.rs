//! Reads the query of a URL into a type whose fields are the parameters.

use std::collections::BTreeMap;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use serde::de::value::{MapDeserializer, SeqDeserializer, StringDeserializer};
use serde::de::{DeserializeOwned, Error as _, IntoDeserializer, Visitor};
use serde::{Deserializer, forward_to_deserialize_any};

use crate::error::{ApiError, ApiResult};

/// The query of a URL. For a list, a client repeats the parameter (`name` or `name[]`), or sends comma-separated text
/// or JSON. If a parameter that is not a list is repeated, its last value counts. Unknown parameters are ignored.
#[derive(Debug)]
pub(crate) struct Query<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Query<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> ApiResult<Self> {
        let query = axum::extract::Query::<Vec<(String, String)>>::from_request_parts(parts, state).await;
        read(query.map_err(|error| ApiError::invalid(error.body_text()))?.0).map(Self)
    }
}

fn read<T: DeserializeOwned>(pairs: Vec<(String, String)>) -> ApiResult<T> {
    let mut named: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (name, value) in pairs {
        named.entry(name.strip_suffix("[]").unwrap_or(&name).to_owned()).or_default().push(value);
    }
    let fields = named.into_iter().map(|(name, values)| (name, ParameterValues(values)));
    serde_path_to_error::deserialize(MapDeserializer::new(fields)).map_err(|error| {
        let path = error.path().to_string();
        let error: ParameterError = error.into_inner();
        ApiError::invalid(if path == "." { error.to_string() } else { format!("`{path}`: {error}") })
    })
}

type ParameterError = serde::de::value::Error;

struct ParameterValues(Vec<String>);

impl ParameterValues {
    /// Returns the value of a parameter that is not a list.
    fn last(mut self) -> String {
        self.0.pop().unwrap_or_default()
    }

    fn number(self) -> Result<u64, ParameterError> {
        let text = self.last();
        text.parse().map_err(|_| ParameterError::custom(format!("`{text}` is not a whole number of 0 or more")))
    }
}

impl IntoDeserializer<'_, ParameterError> for ParameterValues {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

impl<'de> Deserializer<'de> for ParameterValues {
    type Error = ParameterError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ParameterError> {
        visitor.visit_string(self.last())
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ParameterError> {
        let text = self.last();
        match text.to_ascii_lowercase().as_str() {
            "" | "0" | "false" | "no" => visitor.visit_bool(false),
            "1" | "true" | "yes" => visitor.visit_bool(true),
            _ => Err(ParameterError::custom(format!("`{text}` is not a boolean: use `true` or `false`"))),
        }
    }

    fn deserialize_u64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ParameterError> {
        visitor.visit_u64(self.number()?)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ParameterError> {
        let items = self.0.iter().flat_map(|text| match serde_json::from_str::<Vec<String>>(text) {
            Ok(items) => items,
            Err(_) => text.split(',').filter(|text| !text.is_empty()).map(str::to_owned).collect(),
        });
        SeqDeserializer::new(items.map(|text| Self(vec![text]))).deserialize_any(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ParameterError> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, ParameterError> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ParameterError> {
        let text: StringDeserializer<ParameterError> = self.last().into_deserializer();
        text.deserialize_enum(name, variants, visitor)
    }

    forward_to_deserialize_any! {
        i8 i16 i32 i64 i128 u8 u16 u32 u128 f32 f64 char str string bytes byte_buf unit unit_struct tuple tuple_struct map struct
        identifier ignored_any
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Default, PartialEq, Deserialize)]
    #[serde(default)]
    struct SampleQuery {
        limit: Option<usize>,
        wait: bool,
        select: Vec<String>,
        word: Option<SampleWord>,
    }

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(rename_all = "snake_case")]
    enum SampleWord {
        One,
    }

    fn parsed(pairs: &[(&str, &str)]) -> Result<SampleQuery, String> {
        let pairs = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        read(pairs).map_err(|error| error.detail)
    }

    #[test]
    fn query_is_read_in_all_forms_of_clients() {
        let lists = [
            ("select", "a,b"),
            ("select[]", "c"),
            ("select", r#"["d","e"]"#),
            ("limit", "1"),
            ("limit", "2"),
            ("other", "x"),
        ];
        let select = ["a", "b", "c", "d", "e"].map(str::to_owned).to_vec();
        assert_eq!(parsed(&lists), Ok(SampleQuery { limit: Some(2), select, ..SampleQuery::default() }));
        let words = [("wait", "True"), ("word", "one")];
        assert_eq!(
            parsed(&words),
            Ok(SampleQuery { wait: true, word: Some(SampleWord::One), ..SampleQuery::default() })
        );
        assert_eq!(parsed(&[("wait", "")]), Ok(SampleQuery::default()));
    }

    #[test]
    fn errors_name_the_parameter() {
        for (name, value, text) in [
            ("limit", "-1", "`limit`: `-1` is not a whole number of 0 or more"),
            ("wait", "maybe", "`wait`: `maybe` is not a boolean: use `true` or `false`"),
            ("word", "two", "`word`: unknown variant `two`, expected `one`"),
        ] {
            assert_eq!(parsed(&[(name, value)]), Err(text.to_owned()));
        }
    }
}
