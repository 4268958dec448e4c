//! Reading checkpoints, lists of them, and threads.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use hier_core::checkpoint::{Chain, Checkpoint, ListQuery, Listed, Saved, SaverError, ThreadInfo};
use tokio_postgres::Row;
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::client::Client;
use super::fault::Fault;
use super::session::{Session, Transaction};
use super::text::{escape, holder, unescape};
use crate::latest::Known;
use crate::rows::{PieceRow, WriteRow, by_task, is_known, open_body};
use crate::vault::Vault;

/// A namespace of a thread.
#[derive(Clone, Copy)]
pub(super) struct Space<'a> {
    pub(super) session: &'a Session,
    pub(super) client: &'a Client,
    pub(super) vault: &'a Vault,
    pub(super) thread: &'a str,
    pub(super) namespace: &'a str,
    /// Which checkpoint of it may be the latest.
    pub(super) latest: Option<&'a Known>,
}

/// The values that were read with a checkpoint, by their channels.
type Whole<'a> = HashMap<&'a str, (Uuid, Vec<u8>)>;

impl Space<'_> {
    /// A checkpoint with everything but the values that are known in its version.
    pub(super) async fn saved(self, id: Option<Uuid>, known: &[(Arc<str>, Uuid)]) -> Result<Option<Saved>, Fault> {
        let mut saved = self.try_saved(id, known).await?;
        let is_whole = |saved: &Saved| saved.values.iter().all(|(_, chain)| chain.full.is_some());
        if saved.as_ref().is_some_and(|saved| !is_whole(saved)) {
            // It may have been deleted between the statements.
            saved = self.try_saved(id, known).await?;
        }
        Ok(saved)
    }

    async fn try_saved(self, id: Option<Uuid>, known: &[(Arc<str>, Uuid)]) -> Result<Option<Saved>, Fault> {
        let (thread, namespace) = (escape(self.thread), escape(self.namespace));
        // What it may have is asked for with it: most often nobody else has stored anything since.
        let guesses: Vec<(&Arc<str>, Uuid)> = self.latest.iter().flat_map(|latest| latest.present()).collect();
        let guesses: Vec<_> = guesses.into_iter().filter(|(name, version)| !is_known(known, name, version)).collect();
        let channels: Vec<_> = guesses.iter().map(|(name, _)| escape(name)).collect();
        let versions: Vec<Uuid> = guesses.iter().map(|(_, version)| *version).collect();
        let with = [
            (&thread as _, Type::TEXT),
            (&namespace as _, Type::TEXT),
            (&id as _, Type::UUID),
            (&channels as _, Type::TEXT_ARRAY),
            (&versions as _, Type::UUID_ARRAY),
        ];
        let found = self.session.query_often(self.client, &self.session.statements.saved, &with).await?;
        let Some(row) = found.first() else { return Ok(None) };
        let (key, id): (i64, Uuid) = (row.try_get(0)?, row.try_get(1)?);
        let checkpoint = open_body(self.vault, self.thread, self.namespace, id, row.try_get(2)?)?;
        let writes = self.writes(row, id)?;
        let whole = whole(row, &guesses)?;
        let values = self.values(key, &checkpoint, known, whole).await?;
        Ok(Some(Saved::new(checkpoint, values, by_task(writes))))
    }

    async fn values(
        self,
        key: i64,
        checkpoint: &Checkpoint,
        known: &[(Arc<str>, Uuid)],
        mut whole: Whole<'_>,
    ) -> Result<Vec<(usize, Chain)>, Fault> {
        let all = checkpoint.channels.iter().zip(checkpoint.versions.iter()).enumerate();
        let present = all.filter(|(_, (name, version))| !version.is_nil() && !is_known(known, name, version));
        let (read, present): (Vec<_>, Vec<_>) =
            present.partition(|(_, (name, version))| whole.get(&***name).is_some_and(|(read, _)| read == *version));
        let mut values = Vec::with_capacity(read.len() + present.len());
        for (channel, (name, version)) in read {
            let Some((_, value)) = whole.remove(&**name) else { continue };
            let namespace = Arc::from(self.namespace);
            let piece = PieceRow { namespace, channel: name.clone(), version: *version, base: None, value };
            let full = Some(piece.open(self.vault, self.thread)?.value);
            values.push((channel, Chain { full, ..Chain::default() }));
        }
        if !present.is_empty() {
            values.extend(self.chains(key, &present).await?);
            values.sort_by_key(|(channel, _)| *channel);
        }
        Ok(values)
    }

    /// The values of these channels in these versions.
    async fn chains(self, key: i64, present: &[(usize, (&Arc<str>, &Uuid))]) -> Result<Vec<(usize, Chain)>, Fault> {
        let names: Vec<_> = present.iter().map(|(_, (name, _))| escape(name)).collect();
        let versions: Vec<Uuid> = present.iter().map(|(_, (_, version))| **version).collect();
        let namespace = escape(self.namespace);
        let with = [
            (&key as _, Type::INT8),
            (&namespace as _, Type::TEXT),
            (&names as _, Type::TEXT_ARRAY),
            (&versions as _, Type::UUID_ARRAY),
        ];
        let rows = self.session.query_often(self.client, &self.session.statements.values, &with).await?;
        let mut values: Vec<_> = present.iter().map(|(channel, _)| (*channel, Chain::default())).collect();
        for row in rows {
            let place = usize::try_from(row.try_get::<_, i64>(0)? - 1).unwrap_or(usize::MAX);
            let (Some((_, (name, _))), Some((_, chain))) = (present.get(place), values.get_mut(place)) else {
                continue;
            };
            let namespace = Arc::from(self.namespace);
            let (version, base, value) = (row.try_get(1)?, row.try_get(2)?, row.try_get(3)?);
            let piece = PieceRow { namespace, channel: (*name).clone(), version, base, value };
            let piece = piece.open(self.vault, self.thread)?;
            if base.is_some() {
                chain.deltas.push(piece.value);
            } else {
                chain.full = Some(piece.value);
            }
        }
        for (_, chain) in &mut values {
            chain.deltas.reverse();
        }
        Ok(values)
    }

    fn writes(self, row: &Row, checkpoint: Uuid) -> Result<Vec<WriteRow>, Fault> {
        let Some(tasks) = row.try_get::<_, Option<Vec<Uuid>>>(3)? else { return Ok(Vec::new()) };
        let (slots, paths): (Vec<i32>, Vec<&str>) = (row.try_get(4)?, row.try_get(5)?);
        let (channels, values): (Vec<&str>, Vec<Vec<u8>>) = (row.try_get(6)?, row.try_get(7)?);
        let namespace: Arc<str> = self.namespace.into();
        let rows = tasks.into_iter().zip(slots).zip(paths).zip(channels).zip(values);
        let rows = rows.map(|((((task, slot), path), channel), value)| {
            let (namespace, path, channel) = (namespace.clone(), unescape(path), unescape(channel));
            Ok(WriteRow { namespace, checkpoint, task, slot, path, channel, value }.open(self.vault, self.thread)?)
        });
        rows.collect()
    }
}

/// Of what was read with a checkpoint, the values that are whole.
fn whole<'a>(row: &Row, guesses: &[(&'a Arc<str>, Uuid)]) -> Result<Whole<'a>, Fault> {
    let Some(places) = row.try_get::<_, Option<Vec<i64>>>(8)? else { return Ok(Whole::new()) };
    let (bases, values): (Vec<Option<Uuid>>, Vec<Vec<u8>>) = (row.try_get(9)?, row.try_get(10)?);
    let read = places.into_iter().zip(bases).zip(values).filter(|((_, base), _)| base.is_none());
    let read = read.filter_map(|((place, _), value)| {
        let (name, version) = guesses.get(usize::try_from(place - 1).ok()?)?;
        Some((&***name, (*version, value)))
    });
    Ok(read.collect())
}

/// A write, from this column on.
pub(super) fn write(row: &Row, column: usize, namespace: Arc<str>) -> Result<WriteRow, Fault> {
    Ok(WriteRow {
        namespace,
        checkpoint: row.try_get(column)?,
        task: row.try_get(column + 1)?,
        slot: row.try_get(column + 2)?,
        path: unescape(row.try_get(column + 3)?),
        channel: unescape(row.try_get(column + 4)?),
        value: row.try_get(column + 5)?,
    })
}

/// Newest first. Filters are applied here, so that the server cannot count for us: then a cursor hands over some at a time.
pub(super) async fn list(
    session: &Session,
    client: Client,
    vault: &Vault,
    query: &ListQuery,
) -> Result<Vec<Listed>, Fault> {
    let (thread, namespace) = (query.thread.as_deref().map(escape), query.namespace.as_deref().map(escape));
    let limit = query.limit.filter(|_| query.filter.is_empty()).and_then(|limit| i64::try_from(limit).ok());
    let with = [
        (&thread as _, Type::TEXT),
        (&namespace as _, Type::TEXT),
        (&query.before as _, Type::UUID),
        (&limit as _, Type::INT8),
    ];
    let mut found = Vec::new();
    if query.filter.is_empty() {
        let rows = session.query(&client, &session.statements.list, &with).await?;
        pick(vault, query, &rows, &mut found)?;
        return Ok(found);
    }
    let transaction = Transaction::begin(client).await?;
    let paging = async {
        let client = transaction.client();
        let declare = format!("declare listed no scroll cursor for {}", session.statements.list);
        session.query(client, &declare, &with).await?;
        while found.len() < query.limit.unwrap_or(usize::MAX) {
            let rows = session.query(client, &format!("fetch {PAGE} from listed"), &[]).await?;
            pick(vault, query, &rows, &mut found)?;
            if rows.len() < PAGE {
                break;
            }
        }
        Ok(())
    };
    let paged = paging.await;
    transaction.end(paged).await?;
    Ok(found)
}

/// How many checkpoints a cursor hands over at once.
const PAGE: usize = 100;

/// Those of the rows that are wanted.
fn pick(vault: &Vault, query: &ListQuery, rows: &[Row], found: &mut Vec<Listed>) -> Result<(), Fault> {
    for row in rows {
        if found.len() >= query.limit.unwrap_or(usize::MAX) {
            break;
        }
        let (thread, namespace) = (unescape(row.try_get(0)?), unescape(row.try_get(1)?));
        let checkpoint = open_body(vault, &thread, &namespace, row.try_get(2)?, row.try_get(3)?)?;
        if query.wants(&checkpoint) {
            found.push(Listed::new(thread, namespace, checkpoint));
        }
    }
    Ok(())
}

pub(super) async fn threads(
    session: &Session,
    client: &Client,
    vault: &Vault,
    limit: Option<usize>,
) -> Result<Vec<ThreadInfo>, Fault> {
    let limit = limit.and_then(|limit| i64::try_from(limit).ok());
    let rows = session.query(client, &session.statements.threads, &[(&limit, Type::INT8)]).await?;
    let infos = rows.iter().map(|row| {
        let thread = unescape(row.try_get(0)?);
        let latest = match (row.try_get(2)?, row.try_get(3)?) {
            (Some(id), Some(body)) => match open_body(vault, &thread, "", id, body) {
                // It is listed all the same, as what is done to it goes by its name.
                Err(SaverError::Damaged { .. }) => None,
                latest => Some(latest?),
            },
            _ => None,
        };
        let holder = row.try_get::<_, Option<&str>>(4)?.map(holder);
        let expires = row.try_get::<_, Option<i64>>(5)?;
        let expires = expires.map(|at| UNIX_EPOCH + Duration::from_millis(at.unsigned_abs()));
        let mut info = ThreadInfo::new(thread);
        info.checkpoints = row.try_get::<_, i64>(1)?.unsigned_abs();
        (info.latest, info.holder, info.expires) = (latest, holder, expires);
        Ok(info)
    });
    infos.collect()
}
