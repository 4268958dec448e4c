//! Documents that accompany the runs: assistants, crons, webhooks.

use std::time::SystemTime;

use hier_checkpoint::checkpoint::SaverError;
use hier_runs::Document;
use rusqlite::params;

use super::super::fault::Fault;
use super::tables::RunTables;
use hier_runs::rows::{DOCUMENTS, DUE, document_key, integer, micros, number, open, seal};

impl RunTables<'_> {
    pub(super) fn document(&self, kind: &str, id: &str) -> Result<Option<Document>, Fault> {
        let sql = "select id, revision, case when length(body) <= ?3 then body end from documents where kind = ?1 and id = ?2";
        let found = self.read_documents(kind, sql, params![kind, id, integer(self.longest as u64)])?.pop();
        Ok(found.transpose()?)
    }

    pub(super) fn documents(&self, kind: &str) -> Result<Vec<Document>, Fault> {
        let sql = "select id, revision, body from documents where kind = ? order by id";
        let found = self.read_documents(kind, sql, params![kind])?;
        Ok(found.into_iter().filter_map(|document| self.unreadable.ok_or_log(document)).collect())
    }

    /// Returns some of the due documents, ordered from the longest overdue. Skips pages without readable documents.
    pub(super) fn documents_due(&self, kind: &str, by: SystemTime) -> Result<Vec<Document>, Fault> {
        let sql =
            "select id, revision, body from documents where kind = ? and due <= ? order by due, id limit ? offset ?";
        let mut passed = 0;
        loop {
            let page =
                self.read_documents(kind, sql, params![kind, micros(by), integer(DUE as u64), integer(passed)])?;
            let is_last = page.len() < DUE;
            let found: Vec<_> = page.into_iter().filter_map(|document| self.unreadable.ok_or_log(document)).collect();
            if is_last || !found.is_empty() {
                return Ok(found);
            }
            passed += DUE as u64;
        }
    }

    fn read_documents(
        &self,
        kind: &str,
        sql: &str,
        params: impl rusqlite::Params,
    ) -> Result<Vec<Result<Document, SaverError>>, Fault> {
        let mut statement = self.connection.prepare_cached(sql)?;
        let rows = statement.query_map(params, |row| {
            Ok((row.get::<_, String>(0)?, row.get::<_, i64>(1)?, row.get::<_, Option<Vec<u8>>>(2)?))
        })?;
        rows.map(|row| {
            let (id, revision, body) = row?;
            let value = open(self.vault, DOCUMENTS, &document_key(kind, &id), body.ok_or(Fault::Long)?);
            Ok(value.map(|value| Document::new(kind, id, value).revision(number(revision))))
        })
        .collect()
    }

    pub(super) fn put_document(&self, document: &Document, replaces: Option<u64>) -> Result<bool, Fault> {
        let Document { kind, id, value, due, .. } = document;
        let due = due.map(micros);
        let body = seal(self.vault, DOCUMENTS, &document_key(kind, id), value)?;
        let changed = match replaces {
            None => {
                let sql = "insert into documents (kind, id, revision, body, due) values (?, ?, 1, ?, ?)
                    on conflict do nothing";
                self.connection.prepare_cached(sql)?.execute(params![kind, id, body, due])?
            }
            Some(revision) => {
                let sql = "update documents set revision = revision + 1, body = ?3, due = ?5
                    where kind = ?1 and id = ?2 and revision = ?4";
                self.connection.prepare_cached(sql)?.execute(params![kind, id, body, integer(revision), due])?
            }
        };
        Ok(changed > 0)
    }
}
