//! The pieces of an answer, on their way out.

use std::sync::Arc;

use hier_checkpoint::message::ChatChunk;

/// What the pieces of an answer go through on their way to who listens. It may change pieces, hold them back, and add some; what
/// it sends must add up to what the layer makes of the whole answer.
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
    /// Takes a piece, and sends what is to go out. It never sees [`ChatChunk::Done`].
    fn piece(&mut self, piece: ChatChunk, out: &mut dyn FnMut(ChatChunk));

    /// The answer has no more pieces: sends what was held back.
    fn end(&mut self, out: &mut dyn FnMut(ChatChunk)) {
        let _ = out;
    }
}

/// Makes what the pieces of one answer go through.
pub(super) type MakePieces = Arc<dyn Fn() -> Box<dyn Pieces> + Send + Sync>;

/// What the pieces of one answer go through, the innermost layer's first.
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
