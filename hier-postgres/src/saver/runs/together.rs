//! Changes of the runs of several threads as one statement. None is held up by one that has to wait for somebody: that one is told to go
//! alone.

use super::super::Postgres;
use super::super::fault::Fault;
use super::super::records::BaseCheck;
use super::super::sharing::{Shares, Sharing};
use super::change::Answer;
use super::item::Item;

impl Shares for Item {
    type Answer = Answer;

    const MOST: usize = 64;
    const MOST_SIZE: usize = 256 << 10;

    fn size(&self) -> usize {
        self.bytes()
    }

    fn name(&self) -> Option<&str> {
        Some(&self.name)
    }

    fn sharing(postgres: &Postgres) -> &Sharing<Self> {
        &postgres.0.changing
    }

    async fn send(postgres: &Postgres, items: &[&Self]) -> Result<Vec<Answer>, Fault> {
        postgres.tables(&postgres.0.session.client().await?).put_all(items, BaseCheck::Parents, false).await
    }
}
