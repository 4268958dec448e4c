//! The chunks of a reply on their way to the client.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use hier_checkpoint::message::ChatChunk;

/// A filter for the streamed chunks of a reply. A layer adds it with
/// [`ModelCall::filter_chunks`](super::ModelCall::filter_chunks). The filter can change chunks, hold them back, and add
/// new chunks. Together, the chunks that the filter passes on must form the reply that the layer returns.
///
/// ```
/// use hier_agents::ChatChunk;
/// use hier_agents::layer::ChunkFilter;
///
/// struct Loud;
///
/// impl ChunkFilter for Loud {
///     fn push(&mut self, chunk: ChatChunk, out: &mut dyn FnMut(ChatChunk)) {
///         out(match chunk {
///             ChatChunk::Text(text) => ChatChunk::Text(text.to_uppercase()),
///             other => other,
///         });
///     }
/// }
/// ```
pub trait ChunkFilter: Send + 'static {
    /// Receives a chunk. To pass a chunk on, call `out`. The filter does not receive [`ChatChunk::Done`].
    fn push(&mut self, chunk: ChatChunk, out: &mut dyn FnMut(ChatChunk));

    /// Passes on the chunks that the filter still holds back. The engine calls this method after the last chunk. By
    /// default, the method does nothing.
    fn finish(&mut self, out: &mut dyn FnMut(ChatChunk)) {
        let _ = out;
    }
}

pub(super) type MakeFilter = Arc<dyn Fn() -> Box<dyn ChunkFilter> + Send + Sync>;

/// The chunk filters of one answer, the innermost layer's first.
pub(crate) struct ChunkPipeline(Vec<Box<dyn ChunkFilter>>);

impl ChunkPipeline {
    pub(super) fn new(makes: &[MakeFilter]) -> Self {
        Self(makes.iter().rev().map(|make| make()).collect())
    }

    pub(crate) fn push(&mut self, chunk: ChatChunk, out: &mut dyn FnMut(ChatChunk)) {
        push_through(&mut self.0, chunk, out);
    }

    pub(crate) fn finish(&mut self, out: &mut dyn FnMut(ChatChunk)) {
        let mut rest = &mut *self.0;
        while let Some((first, others)) = rest.split_first_mut() {
            first.finish(&mut |chunk| push_through(others, chunk, out));
            rest = others;
        }
    }
}

fn push_through(filters: &mut [Box<dyn ChunkFilter>], chunk: ChatChunk, out: &mut dyn FnMut(ChatChunk)) {
    match filters.split_first_mut() {
        Some((first, others)) => first.push(chunk, &mut |chunk| push_through(others, chunk, out)),
        None => out(chunk),
    }
}

/// Records whether chunks of an answer were streamed.
#[derive(Debug, Default)]
pub(crate) struct StreamState(AtomicBool);

impl StreamState {
    pub(crate) fn start(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    pub(crate) fn has_started(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
