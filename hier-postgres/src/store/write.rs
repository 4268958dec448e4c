//! The tables of the store, and its writes. All texts from callers are parameters.

use std::collections::HashMap;

use hier_checkpoint::checkpoint::SaverError;
use hier_checkpoint::store::plan::{Put, Write};
use tokio_postgres::types::Type;

use crate::saver::client::PooledClient;
use crate::saver::fault::PostgresFault;
use crate::saver::session::{Parameter, PostgresSession, first};
use crate::saver::text::{escape, unescape};
use hier_checkpoint::backend::items::{join, lives, seal};
use hier_checkpoint::backend::value_codec::ValueCodec;

/// The tables of each version, where `{s}` is the schema.
const VERSIONS: &[&str] = &[r#"
    -- The id of this store. Encryption binds values to it, so that a row moved to another store is refused.
    create table {s}.store_identity (id uuid not null);
    insert into {s}.store_identity values (md5(random()::text || clock_timestamp()::text)::uuid);
    create table {s}.store_spaces (
        key bigint generated always as identity primary key,
        name text collate "C" not null unique
    );
    create table {s}.store_items (
        place bigint generated always as identity primary key,
        space bigint not null,
        key text collate "C" not null,
        value bytea not null,
        vectors bytea,
        created_at bigint not null,
        updated_at bigint not null,
        time_to_live bigint,
        expires bigint,
        unique (space, key)
    );
    create index store_items_in_order on {s}.store_items (space, place);
    create index store_items_expire on {s}.store_items (expires) where expires is not null;

    -- The server's clock, in microseconds since 1970: machines need not agree on the time.
    create function {s}.store_now() returns bigint language sql volatile as
        $$ select (extract(epoch from clock_timestamp()) * 1000000)::bigint $$;
"#];

/// Returns the version of the tables, if they exist, and the version of this program.
pub(super) async fn version(
    session: &PostgresSession,
    client: &PooledClient,
) -> Result<(Option<usize>, usize), PostgresFault> {
    let sql = session.statements.with_schema("select to_regclass('{s}.store_version') is not null");
    if !first::<bool>(&session.query(client, &sql, &[]).await?)? {
        return Ok((None, VERSIONS.len()));
    }
    let sql = session.statements.with_schema("select coalesce(max(version), 0) from {s}.store_version");
    let version = first::<i32>(&session.query(client, &sql, &[]).await?)?;
    Ok((Some(usize::try_from(version).unwrap_or(usize::MAX)), VERSIONS.len()))
}

/// Creates the tables or migrates them to this program's version. Needs a transaction.
pub(super) async fn migrate(session: &PostgresSession, client: &PooledClient) -> Result<(), PostgresFault> {
    let execute = async |sql: &str| client.batch(&session.statements.with_schema(sql)).await;
    // Only one process at a time migrates, and a process that waited finds the current version. Migrations of the saver
    // use the same lock, because they create the same schema.
    execute("select pg_advisory_xact_lock(7523375889364021618)").await?;
    if version(session, client).await?.0 == Some(VERSIONS.len()) {
        return Ok(());
    }
    execute("create schema if not exists {s}; create table if not exists {s}.store_version (version integer not null)")
        .await?;
    let Some(missing) = VERSIONS.get(version(session, client).await?.0.unwrap_or_default()..) else {
        return Err(PostgresFault::Saver(SaverError::Unusable {
            place: session.place.clone(),
            reason: "a newer version of hier created the tables of its store: update this program".to_owned(),
        }));
    };
    for tables in missing {
        execute(tables).await?;
    }
    execute(&format!("delete from {{s}}.store_version; insert into {{s}}.store_version values ({})", VERSIONS.len()))
        .await?;
    Ok(())
}

/// Restarts the time to live of these items, unless they have expired or another process is changing them.
pub(super) async fn refresh(
    session: &PostgresSession,
    client: &PooledClient,
    places: &[i64],
) -> Result<(), PostgresFault> {
    if places.is_empty() {
        return Ok(());
    }
    let sql = "update {s}.store_items set expires = {s}.store_now() + time_to_live where place in (
        select place from {s}.store_items where place = any($1) and expires > {s}.store_now()
        for update skip locked)";
    session.query(client, &session.statements.with_schema(sql), &[(&places, Type::INT8_ARRAY)]).await?;
    Ok(())
}

/// Executes the writes of a plan in a transaction. First locks the namespaces in a fixed order. Therefore batches do
/// not deadlock, and a namespace is not removed while an item is added to it.
pub(super) async fn write_all(
    session: &PostgresSession,
    client: &PooledClient,
    vault: &ValueCodec,
    writes: &[Write],
) -> Result<(), PostgresFault> {
    let editor = SpaceWriter { session, client };
    let all: Vec<String> = writes.iter().map(|write| join(&write.namespace)).collect();
    let mut spaces = editor.lock_spaces(&all).await?;
    let with_space = || writes.iter().zip(&all);
    let missing = with_space().filter(|(write, space)| write.put.is_some() && !spaces.contains_key(*space));
    let missing: Vec<&String> = missing.map(|(_, space)| space).collect();
    if !missing.is_empty() {
        spaces.extend(editor.make_spaces(&missing).await?);
    }
    let (mut items, mut gone) = (PutItems::default(), DeletedItems::default());
    for (write, space) in with_space() {
        let Some(key) = spaces.get(space) else { continue };
        match &write.put {
            Some(put) => items.add(vault, *key, space, &write.key, put)?,
            None => gone.add(*key, &write.key),
        }
    }
    if !gone.keys.is_empty() {
        editor.delete(&gone).await?;
    }
    if !items.keys.is_empty() {
        editor.put(&items).await?;
    }
    if gone.keys.is_empty() { Ok(()) } else { editor.drop_empty(&gone.spaces).await }
}

/// The items to write, with a list for each column.
#[derive(Default)]
struct PutItems {
    spaces: Vec<i64>,
    keys: Vec<String>,
    values: Vec<Vec<u8>>,
    vectors: Vec<Option<Vec<u8>>>,
    lives: Vec<Option<i64>>,
}

impl PutItems {
    fn add(&mut self, vault: &ValueCodec, space: i64, name: &str, key: &str, put: &Put) -> Result<(), SaverError> {
        let (value, vectors) = seal(vault, name, key, put)?;
        self.spaces.push(space);
        self.keys.push(escape(key).into_owned());
        self.values.push(value);
        self.vectors.push(vectors);
        self.lives.push(lives(put.time_to_live));
        Ok(())
    }
}

#[derive(Default)]
struct DeletedItems {
    spaces: Vec<i64>,
    keys: Vec<String>,
}

impl DeletedItems {
    fn add(&mut self, space: i64, key: &str) {
        self.spaces.push(space);
        self.keys.push(escape(key).into_owned());
    }
}

#[derive(Clone, Copy)]
struct SpaceWriter<'a> {
    session: &'a PostgresSession,
    client: &'a PooledClient,
}

impl SpaceWriter<'_> {
    async fn query(self, sql: &str, with: &[Parameter<'_>]) -> Result<Vec<tokio_postgres::Row>, PostgresFault> {
        self.session.query(self.client, &self.session.statements.with_schema(sql), with).await
    }

    /// Locks the existing namespaces and returns their keys.
    async fn lock_spaces(self, names: &[String]) -> Result<HashMap<String, i64>, PostgresFault> {
        let names: Vec<_> = names.iter().map(|name| escape(name)).collect();
        let sql = "select key, name from {s}.store_spaces where name = any($1) order by name for update";
        by_name(&self.query(sql, &[(&names, Type::TEXT_ARRAY)]).await?)
    }

    /// Adds namespaces in this order. Also returns namespaces that another process has just added.
    async fn make_spaces(self, names: &[&String]) -> Result<HashMap<String, i64>, PostgresFault> {
        let names: Vec<_> = names.iter().map(|name| escape(name)).collect();
        let sql = "insert into {s}.store_spaces (name)
            select name from unnest($1::text[]) with ordinality r (name, number) group by name order by min(number)
            on conflict (name) do update set name = excluded.name returning key, name";
        by_name(&self.query(sql, &[(&names, Type::TEXT_ARRAY)]).await?)
    }

    /// Puts items. An existing item keeps its place and creation time, unless it has expired.
    async fn put(self, items: &PutItems) -> Result<(), PostgresFault> {
        let with = [
            (&items.spaces as _, Type::INT8_ARRAY),
            (&items.keys as _, Type::TEXT_ARRAY),
            (&items.values as _, Type::BYTEA_ARRAY),
            (&items.vectors as _, Type::BYTEA_ARRAY),
            (&items.lives as _, Type::INT8_ARRAY),
        ];
        let sql = "delete from {s}.store_items i using unnest($1::bigint[], $2::text[]) r (space, key)
            where i.space = r.space and i.key = r.key and i.expires <= {s}.store_now()";
        self.query(sql, &with[..2]).await?;
        let sql = "insert into {s}.store_items
                (space, key, value, vectors, created_at, updated_at, time_to_live, expires)
            select r.space, r.key, r.value, r.vectors, t.now, t.now, r.lives, t.now + r.lives
            from (select {s}.store_now() as now offset 0) t,
                unnest($1::bigint[], $2::text[], $3::bytea[], $4::bytea[], $5::bigint[]) with ordinality
                r (space, key, value, vectors, lives, number)
            order by r.number
            on conflict (space, key) do update set value = excluded.value, vectors = excluded.vectors,
                updated_at = excluded.updated_at, time_to_live = excluded.time_to_live, expires = excluded.expires";
        self.query(sql, &with).await?;
        Ok(())
    }

    async fn delete(self, gone: &DeletedItems) -> Result<(), PostgresFault> {
        let sql = "delete from {s}.store_items i using unnest($1::bigint[], $2::text[]) r (space, key)
            where i.space = r.space and i.key = r.key";
        self.query(sql, &[(&gone.spaces, Type::INT8_ARRAY), (&gone.keys, Type::TEXT_ARRAY)]).await?;
        Ok(())
    }

    /// Removes the namespaces without items. The caller must have locked all of them.
    async fn drop_empty(self, spaces: &[i64]) -> Result<(), PostgresFault> {
        let sql = "delete from {s}.store_spaces s where s.key = any($1)
            and not exists (select 1 from {s}.store_items i where i.space = s.key)";
        self.query(sql, &[(&spaces, Type::INT8_ARRAY)]).await?;
        Ok(())
    }
}

fn by_name(rows: &[tokio_postgres::Row]) -> Result<HashMap<String, i64>, PostgresFault> {
    rows.iter().map(|row| Ok((unescape(row.try_get(1)?).to_string(), row.try_get(0)?))).collect()
}

/// The maximum number of items that one transaction deletes, so that its statements end within their time limit.
pub(super) const SWEPT: u64 = 1_000;

/// Deletes some of the expired items, at most [`SWEPT`], and returns their number. Needs a transaction. Locks the
/// namespaces first.
pub(super) async fn sweep(session: &PostgresSession, client: &PooledClient) -> Result<u64, PostgresFault> {
    let (editor, most) = (SpaceWriter { session, client }, SWEPT.cast_signed());
    let sql = "select key from {s}.store_spaces where key in (select space from {s}.store_items
        where expires <= {s}.store_now() order by expires limit $1) order by name for update";
    let rows = editor.query(sql, &[(&most, Type::INT8)]).await?;
    let spaces = rows.iter().map(|row| row.try_get(0)).collect::<Result<Vec<i64>, _>>()?;
    let sql = "with gone as (delete from {s}.store_items where place in (select place from {s}.store_items
            where space = any($1) and expires <= {s}.store_now() order by expires limit $2) returning 1)
        select count(*) from gone";
    let swept: i64 = first(&editor.query(sql, &[(&spaces, Type::INT8_ARRAY), (&most, Type::INT8)]).await?)?;
    editor.drop_empty(&spaces).await?;
    Ok(swept.unsigned_abs())
}
