//! The statements. All of them are made here, of constant texts and the name of the schema; everything else is a parameter.

use hier_core::checkpoint::SaverError;

/// Each brings the tables to the next version; `{s}` is the schema.
pub(super) const MIGRATIONS: &[&str] = &[r#"
    create sequence {s}.tokens;
    create table {s}.threads (
        key bigint generated always as identity primary key,
        name text collate "C" not null unique,
        token bigint not null,
        holder text,
        leased_until timestamptz,
        time_to_live bigint,
        expires timestamptz
    );
    create index threads_expire on {s}.threads (expires) where expires is not null;
    create table {s}.checkpoints (
        thread bigint not null,
        namespace text collate "C" not null,
        id uuid not null,
        body bytea not null,
        primary key (thread, namespace, id)
    );
    create table {s}.pieces (
        thread bigint not null,
        namespace text collate "C" not null,
        channel text collate "C" not null,
        version uuid not null,
        base uuid,
        value bytea not null,
        primary key (thread, namespace, channel, version)
    );
    create table {s}.writes (
        thread bigint not null,
        namespace text collate "C" not null,
        checkpoint uuid not null,
        task uuid not null,
        slot integer not null,
        path text not null,
        channel text not null,
        value bytea not null,
        primary key (thread, namespace, checkpoint, task, slot)
    );
"#];

/// The statements for one schema.
#[derive(Debug)]
pub(super) struct Statements {
    pub(super) schema: String,
    /// By which of checkpoints (1), pieces (2) and writes (4) there are.
    pub(super) commit: [String; 8],
    /// The same for a thread that is known by its key.
    pub(super) fill: [String; 8],
    pub(super) claim: String,
    pub(super) holder: String,
    pub(super) renew: String,
    pub(super) release: String,
    pub(super) latest: String,
    pub(super) checkpoint: String,
    pub(super) values: String,
    pub(super) writes: String,
    pub(super) list: String,
    pub(super) threads: String,
}

impl Statements {
    /// [`SaverError::Invalid`] for a schema whose name would have to be quoted.
    pub(super) fn of(schema: &str) -> Result<Self, SaverError> {
        let good = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '_';
        let starts = |letter: char| letter.is_ascii_lowercase() || letter == '_';
        if schema.len() > 63 || !schema.starts_with(starts) || !schema.chars().all(good) {
            let reason = "use at most 63 small letters, digits and `_`, a letter first";
            return Err(SaverError::Invalid(format!("`{schema}` cannot be the name of a schema: {reason}")));
        }
        // The lock makes a claim wait for the commit, and the commit look again if it had to wait for a claim.
        let mine = "select key, time_to_live from {s}.threads where name = $1 and token = $2 for no key update";
        let known = "select key, time_to_live from {s}.threads where key = $1 and token = $2";
        let for_schema = |text: &str| text.replace("{s}", schema);
        Ok(Self {
            schema: schema.to_owned(),
            commit: std::array::from_fn(|parts| for_schema(&store(mine, parts))),
            fill: std::array::from_fn(|parts| for_schema(&store(known, parts))),
            claim: for_schema(CLAIM),
            holder: for_schema(HOLDER),
            renew: for_schema(RENEW),
            release: for_schema(RELEASE),
            latest: for_schema(&format!("{CHECKPOINT} order by c.id desc limit 1")),
            checkpoint: for_schema(&format!("{CHECKPOINT} and c.id = $3")),
            values: for_schema(VALUES),
            writes: for_schema(WRITES),
            list: for_schema(LIST),
            threads: for_schema(THREADS),
        })
    }

    /// A statement of few uses, with the schema in place of `{s}`.
    pub(super) fn with_schema(&self, text: &str) -> String {
        text.replace("{s}", &self.schema)
    }
}

/// The statement that stores a batch; returns a row if the thread is held by the one who asks.
fn store(thread: &str, parts: usize) -> String {
    let mut sql = format!("with me as materialized ({thread})");
    for (bit, part) in [(1, STORE_CHECKPOINTS), (2, STORE_PIECES), (4, STORE_WRITES)] {
        if parts & bit != 0 {
            sql.push_str(part);
        }
    }
    sql.push_str(TOUCH);
    sql
}

const STORE_CHECKPOINTS: &str = ", c as (
    insert into {s}.checkpoints (thread, namespace, id, body)
    select me.key, r.* from me, unnest($3::text[], $4::uuid[], $5::bytea[]) r
    on conflict (thread, namespace, id) do update set body = excluded.body)";

const STORE_PIECES: &str = ", p as (
    insert into {s}.pieces (thread, namespace, channel, version, base, value)
    select me.key, r.* from me, unnest($6::text[], $7::text[], $8::uuid[], $9::uuid[], $10::bytea[]) r
    on conflict (thread, namespace, channel, version) do update set base = excluded.base, value = excluded.value)";

const STORE_WRITES: &str = ", w as (
    insert into {s}.writes as old (thread, namespace, checkpoint, task, slot, path, channel, value)
    select me.key, r.* from me, unnest($11::text[], $12::uuid[], $13::uuid[], $14::int4[], $15::text[], $16::text[],
        $17::bytea[]) r
    on conflict (thread, namespace, checkpoint, task, slot)
    do update set path = excluded.path, channel = excluded.channel, value = excluded.value where old.slot < 0)";

const TOUCH: &str = ", t as (
    update {s}.threads set expires = clock_timestamp() + me.time_to_live * interval '1 millisecond'
    from me where threads.key = me.key and me.time_to_live is not null)
    select 1 from me";

/// Nothing if somebody else holds the thread and the claim is not to take it over. A thread has no time to expire at before
/// its first commit.
const CLAIM: &str = "
    insert into {s}.threads as old (name, token, holder, leased_until, time_to_live)
    values ($1, nextval('{s}.tokens'), $2, clock_timestamp() + $3 * interval '1 millisecond', $4)
    on conflict (name) do update set token = nextval('{s}.tokens'), holder = excluded.holder,
        leased_until = clock_timestamp() + $3 * interval '1 millisecond', time_to_live = excluded.time_to_live,
        expires = case when exists (select 1 from {s}.checkpoints where thread = old.key)
            then clock_timestamp() + $4 * interval '1 millisecond' end
    where $5 or old.holder is null or old.leased_until <= clock_timestamp()
    returning token";

const HOLDER: &str =
    "select holder from {s}.threads where name = $1 and holder is not null and leased_until > clock_timestamp()";

const RENEW: &str = "
    update {s}.threads set leased_until = clock_timestamp() + $3 * interval '1 millisecond'
    where name = $1 and token = $2 returning 1";

const RELEASE: &str =
    "update {s}.threads set holder = null, leased_until = null where name = $1 and token = $2 returning 1";

const CHECKPOINT: &str = "
    select t.key, c.id, c.body from {s}.threads t join {s}.checkpoints c on c.thread = t.key
    where t.name = $1 and c.namespace = $2";

/// The parts of all chains, those that were added last first. Chains lead backwards; one that does not was not written by us.
const VALUES: &str = "
    with recursive chain as (
        select r.place, 0 as depth, p.channel, p.version, p.base, p.value
        from unnest($3::text[], $4::uuid[]) with ordinality r (channel, version, place)
        join {s}.pieces p on p.thread = $1 and p.namespace = $2 and p.channel = r.channel and p.version = r.version
        union all
        select chain.place, chain.depth + 1, p.channel, p.version, p.base, p.value
        from chain join {s}.pieces p on p.thread = $1 and p.namespace = $2 and p.channel = chain.channel
            and p.version = chain.base
        where chain.base < chain.version
    )
    select place, version, base, value from chain order by place, depth";

const WRITES: &str = "
    select checkpoint, task, slot, path, channel, value from {s}.writes
    where thread = $1 and namespace = $2 and checkpoint = $3";

const LIST: &str = "
    select t.name, c.namespace, c.id, c.body from {s}.threads t join {s}.checkpoints c on c.thread = t.key
    where ($1::text is null or t.name = $1) and ($2::text is null or c.namespace = $2) and ($3::uuid is null or c.id < $3)
    order by c.id desc, t.name, c.namespace limit $4";

const THREADS: &str = "
    select t.name, n.count, l.id, l.body, case when t.leased_until > clock_timestamp() then t.holder end,
        (extract(epoch from t.expires) * 1000)::bigint
    from {s}.threads t
    cross join lateral (
        select count(*) as count, max(id::text) as newest from {s}.checkpoints c where c.thread = t.key) n
    left join lateral (
        select id, body from {s}.checkpoints c where c.thread = t.key and c.namespace = '' order by id desc limit 1) l on true
    where n.count > 0 order by n.newest collate \"C\" desc, t.name limit $1";
