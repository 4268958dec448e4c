use uuid::Uuid;

use super::guard::guarded;
use super::{Checkpointer, Claim, Commit, Delivered, SaverError, SideEffects};

/// Removes a message from the inbox of a thread. Returns false if the inbox does not contain the message.
///
/// The function claims the thread. It releases the thread at the end, even if the removal fails or the saver panics. If
/// the future is dropped, the message may or may not be removed, and the thread may stay claimed until the lease
/// expires.
pub async fn discard(
    saver: &(impl Checkpointer + ?Sized),
    thread: &str,
    claim: Claim,
    id: Uuid,
) -> Result<bool, SaverError> {
    let inbox = saver.inbox()?;
    let has = |messages: &[Delivered]| messages.iter().any(|posted| posted.message.id == id);
    if !has(&inbox.messages(thread).await?) {
        return Ok(false);
    }
    let lease = saver.acquire(thread, Claim { keeps_time_to_live: true, ..claim }).await?;
    // A run may have taken the message before the claim. After the claim, no run can take it.
    let taking = async {
        if !has(&inbox.messages(thread).await?) {
            return Ok(false);
        }
        saver.commit(&lease, Commit::default().also(SideEffects::taking(vec![id]))).await.map(|_| true)
    };
    let taken: Result<bool, SaverError> = guarded(taking).await;
    let released = guarded(saver.release(&lease)).await;
    taken.and_then(|taken| released.map(|()| taken))
}
