//! Reads a checkpoint with its values and writes. Requests of the same time share a statement, for example when the
//! runs of several threads start.

use std::collections::HashMap;
use std::sync::Arc;

use hier_checkpoint::checkpoint::{Checkpoint, DeltaChain, Saved, SaverError};
use tokio_postgres::Row;
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::Postgres;
use super::batcher::{Batchable, Batcher};
use super::client::PooledClient;
use super::fault::PostgresFault;
use super::read;
use super::session::{Parameter, PostgresSession, retrying};
use super::text::{escape, unescape};
use hier_checkpoint::backend::latest::Known;
use hier_checkpoint::backend::rows::{PieceRow, WriteRow, by_task, is_known, open_body};

/// A request for a checkpoint, and the values that the checkpoint may have. Without an id, the request is for the
/// latest checkpoint of the namespace. Names are escaped.
pub(super) struct SavedQuery {
    thread: String,
    namespace: String,
    id: Option<Uuid>,
    channels: Vec<String>,
    versions: Vec<Uuid>,
    /// The total size of these values, as far as it is known.
    bytes: usize,
}

/// A checkpoint and the values that the same statement has read.
struct FoundCheckpoint {
    checkpoint: Checkpoint,
    writes: Vec<WriteRow>,
    key: i64,
    values: Vec<(usize, DeltaChain)>,
    /// The channels whose values the statement has not read.
    rest: Vec<usize>,
}

/// A namespace of a thread, with the versions of values that the caller already has.
#[derive(Clone, Copy)]
struct NamespaceRead<'a> {
    postgres: &'a Postgres,
    thread: &'a str,
    namespace: &'a str,
    known: &'a [(Arc<str>, Uuid)],
}

impl Batchable for Arc<SavedQuery> {
    /// `None` if the checkpoint does not exist.
    type Answer = Option<Row>;

    const MAX_ITEMS: usize = 32;
    const MAX_SIZE: usize = 256 << 10;

    fn size(&self) -> usize {
        // The statement compares each value with each of its requests.
        self.bytes + (self.versions.len() << 9)
    }

    fn batcher(postgres: &Postgres) -> &Arc<Batcher<Self>> {
        &postgres.0.checkpoint_reads
    }

    async fn send_batch(postgres: &Postgres, batch: Vec<Self>) -> Vec<Option<Row>> {
        let session = &postgres.0.session;
        let read = async { read_rows(session, &session.client().await?, &batch).await };
        postgres.answers_of(read.await)
    }
}

/// Reads checkpoints with one statement. Returns the row of each checkpoint, or `None` if the checkpoint does not
/// exist.
async fn read_rows(
    session: &PostgresSession,
    client: &PooledClient,
    request: &[Arc<SavedQuery>],
) -> Result<Vec<Option<Row>>, PostgresFault> {
    let threads: Vec<&str> = request.iter().map(|request| &*request.thread).collect();
    let namespaces: Vec<&str> = request.iter().map(|request| &*request.namespace).collect();
    let ids: Vec<Option<Uuid>> = request.iter().map(|request| request.id).collect();
    let (mut of, mut places, mut channels, mut versions) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for (item, request) in (1_i32..).zip(request) {
        for ((place, channel), version) in (1_i32..).zip(&request.channels).zip(&request.versions) {
            of.push(item);
            places.push(place);
            channels.push(&**channel);
            versions.push(*version);
        }
    }
    let with = [
        (&threads as _, Type::TEXT_ARRAY),
        (&namespaces as _, Type::TEXT_ARRAY),
        (&ids as _, Type::UUID_ARRAY),
        (&of as _, Type::INT4_ARRAY),
        (&places as _, Type::INT4_ARRAY),
        (&channels as _, Type::TEXT_ARRAY),
        (&versions as _, Type::UUID_ARRAY),
    ];
    let mut found: Vec<Option<Row>> = request.iter().map(|_| None).collect();
    for row in session.query_often(client, &session.statements.saved, &with).await? {
        let place: i64 = row.try_get(0)?;
        if let Some(found) = usize::try_from(place - 1).ok().and_then(|place| found.get_mut(place)) {
            *found = Some(row);
        }
    }
    Ok(found)
}

impl Postgres {
    /// Returns a checkpoint. Omits values that the caller already has in the same version.
    pub(super) async fn saved(
        &self,
        (thread, namespace, id): (&str, &str, Option<Uuid>),
        known: &[(Arc<str>, Uuid)],
    ) -> Result<Option<Saved>, SaverError> {
        self.ready().await?;
        let session = &self.0.session;
        let space = NamespaceRead { postgres: self, thread, namespace, known };
        // An earlier checkpoint may have other values than the latest one.
        let latest = self.0.latest.get(thread, namespace).filter(|latest| id.is_none_or(|id| latest.is(id)));
        let (request, names) = space.build_request(id, latest.as_ref());
        let (request, attempts) = (Arc::new(request), session.attempts());
        let mut first = None;
        if request.is_small()
            && let Some(row) = self.send_shared(request.clone()).await
        {
            let Some(row) = row else { return Ok(None) };
            let found = space.found(&row, &names).map_err(|fault| fault.into_saver_error(&session.place))?;
            if found.rest.is_empty() {
                return Ok(Some(found.saved()));
            }
            first = Some(found);
        }
        retrying!(session, attempts, client => {
            let found = match first.take() {
                Some(found) => Some(found),
                None => space.read(&client, &request, &names).await?,
            };
            let mut saved = space.completed(&client, found).await?;
            if saved.as_ref().is_some_and(|saved| saved.values.iter().any(|(_, chain)| chain.full.is_none())) {
                // The checkpoint may have been deleted between the statements.
                saved = space.completed(&client, space.read(&client, &request, &names).await?).await?;
            }
            Ok(saved)
        })
    }
}

impl NamespaceRead<'_> {
    /// Builds the request and the names of its channels. The request contains the values of the latest checkpoint that
    /// this process knows, which usually is still the latest.
    fn build_request(self, id: Option<Uuid>, latest: Option<&Known>) -> (SavedQuery, Vec<Arc<str>>) {
        let (mut names, mut versions, mut bytes) = (Vec::new(), Vec::new(), 0);
        for (name, version, size) in latest.into_iter().flat_map(Known::present) {
            if !is_known(self.known, name, &version) {
                names.push(name.clone());
                versions.push(version);
                bytes += size;
            }
        }
        let channels = names.iter().map(|name| escape(name).into_owned()).collect();
        let (thread, namespace) = (escape(self.thread).into_owned(), escape(self.namespace).into_owned());
        (SavedQuery { thread, namespace, id, channels, versions, bytes }, names)
    }

    async fn read(
        self,
        client: &PooledClient,
        request: &Arc<SavedQuery>,
        names: &[Arc<str>],
    ) -> Result<Option<FoundCheckpoint>, PostgresFault> {
        match read_rows(&self.postgres.0.session, client, std::slice::from_ref(request)).await {
            Err(fault) if fault.is_of_limit() => self.read_long(client, request).await,
            rows => rows?.pop().flatten().map(|row| self.found(&row, names)).transpose(),
        }
    }

    /// Reads a checkpoint that does not fit into a row together with its writes and values. A row has at most 1 GB.
    async fn read_long(
        self,
        client: &PooledClient,
        request: &SavedQuery,
    ) -> Result<Option<FoundCheckpoint>, PostgresFault> {
        let session = &self.postgres.0.session;
        let query = async |sql: &str, with: &[Parameter<'_>]| {
            session.query(client, &session.statements.with_schema(sql), with).await
        };
        let sql = "select t.key, c.id, c.body from {s}.threads t join {s}.checkpoints c on c.thread = t.key
            where t.name = $1 and c.namespace = $2 and ($3::uuid is null or c.id = $3) order by c.id desc limit 1";
        let with =
            [(&request.thread as _, Type::TEXT), (&request.namespace as _, Type::TEXT), (&request.id as _, Type::UUID)];
        let rows = query(sql, &with).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        let (key, id): (i64, Uuid) = (row.try_get(0)?, row.try_get(1)?);
        let checkpoint = open_body(&self.postgres.0.vault, self.thread, self.namespace, id, row.try_get(2)?)?;
        let sql = "select checkpoint, task, slot, path, channel, value from {s}.writes
            where thread = $1 and namespace = $2 and checkpoint = $3";
        let rows = query(sql, &[(&key, Type::INT8), (&request.namespace, Type::TEXT), (&id, Type::UUID)]).await?;
        let namespace: Arc<str> = self.namespace.into();
        let writes = rows
            .iter()
            .map(|row| Ok(read::write(row, 0, namespace.clone())?.open(&self.postgres.0.vault, self.thread)?));
        let writes = writes.collect::<Result<_, PostgresFault>>()?;
        self.with_values(
            FoundCheckpoint { checkpoint, writes, key, values: Vec::new(), rest: Vec::new() },
            HashMap::new(),
        )
        .map(Some)
    }

    fn found(self, row: &Row, names: &[Arc<str>]) -> Result<FoundCheckpoint, PostgresFault> {
        let vault = &self.postgres.0.vault;
        let (key, id): (i64, Uuid) = (row.try_get(1)?, row.try_get(2)?);
        let checkpoint = open_body(vault, self.thread, self.namespace, id, row.try_get(3)?)?;
        let writes = self.writes(row, id)?;
        let found = FoundCheckpoint { checkpoint, writes, key, values: Vec::new(), rest: Vec::new() };
        self.with_values(found, whole(row, names)?)
    }

    /// Adds the values that were read with the checkpoint, and the channels whose values are still missing.
    fn with_values(
        self,
        mut found: FoundCheckpoint,
        mut whole: HashMap<&str, (Uuid, Vec<u8>)>,
    ) -> Result<FoundCheckpoint, PostgresFault> {
        let checkpoint = &found.checkpoint;
        for (channel, (name, version)) in checkpoint.channels.iter().zip(checkpoint.versions.iter()).enumerate() {
            if version.is_nil() || is_known(self.known, name, version) {
                continue;
            }
            match whole.remove(&**name) {
                Some((read, value)) if read == *version => {
                    let (namespace, channel_name) = (Arc::from(self.namespace), name.clone());
                    let piece = PieceRow { namespace, channel: channel_name, version: *version, base: None, value };
                    let full = Some(piece.open(&self.postgres.0.vault, self.thread)?.value);
                    found.values.push((channel, DeltaChain { full, ..DeltaChain::default() }));
                }
                _ => found.rest.push(channel),
            }
        }
        Ok(found)
    }

    async fn completed(
        self,
        client: &PooledClient,
        found: Option<FoundCheckpoint>,
    ) -> Result<Option<Saved>, PostgresFault> {
        let Some(mut found) = found else { return Ok(None) };
        if !found.rest.is_empty() {
            found.values.extend(self.chains(client, &found).await?);
            found.values.sort_by_key(|(channel, _)| *channel);
        }
        Ok(Some(found.saved()))
    }

    async fn chains(
        self,
        client: &PooledClient,
        found: &FoundCheckpoint,
    ) -> Result<Vec<(usize, DeltaChain)>, PostgresFault> {
        let session = &self.postgres.0.session;
        let (channels, versions) = (&found.checkpoint.channels, &found.checkpoint.versions);
        let names: Vec<_> = found.rest.iter().map(|channel| escape(&channels[*channel])).collect();
        let versions: Vec<Uuid> = found.rest.iter().map(|channel| versions[*channel]).collect();
        let namespace = escape(self.namespace);
        let with = [
            (&found.key as _, Type::INT8),
            (&namespace as _, Type::TEXT),
            (&names as _, Type::TEXT_ARRAY),
            (&versions as _, Type::UUID_ARRAY),
        ];
        let rows = session.query_often(client, &session.statements.values, &with).await?;
        let mut values: Vec<_> = found.rest.iter().map(|channel| (*channel, DeltaChain::default())).collect();
        for row in rows {
            let place = usize::try_from(row.try_get::<_, i64>(0)? - 1).unwrap_or(usize::MAX);
            let Some((channel, chain)) = values.get_mut(place) else { continue };
            let (namespace, channel) = (Arc::from(self.namespace), channels[*channel].clone());
            let (version, base, value) = (row.try_get(1)?, row.try_get(2)?, row.try_get(3)?);
            let piece = PieceRow { namespace, channel, version, base, value };
            let piece = piece.open(&self.postgres.0.vault, self.thread)?;
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

    fn writes(self, row: &Row, checkpoint: Uuid) -> Result<Vec<WriteRow>, PostgresFault> {
        let Some(tasks) = row.try_get::<_, Option<Vec<Uuid>>>(4)? else { return Ok(Vec::new()) };
        let (slots, paths): (Vec<i32>, Vec<&str>) = (row.try_get(5)?, row.try_get(6)?);
        let (channels, values): (Vec<&str>, Vec<Vec<u8>>) = (row.try_get(7)?, row.try_get(8)?);
        let namespace: Arc<str> = self.namespace.into();
        let rows = tasks.into_iter().zip(slots).zip(paths).zip(channels).zip(values);
        let rows = rows.map(|((((task, slot), path), channel), value)| {
            let (namespace, path, channel) = (namespace.clone(), unescape(path), unescape(channel));
            let write = WriteRow { namespace, checkpoint, task, slot, path, channel, value };
            Ok(write.open(&self.postgres.0.vault, self.thread)?)
        });
        rows.collect()
    }
}

impl FoundCheckpoint {
    fn saved(self) -> Saved {
        Saved::new(self.checkpoint, self.values, by_task(self.writes))
    }
}

/// Returns the values in a row that are complete without earlier values, by channel.
fn whole<'a>(row: &Row, names: &'a [Arc<str>]) -> Result<HashMap<&'a str, (Uuid, Vec<u8>)>, PostgresFault> {
    let Some(places) = row.try_get::<_, Option<Vec<i32>>>(9)? else { return Ok(HashMap::new()) };
    let (versions, bases): (Vec<Uuid>, Vec<Option<Uuid>>) = (row.try_get(10)?, row.try_get(11)?);
    let values: Vec<Vec<u8>> = row.try_get(12)?;
    let read = places.into_iter().zip(versions).zip(bases).zip(values);
    let read = read.filter(|((_, base), _)| base.is_none());
    let read = read.filter_map(|(((place, version), _), value)| {
        let name = names.get(usize::try_from(place - 1).ok()?)?;
        Some((&**name, (version, value)))
    });
    Ok(read.collect())
}
