//! The rows of a store in SQLite. All texts from callers are parameters.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use hier_checkpoint::checkpoint::SaverError;
use hier_checkpoint::store::plan::{Finder, Plan, Put, Read, Write, list_namespaces};
use hier_checkpoint::store::{Item, OpResult};
use rusqlite::{Connection, OptionalExtension, TransactionBehavior, params};

use crate::saver::fault::Fault;
use crate::saver::schema::APPLICATION;
use hier_checkpoint::backend::items::{Columns, join, lives, micros, picked, seal, split};
use hier_checkpoint::backend::value_codec::ValueCodec;

const VERSIONS: &[&str] = &["
    -- The id of this store. Encryption binds values to it, so that a row moved to another store is refused.
    create table store_identity (id blob not null) strict;
    insert into store_identity values (randomblob(16));
    create table store_spaces (key integer primary key, name text not null unique) strict;
    create table store_items (
        place integer primary key,
        space integer not null,
        key text not null,
        value blob not null,
        vectors blob,
        created_at integer not null,
        updated_at integer not null,
        time_to_live integer,
        expires integer,
        unique (space, key)
    ) strict;
    create index store_items_in_order on store_items (space, place);
    create index store_items_expire on store_items (expires) where expires is not null;
"];

/// The places of items whose time to live restarts.
pub(super) type TouchedItems = Vec<i64>;

/// Creates missing tables.
pub(super) fn migrate(connection: &mut Connection, path: &Path) -> Result<(), Fault> {
    if version(connection)? == Some(VERSIONS.len()) {
        return Ok(());
    }
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    transaction.execute_batch("create table if not exists store_version (version integer not null) strict")?;
    // Another process may have created the tables first.
    let version = version(&transaction)?.unwrap_or_default();
    let Some(missing) = VERSIONS.get(version..) else {
        return Err(Fault::Saver(SaverError::Unusable {
            place: format!("`{}`", path.display()),
            reason: "a newer version of hier wrote its store: update this program".to_owned(),
        }));
    };
    for tables in missing {
        transaction.execute_batch(tables)?;
    }
    transaction.execute("delete from store_version", [])?;
    let version = i64::try_from(VERSIONS.len()).unwrap_or(i64::MAX);
    transaction.execute("insert into store_version values (?)", [version])?;
    transaction.pragma_update(None, "application_id", APPLICATION)?;
    transaction.commit()?;
    Ok(())
}

pub(super) fn identity(connection: &Connection) -> Result<uuid::Uuid, Fault> {
    let bytes = connection.query_row("select id from store_identity", [], |row| row.get(0))?;
    Ok(uuid::Uuid::from_bytes(bytes))
}

/// Returns the version of the tables, if they exist.
fn version(connection: &Connection) -> Result<Option<usize>, Fault> {
    let there = "select exists (select 1 from sqlite_schema where type = 'table' and name = 'store_version')";
    if !connection.query_row(there, [], |row| row.get::<_, bool>(0))? {
        return Ok(None);
    }
    let version = connection.query_row("select version from store_version", [], |row| row.get(0)).optional()?;
    Ok(version.map(|version: i64| usize::try_from(version).unwrap_or(usize::MAX)))
}

/// Returns the time in microseconds since 1970.
fn now() -> i64 {
    micros(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default())
}

pub(super) fn read_all(
    connection: &Connection,
    vault: &ValueCodec,
    plan: &Plan,
    touched: &mut TouchedItems,
) -> Result<Vec<OpResult>, Fault> {
    let mut results = plan.results();
    for (number, read) in &plan.reads {
        results[*number] = match read {
            Read::Item { namespace, key, refresh } => {
                let found = get(connection, vault, &join(namespace), key)?;
                let found = found.into_iter().map(|row| (row, None)).collect();
                OpResult::Item(picked(found, *refresh, touched).pop())
            }
            Read::Items(finder) => OpResult::Items(find(connection, vault, finder, touched)?),
            Read::Namespaces(query) => OpResult::Namespaces(list_namespaces(query, namespaces(connection)?)),
        };
    }
    Ok(results)
}

fn get(
    connection: &Connection,
    vault: &ValueCodec,
    space: &str,
    key: &str,
) -> Result<Option<hier_checkpoint::backend::items::Row>, Fault> {
    let sql = "select place, key, value, null, created_at, updated_at, expires is not null from store_items
        where space = (select key from store_spaces where name = ?1) and key = ?2
        and (expires is null or expires > ?3)";
    let found = connection.prepare_cached(sql)?.query_row(params![space, key, now()], |row| columns(row, space));
    let Some(mut columns) = found.optional()? else { return Ok(None) };
    let (value, _) = columns.open(vault)?;
    Ok(Some(columns.row(value)))
}

fn columns(row: &rusqlite::Row<'_>, space: &str) -> Result<Columns, rusqlite::Error> {
    Ok(Columns {
        place: row.get(0)?,
        space: space.to_owned(),
        key: row.get(1)?,
        value: row.get(2)?,
        vectors: row.get(3)?,
        created_at: row.get(4)?,
        updated_at: row.get(5)?,
        expires: row.get(6)?,
    })
}

/// Reads the items below a prefix, in order, until the finder has enough.
fn find(
    connection: &Connection,
    vault: &ValueCodec,
    finder: &Finder,
    touched: &mut TouchedItems,
) -> Result<Vec<Item>, Fault> {
    let sql = "select place, key, value, case when ?2 then vectors end, created_at, updated_at, expires is not null
        from store_items where space = ?1 and (expires is null or expires > ?3) order by place";
    let mut statement = connection.prepare_cached(sql)?;
    let (mut picking, now) = (finder.picking(), now());
    for (key, space) in below(connection, &join(&finder.prefix))? {
        let mut rows = statement.query(params![key, finder.wants_vectors(), now])?;
        while !picking.is_full() {
            let Some(row) = rows.next()? else { break };
            let mut columns = columns(row, &space)?;
            let (value, vectors) = columns.open(vault)?;
            if let Some(rank) = picking.rank(&value, &vectors) {
                picking.pick(rank, columns.row(value));
            }
        }
        if picking.is_full() {
            break;
        }
    }
    Ok(picked(picking.finish(), finder.refresh, touched))
}

/// Returns the namespaces that a search below these labels includes, in the order of their creation. In ASCII, `/`
/// follows `.`, so the range contains all names that begin with the prefix and a period.
fn below(connection: &Connection, prefix: &str) -> Result<Vec<(i64, String)>, Fault> {
    let sql = "select key, name from store_spaces
        where ?1 = '' and name <> 'hier.tools' or name = ?1 or (name > ?1 || '.' and name < ?1 || '/') order by key";
    let mut statement = connection.prepare_cached(sql)?;
    let rows = statement.query_map([prefix], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

fn namespaces(connection: &Connection) -> Result<Vec<Vec<String>>, Fault> {
    let sql = "select name from store_spaces where exists (select 1 from store_items
        where space = store_spaces.key and (expires is null or expires > ?))";
    let mut statement = connection.prepare_cached(sql)?;
    let rows = statement.query_map([now()], |row| Ok(split(&row.get::<_, String>(0)?)))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Restarts the time to live of items that have not expired meanwhile.
pub(super) fn refresh(connection: &Connection, places: &[i64]) -> Result<(), Fault> {
    let sql = "update store_items set expires = ?1 + time_to_live where place = ?2 and expires > ?1";
    let (mut statement, now) = (connection.prepare_cached(sql)?, now());
    for place in places {
        statement.execute(params![now, place])?;
    }
    Ok(())
}

pub(super) fn write_all(connection: &Connection, vault: &ValueCodec, writes: &[Write]) -> Result<(), Fault> {
    let now = now();
    for Write { namespace, key, put: what } in writes {
        let space = join(namespace);
        match what {
            Some(what) => put(connection, vault, &space, key, what, now)?,
            None => delete(connection, &space, key)?,
        }
    }
    // At the end of the batch, so that a namespace that is filled again keeps its place.
    for Write { namespace, .. } in writes.iter().filter(|write| write.put.is_none()) {
        let sql = "delete from store_spaces where name = ?
            and not exists (select 1 from store_items where space = store_spaces.key)";
        connection.prepare_cached(sql)?.execute([join(namespace)])?;
    }
    Ok(())
}

/// Writes an item. An existing item keeps its place and its time of creation, unless it has expired.
fn put(connection: &Connection, vault: &ValueCodec, space: &str, key: &str, put: &Put, now: i64) -> Result<(), Fault> {
    let (value, vectors) = seal(vault, space, key, put)?;
    let sql = "insert into store_spaces (name) values (?) on conflict do update set name = name returning key";
    let space: i64 = connection.prepare_cached(sql)?.query_row([space], |row| row.get(0))?;
    let sql = "delete from store_items where space = ? and key = ? and expires <= ?";
    connection.prepare_cached(sql)?.execute(params![space, key, now])?;
    let lives = lives(put.time_to_live);
    let expires = lives.map(|lives| now.saturating_add(lives));
    let sql = "insert into store_items (space, key, value, vectors, created_at, updated_at, time_to_live, expires)
        values (?1, ?2, ?3, ?4, ?5, ?5, ?6, ?7) on conflict (space, key) do update set
        value = ?3, vectors = ?4, updated_at = ?5, time_to_live = ?6, expires = ?7";
    connection.prepare_cached(sql)?.execute(params![space, key, value, vectors, now, lives, expires])?;
    Ok(())
}

fn delete(connection: &Connection, space: &str, key: &str) -> Result<(), Fault> {
    let sql = "delete from store_items where space = (select key from store_spaces where name = ?) and key = ?";
    connection.prepare_cached(sql)?.execute(params![space, key])?;
    Ok(())
}

/// The maximum number of items that one transaction deletes, so that other writers wait only briefly.
pub(super) const SWEPT: u64 = 1_000;

/// Deletes at most [`SWEPT`] expired items and returns their number.
pub(super) fn sweep(connection: &Connection) -> Result<u64, Fault> {
    let sql = "delete from store_items where place in (select place from store_items where expires <= ? limit ?)
        returning space";
    let mut statement = connection.prepare_cached(sql)?;
    let rows = statement.query_map(params![now(), SWEPT.cast_signed()], |row| row.get(0))?;
    let mut spaces = rows.collect::<Result<Vec<i64>, _>>()?;
    let swept = spaces.len() as u64;
    spaces.dedup();
    let sql = "delete from store_spaces where key = ? and not exists (select 1 from store_items where space = store_spaces.key)";
    for space in spaces {
        connection.prepare_cached(sql)?.execute([space])?;
    }
    Ok(swept)
}
