//! Reads documents that several runs request at the same time, such as their assistant, with one statement. A caller
//! gets the document as it was stored at the time of the request or later.

use std::collections::HashMap;
use std::sync::Arc;

use hier_checkpoint::checkpoint::SaverError;
use hier_runs::Document;
use tokio_postgres::types::Type;

use super::super::Postgres;
use super::super::batcher::{Batchable, Batcher};
use super::super::client::Parameter;
use super::super::fault::PostgresFault;
use super::super::session::retrying;
use super::super::text::escape;
use super::look;
use super::tables::RunTables;

type DocumentResult = Result<Option<Document>, SaverError>;

#[derive(PartialEq, Eq, Hash)]
pub(in super::super) struct DocumentRead {
    kind: String,
    id: String,
}

impl Batchable for DocumentRead {
    type Answer = DocumentResult;

    const MAX_ITEMS: usize = 64;
    const MAX_SIZE: usize = usize::MAX;

    fn size(&self) -> usize {
        0
    }

    fn batcher(postgres: &Postgres) -> &Arc<Batcher<Self>> {
        &postgres.0.document_reads
    }

    async fn send_batch(postgres: &Postgres, batch: Vec<Self>) -> Vec<DocumentResult> {
        postgres.answers_of(postgres.read_documents(&batch).await)
    }
}

impl Postgres {
    /// Returns a document. One statement reads it together with other documents that are requested at this time.
    pub(super) async fn shared_document(&self, kind: &str, id: &str) -> DocumentResult {
        let read = DocumentRead { kind: kind.to_owned(), id: id.to_owned() };
        if let Some(read) = self.send_shared(read).await {
            return read;
        }
        look!(self, tables => tables.document(kind, id).await)
    }

    async fn read_documents(&self, reads: &[DocumentRead]) -> Result<Vec<DocumentResult>, PostgresFault> {
        let client = self.0.session.client().await?;
        self.tables(&client).documents_at(reads).await
    }
}

impl RunTables<'_> {
    /// Reads each distinct document once and returns an answer for each request.
    async fn documents_at(&self, reads: &[DocumentRead]) -> Result<Vec<DocumentResult>, PostgresFault> {
        let mut places = HashMap::new();
        let mut distinct = Vec::new();
        for read in reads {
            places.entry(read).or_insert_with(|| {
                distinct.push(read);
                distinct.len() - 1
            });
        }
        let kinds: Vec<_> = distinct.iter().map(|read| escape(&read.kind)).collect();
        let ids: Vec<_> = distinct.iter().map(|read| escape(&read.id)).collect();
        let sql = "select d.id, d.revision, d.body, r.place
            from unnest($1::text[], $2::text[]) with ordinality r (kind, id, place)
            cross join lateral (select * from {s}.documents x where x.kind = r.kind and x.id = r.id limit 1) d where {own}";
        let with: [Parameter<'_>; 2] = [(&kinds, Type::TEXT_ARRAY), (&ids, Type::TEXT_ARRAY)];
        let mut found: Vec<DocumentResult> = distinct.iter().map(|_| Ok(None)).collect();
        for row in self.query_often(sql, &with).await? {
            let place: i64 = row.try_get(3)?;
            if let Some(place) = usize::try_from(place - 1).ok().filter(|place| *place < found.len()) {
                found[place] = self.read_document(&distinct[place].kind, &row)?.map(Some);
            }
        }
        Ok(reads.iter().filter_map(|read| found.get(*places.get(read)?).cloned()).collect())
    }
}
