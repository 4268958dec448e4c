//! The chunks of an answer on their way to the client.

use std::sync::Arc;

use hier_checkpoint::message::ChatChunk;

/// Filters the chunks of an answer on their way to the client. It may change chunks, hold them back and add new ones.
/// The chunks that it sends must add up to the answer that the layer returns.
///
/// ```
/// use hier_agents::ChatChunk;
/// use hier_agents::layer::Pieces;
///
/// struct Loud;
///
/// impl Pieces for Loud {
///     fn piece(&mut self, piece: ChatChunk, out: &mut dyn FnMut(ChatChunk)) {
///         out(match piece {
///             ChatChunk::Text(text) => ChatChunk::Text(text.to_uppercase()),
///             other => other,
///         });
///     }
/// }
/// ```
pub trait Pieces: Send + 'static {
    /// Receives a chunk and sends the chunks to pass on. Never receives [`ChatChunk::Done`].
    fn piece(&mut self, piece: ChatChunk, out: &mut dyn FnMut(ChatChunk));

    /// Sends the chunks that were held back, after the last chunk.
    fn end(&mut self, out: &mut dyn FnMut(ChatChunk)) {
        let _ = out;
    }
}

pub(super) type MakePieces = Arc<dyn Fn() -> Box<dyn Pieces> + Send + Sync>;

/// The chunk filters of one answer, the innermost layer's first.
pub(crate) struct Line(Vec<Box<dyn Pieces>>);

impl Line {
    pub(super) fn new(makes: &[MakePieces]) -> Self {
        Self(makes.iter().rev().map(|make| make()).collect())
    }

    pub(crate) fn piece(&mut self, piece: ChatChunk, out: &mut dyn FnMut(ChatChunk)) {
        pass(&mut self.0, piece, out);
    }

    pub(crate) fn end(&mut self, out: &mut dyn FnMut(ChatChunk)) {
        let mut rest = &mut *self.0;
        while let Some((first, others)) = rest.split_first_mut() {
            first.end(&mut |piece| pass(others, piece, out));
            rest = others;
        }
    }
}

fn pass(line: &mut [Box<dyn Pieces>], piece: ChatChunk, out: &mut dyn FnMut(ChatChunk)) {
    match line.split_first_mut() {
        Some((first, others)) => first.piece(piece, &mut |piece| pass(others, piece, out)),
        None => out(piece),
    }
}
