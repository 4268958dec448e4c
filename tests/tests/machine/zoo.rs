//! Values that some format cannot hold as they are.

#![allow(clippy::option_option)] // such types are tested

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use hier_agents::prelude::*;
use serde::de::Visitor;
use serde::{Deserializer, Serializer};
use serde_json::{Value, json};
use uuid::Uuid;

/// Bytes, which JSON and several binary formats write as different types.
#[derive(Clone, Debug, Default, PartialEq)]
struct Bytes(Vec<u8>);

impl Serialize for Bytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(&self.0)
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Read;

        impl<'de> Visitor<'de> for Read {
            type Value = Vec<u8>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("bytes")
            }

            fn visit_bytes<E>(self, bytes: &[u8]) -> Result<Vec<u8>, E> {
                Ok(bytes.to_vec())
            }

            fn visit_seq<A: serde::de::SeqAccess<'de>>(self, mut list: A) -> Result<Vec<u8>, A::Error> {
                let mut bytes = Vec::new();
                while let Some(byte) = list.next_element()? {
                    bytes.push(byte);
                }
                Ok(bytes)
            }
        }

        deserializer.deserialize_byte_buf(Read).map(Self)
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
enum Untagged {
    Ip(IpAddr),
    Number(u64),
    Struct { id: Uuid },
    Name(String),
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
enum Key {
    Unit,
    At { ip: IpAddr },
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Flat {
    name: String,
    #[serde(flatten)]
    inner: Inner,
    #[serde(flatten)]
    others: BTreeMap<String, IpAddr>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Inner {
    id: Uuid,
    ip: Option<IpAddr>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Zoo {
    id: Uuid,
    ip: Option<IpAddr>,
    by_pair: BTreeMap<(i32, i32), String>,
    by_key: BTreeMap<Key, u8>,
    low: i128,
    huge: u128,
    floats: Vec<f64>,
    nested: Vec<Option<Option<u8>>>,
    untagged: Vec<Untagged>,
    flat: Flat,
    value: Value,
    null: Option<Value>,
    bytes: Bytes,
    letter: char,
    result: Option<Result<u8, String>>,
}

impl Zoo {
    /// The zoo of a number: equal numbers have equal zoos.
    pub(crate) fn new(number: u64) -> Self {
        let mut random = fastrand::Rng::with_seed(number);
        let ip = |random: &mut fastrand::Rng| {
            if random.bool() {
                IpAddr::V4(Ipv4Addr::from_bits(random.u32(..)))
            } else {
                IpAddr::V6(Ipv6Addr::from_bits(random.u128(..)))
            }
        };
        let id = Uuid::from_u128(random.u128(..));
        let floats = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0, 5e-324, 0.1, f64::MAX];
        let nested = [None, Some(None), Some(Some(random.u8(..)))];
        let untagged = [
            Untagged::Ip(ip(&mut random)),
            Untagged::Number(u64::MAX - random.u64(..9)),
            Untagged::Struct { id },
            Untagged::Name("NaN".to_owned()),
        ];
        let values = [json!(u64::MAX), json!({ "b": [1, -1, 1.5, null], "a": {} }), json!("Infinity"), json!([[]])];
        Self {
            id,
            ip: random.bool().then(|| ip(&mut random)),
            by_pair: [((random.i32(..), -2), "b".to_owned()), ((1, random.i32(..)), "\"".to_owned())].into(),
            by_key: [(Key::Unit, 1), (Key::At { ip: ip(&mut random) }, 2)].into(),
            low: i128::MIN + i128::from(random.u8(..)),
            huge: u128::MAX - u128::from(random.u8(..)),
            floats: (0..3).map(|_| floats[random.usize(..floats.len())]).collect(),
            nested: (0..3).map(|_| nested[random.usize(..nested.len())]).collect(),
            untagged: (0..2).map(|_| untagged[random.usize(..untagged.len())].clone()).collect(),
            flat: Flat {
                name: "ann".to_owned(),
                inner: Inner { id, ip: random.bool().then(|| ip(&mut random)) },
                others: [("home".to_owned(), ip(&mut random))].into(),
            },
            value: values[random.usize(..values.len())].clone(),
            null: random.bool().then_some(Value::Null),
            bytes: Bytes((0..random.usize(..4)).map(|_| random.u8(..)).collect()),
            letter: random.char(..),
            result: random.bool().then(|| Err("no".to_owned())),
        }
    }

    /// Compares everything, also values that are equal for `==` (`-0.0`) or different (NaN).
    pub(crate) fn text(&self) -> String {
        format!("{self:?}")
    }

    /// As [`text`](Self::text), after a path that is JSON, which has one null.
    pub(crate) fn text_after_json(&self) -> String {
        let mut zoo = self.clone();
        zoo.null = None;
        zoo.nested.iter_mut().filter(|value| **value == Some(None)).for_each(|value| *value = None);
        zoo.text()
    }
}
