//! Sends and their payloads. The payloads of one route share a row, so that thousands of Sends do not need an
//! allocation each.

use std::any::{Any, type_name};
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use smallvec::SmallVec;

use crate::checkpoint::{CodecError, codec};
use crate::error::NodeError;

/// A type that a Send can carry.
#[diagnostic::on_unimplemented(
    message = "a Send cannot carry a `{Self}`",
    label = "cannot be sent",
    note = "a payload is stored with the run until a task takes it: derive `Clone`, `Serialize` and `Deserialize` for it"
)]
pub trait Payload: Clone + Send + Sync + Serialize + DeserializeOwned + 'static {}

#[diagnostic::do_not_recommend]
impl<T: Clone + Send + Sync + Serialize + DeserializeOwned + 'static> Payload for T {}

/// A row of payloads of one type, which is erased.
trait ErasedRow: Any + Send + Sync {
    fn to_json(&self, place: usize) -> Result<Value, serde_json::Error>;
    fn encode(&self, place: usize) -> Result<Vec<u8>, CodecError>;
    fn type_name(&self) -> &'static str;
    fn as_any(&self) -> &dyn Any;
    fn as_any_mut(&mut self) -> &mut dyn Any;
}

struct PayloadRow<T>(SmallVec<[T; 1]>);

impl<T: Payload> ErasedRow for PayloadRow<T> {
    fn to_json(&self, place: usize) -> Result<Value, serde_json::Error> {
        codec::to_json(&self.0.get(place)).map_err(serde::ser::Error::custom)
    }

    fn encode(&self, place: usize) -> Result<Vec<u8>, CodecError> {
        let payload = self.0.get(place).ok_or_else(|| CodecError::new("nothing was sent"))?;
        let bytes = codec::encode(payload)?;
        // Checks only the first payload in release builds, because all payloads of a row have the same type.
        if cfg!(debug_assertions) || place == 0 {
            codec::check_readable::<T>(&bytes)?;
        }
        Ok(bytes)
    }

    fn type_name(&self) -> &'static str {
        type_name::<T>()
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}

/// A stored payload. Only its receiver knows the type.
struct StoredRow(Vec<u8>);

impl ErasedRow for StoredRow {
    fn to_json(&self, _: usize) -> Result<Value, serde_json::Error> {
        codec::decode_json(&self.0).map_err(serde::ser::Error::custom)
    }

    fn encode(&self, _: usize) -> Result<Vec<u8>, CodecError> {
        Ok(self.0.clone())
    }

    fn type_name(&self) -> &'static str {
        "stored value"
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}

/// The payload of a Send. The payloads of one route are stored together in a row, and this value refers to one of them.
#[derive(Clone)]
pub struct SendArg {
    row: Arc<dyn ErasedRow>,
    place: usize,
}

impl SendArg {
    pub(crate) fn new(payload: impl Payload) -> Self {
        Self { row: Arc::new(PayloadRow(SmallVec::from_iter([payload]))), place: 0 }
    }

    pub(crate) fn stored(bytes: Vec<u8>) -> Self {
        Self { row: Arc::new(StoredRow(bytes)), place: 0 }
    }

    pub(crate) fn is_stored(&self) -> bool {
        self.row.as_any().is::<StoredRow>()
    }

    /// Returns the payload. Returns `None` if it has another type or was read from storage.
    pub(crate) fn get<T: 'static>(&self) -> Option<&T> {
        self.row.as_any().downcast_ref::<PayloadRow<T>>()?.0.get(self.place)
    }

    pub(crate) fn to_payload<T: Payload>(&self) -> Result<T, NodeError> {
        if let Some(payload) = self.get::<T>() {
            return Ok(payload.clone());
        }
        let (wanted, sent) = (type_name::<T>(), self.type_name());
        let Some(StoredRow(bytes)) = self.row.as_any().downcast_ref() else {
            return Err(NodeError::permanent(format!(
                "the node takes a `{wanted}`, but a Send passed it a `{sent}`: send a `{wanted}`"
            )));
        };
        codec::decode(bytes).map_err(|error| {
            NodeError::permanent(format!(
                "the node takes a `{wanted}`, but the stored payload does not fit this type: {error}"
            ))
        })
    }

    pub(crate) fn to_json(&self) -> Result<Value, serde_json::Error> {
        self.row.to_json(self.place)
    }

    pub(crate) fn encode(&self) -> Result<Vec<u8>, CodecError> {
        self.row.encode(self.place)
    }

    pub(crate) fn type_name(&self) -> &'static str {
        self.row.type_name()
    }
}

#[derive(Default)]
pub(crate) struct Outbox {
    sends: Sends,
    /// The row to which payloads are being added, and the number of its first Send.
    open: Option<(usize, Box<dyn ErasedRow>)>,
}

impl Outbox {
    pub(crate) fn push<T: Payload>(&mut self, node: usize, payload: T) {
        let row = self.open.as_mut().and_then(|(_, row)| row.as_any_mut().downcast_mut::<PayloadRow<T>>());
        if let Some(row) = row {
            row.0.push(payload);
        } else {
            self.close();
            self.open = Some((self.sends.len(), Box::new(PayloadRow(SmallVec::from_iter([payload])))));
        }
        self.sends.nodes.push(node);
    }

    /// Closes the row to which payloads are being added, so that its Sends can share it.
    fn close(&mut self) {
        if let Some((first, row)) = self.open.take() {
            self.sends.rows.push((first, SendArg { row: row.into(), place: 0 }));
        }
    }

    pub(crate) fn take_sends(&mut self) -> Sends {
        self.close();
        std::mem::take(&mut self.sends)
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.sends.is_empty()
    }

    pub(crate) fn nodes(&self) -> impl Iterator<Item = usize> {
        self.sends.nodes()
    }
}

#[derive(Clone, Default)]
pub(crate) struct Sends {
    nodes: Vec<usize>,
    /// The rows of payloads, each with the number of its first Send. The payloads of the next Sends follow in the same
    /// row.
    rows: Vec<(usize, SendArg)>,
}

impl Sends {
    pub(crate) fn push(&mut self, node: usize, arg: SendArg) {
        let number = self.nodes.len();
        let follows = self.rows.last().is_some_and(|(first, last)| {
            Arc::ptr_eq(&last.row, &arg.row) && last.place + (number - first) == arg.place
        });
        if !follows {
            self.rows.push((number, arg));
        }
        self.nodes.push(node);
    }

    pub(crate) fn append(&mut self, mut others: Self) {
        let offset = self.nodes.len();
        if offset == 0 {
            *self = others;
            return;
        }
        self.nodes.append(&mut others.nodes);
        self.rows.extend(others.rows.into_iter().map(|(first, arg)| (offset + first, arg)));
    }

    /// Maps the numbers of the nodes to ranks.
    #[must_use]
    pub(crate) fn renumbered(mut self, rank: impl Fn(usize) -> usize) -> Self {
        self.nodes.iter_mut().for_each(|node| *node = rank(*node));
        self
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (usize, SendArg)> {
        let arg = |(number, node): (usize, &usize)| Some((*node, self.arg(number)?));
        self.nodes.iter().enumerate().filter_map(arg)
    }

    pub(crate) fn arg(&self, number: usize) -> Option<SendArg> {
        let mut arg = None;
        self.set_arg(number, &mut arg);
        arg
    }

    /// Like [`Self::arg`], but replaces the payload of another Send in `arg`. Usually both payloads are in one row.
    pub(crate) fn set_arg(&self, number: usize, arg: &mut Option<SendArg>) {
        let row = match &*self.rows {
            [row] => Some(row),
            rows => rows[..rows.partition_point(|(first, _)| *first <= number)].last(),
        };
        let Some((first, row)) = row.filter(|_| number < self.nodes.len()) else {
            *arg = None;
            return;
        };
        let place = row.place + (number - first);
        match arg {
            Some(arg) if Arc::ptr_eq(&arg.row, &row.row) => arg.place = place,
            _ => *arg = Some(SendArg { row: row.row.clone(), place }),
        }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }

    pub(crate) fn clear(&mut self) {
        self.nodes.clear();
        self.rows.clear();
    }

    pub(crate) fn node(&self, number: usize) -> Option<usize> {
        self.nodes.get(number).copied()
    }

    pub(crate) fn nodes(&self) -> impl Iterator<Item = usize> {
        self.nodes.iter().copied()
    }
}
