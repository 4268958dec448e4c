//! What Sends carry. What one route sends stands in one row: thousands of Sends cost no allocation each.

use std::any::{Any, type_name};
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use smallvec::SmallVec;

use crate::checkpoint::{CodecError, codec};
use crate::error::NodeError;

/// Something that a Send can carry.
#[diagnostic::on_unimplemented(
    message = "a Send cannot carry a `{Self}`",
    label = "cannot be sent",
    note = "what is sent is kept with the run until it is taken: derive `Clone`, `Serialize` and `Deserialize` for it"
)]
pub trait Payload: Clone + Send + Sync + Serialize + DeserializeOwned + 'static {}

impl<T: Clone + Send + Sync + Serialize + DeserializeOwned + 'static> Payload for T {}

/// Payloads whose type only sender and receiver know.
trait ErasedRow: Any + Send + Sync {
    fn to_json(&self, place: usize) -> Result<Value, serde_json::Error>;
    fn encode(&self, place: usize) -> Result<Vec<u8>, CodecError>;
    fn type_name(&self) -> &'static str;
    fn as_any(&self) -> &dyn Any;
    fn as_any_mut(&mut self) -> &mut dyn Any;
}

/// Payloads of one type.
struct Row<T>(SmallVec<[T; 1]>);

impl<T: Payload> ErasedRow for Row<T> {
    fn to_json(&self, place: usize) -> Result<Value, serde_json::Error> {
        serde_json::to_value(self.0.get(place))
    }

    fn encode(&self, place: usize) -> Result<Vec<u8>, CodecError> {
        let payload = self.0.get(place).ok_or_else(|| CodecError::new("nothing was sent"))?;
        codec::encode(payload)
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

/// A payload that was stored: who takes it knows its type.
struct Stored(Vec<u8>);

impl ErasedRow for Stored {
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

/// What a task was sent: one of a row. Clones share it.
#[derive(Clone)]
pub(crate) struct SendArg {
    row: Arc<dyn ErasedRow>,
    place: usize,
}

impl SendArg {
    pub(crate) fn new(payload: impl Payload) -> Self {
        Self { row: Arc::new(Row(SmallVec::from_iter([payload]))), place: 0 }
    }

    /// What was stored of a payload.
    pub(crate) fn stored(bytes: Vec<u8>) -> Self {
        Self { row: Arc::new(Stored(bytes)), place: 0 }
    }

    /// Whether it is what was stored of a payload.
    pub(crate) fn is_stored(&self) -> bool {
        self.row.as_any().is::<Stored>()
    }

    /// The payload, if it is of this type and was not stored meanwhile.
    pub(crate) fn get<T: 'static>(&self) -> Option<&T> {
        self.row.as_any().downcast_ref::<Row<T>>()?.0.get(self.place)
    }

    /// A copy of the payload.
    pub(crate) fn take<T: Payload>(&self) -> Result<T, NodeError> {
        if let Some(payload) = self.get::<T>() {
            return Ok(payload.clone());
        }
        let (wanted, sent) = (type_name::<T>(), self.type_name());
        let Some(Stored(bytes)) = self.row.as_any().downcast_ref() else {
            return Err(NodeError::permanent(format!("takes a `{wanted}` and was sent a `{sent}`")));
        };
        codec::decode(bytes).map_err(|error| {
            NodeError::permanent(format!("takes a `{wanted}` and what was stored for it is none: {error}"))
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

/// What routes send, in order: to which node, and what.
#[derive(Default)]
pub(crate) struct Sends {
    /// Those that have no payload yet are the last, and stand in the row that grows.
    targets: Vec<(usize, Option<SendArg>)>,
    row: Option<Box<dyn ErasedRow>>,
    /// How many stand in rows that are closed.
    closed: usize,
}

impl Sends {
    pub(crate) fn push<T: Payload>(&mut self, node: usize, payload: T) {
        if let Some(row) = self.row.as_mut().and_then(|row| row.as_any_mut().downcast_mut::<Row<T>>()) {
            row.0.push(payload);
        } else {
            self.close();
            self.row = Some(Box::new(Row(SmallVec::from_iter([payload]))));
        }
        self.targets.push((node, None));
    }

    /// Closes the row that grows: what was sent shares it.
    fn close(&mut self) {
        if let Some(row) = self.row.take() {
            let row: Arc<dyn ErasedRow> = row.into();
            for (place, (_, arg)) in self.targets[self.closed..].iter_mut().enumerate() {
                *arg = Some(SendArg { row: row.clone(), place });
            }
        }
        self.closed = self.targets.len();
    }

    /// Takes everything out.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = (usize, SendArg)> {
        self.close();
        self.closed = 0;
        self.targets.drain(..).filter_map(|(node, arg)| Some((node, arg?)))
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.targets.is_empty()
    }

    pub(crate) fn nodes(&self) -> impl Iterator<Item = usize> {
        self.targets.iter().map(|(node, _)| *node)
    }
}
