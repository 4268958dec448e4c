//! Converts items of a store to rows and back.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::checkpoint::{SaverError, codec};
use crate::store::Item;
use crate::store::plan::Put;
use serde_json::{Map, Value};

use crate::backend::storage_key::StorageKey;
use crate::backend::value_codec::ValueCodec;

/// An item that a read has found.
#[derive(Debug)]
pub struct Row {
    /// The primary key of the item's row.
    pub place: i64,
    /// True if the item has a time to live.
    pub expires: bool,
    pub item: Item,
}

/// The columns of an item's row as a read returns them. The value and the vectors are still in their stored form.
#[derive(Debug)]
pub struct Columns {
    pub place: i64,
    /// The labels of the namespace, joined with periods.
    pub space: String,
    pub key: String,
    pub value: Vec<u8>,
    pub vectors: Option<Vec<u8>>,
    /// The time of creation, in microseconds since 1970.
    pub created_at: i64,
    pub updated_at: i64,
    pub expires: bool,
}

/// The decoded value of an item, and the vectors of its texts for searches by similarity.
pub type Opened = (Map<String, Value>, Vec<Vec<f32>>);

/// The stored form of an item's value, and the stored form of its vectors. The latter is `None` for an item without
/// vectors.
pub type Sealed = (Vec<u8>, Option<Vec<u8>>);

/// Joins the labels of a namespace with periods. Labels cannot contain periods, so [`split`] restores the labels.
pub fn join(namespace: &[String]) -> String {
    namespace.join(".")
}

pub fn split(space: &str) -> Vec<String> {
    space.split('.').map(str::to_owned).collect()
}

pub fn micros(time: Duration) -> i64 {
    i64::try_from(time.as_micros()).unwrap_or(i64::MAX)
}

/// Converts a time to live to microseconds. Returns `None` if `time` is `None`, or is 100 years or more. The item then
/// does not expire.
pub fn lives(time: Option<Duration>) -> Option<i64> {
    const MOST: Duration = Duration::from_hours(876_000);
    time.filter(|time| *time < MOST).map(micros)
}

fn time(micros: i64) -> SystemTime {
    UNIX_EPOCH + Duration::from_micros(u64::try_from(micros).unwrap_or_default())
}

pub fn seal(vault: &ValueCodec, space: &str, key: &str, put: &Put) -> Result<Sealed, SaverError> {
    let place = |vectors| StorageKey::Item { namespace: space, key, vectors };
    let value = codec::encode(&put.value)
        .map_err(|error| SaverError::Invalid(format!("the value of item `{key}` cannot be encoded: {error}")))?;
    let vectors = (!put.vectors.is_empty()).then(|| vault.seal(place(true), pack(&put.vectors))).transpose()?;
    Ok((vault.seal(place(false), value)?, vectors))
}

fn pack(vectors: &[Vec<f32>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for vector in vectors {
        bytes.extend(u32::try_from(vector.len()).unwrap_or(u32::MAX).to_le_bytes());
        bytes.extend(vector.iter().flat_map(|number| number.to_le_bytes()));
    }
    bytes
}

fn unpack(mut bytes: &[u8]) -> Option<Vec<Vec<f32>>> {
    let mut vectors = Vec::new();
    while !bytes.is_empty() {
        let (length, rest) = bytes.split_first_chunk::<4>()?;
        let (vector, rest) = rest.split_at_checked((u32::from_le_bytes(*length) as usize).checked_mul(4)?)?;
        let (numbers, _) = vector.as_chunks::<4>();
        vectors.push(numbers.iter().map(|number| f32::from_le_bytes(*number)).collect());
        bytes = rest;
    }
    Some(vectors)
}

impl Columns {
    pub fn open(&mut self, vault: &ValueCodec) -> Result<Opened, SaverError> {
        let place = |vectors| StorageKey::Item { namespace: &self.space, key: &self.key, vectors };
        let value = vault.open(place(false), std::mem::take(&mut self.value))?;
        let value = codec::decode(&value).map_err(|error| place(false).damaged(format!("cannot be read: {error}")))?;
        let Some(sealed) = self.vectors.take() else { return Ok((value, Vec::new())) };
        let vectors = unpack(&vault.open(place(true), sealed)?);
        Ok((value, vectors.ok_or_else(|| place(true).damaged("is damaged: its vectors are incomplete"))?))
    }

    /// Builds the item from these columns and its decoded `value`.
    pub fn row(self, value: Map<String, Value>) -> Row {
        let item = Item {
            namespace: split(&self.space),
            key: self.key,
            value,
            created_at: time(self.created_at),
            updated_at: time(self.updated_at),
            score: None,
        };
        Row { place: self.place, expires: self.expires, item }
    }
}

/// Converts the rows of a read to items with their scores. If `refresh` is true, adds the primary key of each row with
/// a time to live to `touched`. The caller must then restart the time to live of these rows.
pub fn picked(rows: Vec<(Row, Option<f64>)>, refresh: bool, touched: &mut Vec<i64>) -> Vec<Item> {
    let items = rows.into_iter().map(|(row, score)| {
        if refresh && row.expires {
            touched.push(row.place);
        }
        Item { score, ..row.item }
    });
    items.collect()
}
