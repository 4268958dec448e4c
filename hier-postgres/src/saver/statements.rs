//! Statements. Their texts are constant apart from the name of the schema. All other values are parameters.

use hier_checkpoint::checkpoint::SaverError;
use uuid::Uuid;

#[derive(Debug)]
pub(crate) struct Statements {
    /// The quoted name of the schema.
    pub(super) schema: String,
    /// Identifies the statements that this process prepares.
    pub(super) tag: Uuid,
    pub(super) commit: String,
    pub(super) change_threads: String,
    pub(super) claim: String,
    pub(super) holder: String,
    pub(super) token: String,
    pub(super) renew: String,
    pub(super) release: String,
    pub(super) saved: String,
    pub(super) values: String,
    pub(super) list: String,
    pub(super) threads: String,
}

impl Statements {
    /// Fails with [`SaverError::Invalid`] if `PostgresOptions::schema` does not allow the name of the schema.
    pub(super) fn new(schema: &str, tag: Uuid) -> Result<Self, SaverError> {
        let good = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '_';
        let starts = |letter: char| letter.is_ascii_lowercase() || letter == '_';
        if schema.len() > 63 || !schema.starts_with(starts) || !schema.chars().all(good) {
            let reason = "use at most 63 lowercase letters, digits and `_`, and begin with a letter or `_`";
            return Err(SaverError::Invalid(format!("`{schema}` is not a valid name of a schema: {reason}")));
        }
        // The name is quoted, because it may be a word of SQL such as `user` or `order`.
        let schema = format!("\"{schema}\"");
        let for_schema = |text: &str| text.replace("{s}", &schema);
        Ok(Self {
            commit: for_schema(COMMIT),
            change_threads: for_schema(CHANGE_THREADS),
            claim: for_schema(CLAIM),
            holder: for_schema(HOLDER),
            token: for_schema(TOKEN),
            renew: for_schema(RENEW),
            release: for_schema(RELEASE),
            saved: for_schema(SAVED),
            values: for_schema(VALUES),
            list: for_schema(LIST),
            threads: for_schema(THREADS),
            schema: schema.clone(),
            tag,
        })
    }

    /// Replaces `{s}` by the schema.
    pub(crate) fn with_schema(&self, text: &str) -> String {
        text.replace("{s}", &self.schema)
    }

    /// Replaces `{own}` by the condition that this process has prepared the statement. The tag is the parameter after
    /// the statement's own ones. If the tag differs, the statement fails before it has any effect, even without rows.
    /// Statements of other programs have no parameter of this type at this place.
    pub(super) fn own(&self, text: &str, parameters: usize) -> String {
        let condition = format!("1 / (${} = '{{{}}}'::uuid[])::integer = 1", parameters + 1, self.tag);
        self.with_schema(text).replace("{own}", &condition)
    }
}

const COMMIT: &str = "select {s}.store($1, $2, $3::text::{s}.base_row[], $4::text::{s}.checkpoint_row[],
    $5::text::{s}.piece_row[], $6::text::{s}.write_row[], $7) where {own}";

const CHANGE_THREADS: &str = "select * from {s}.change_threads($1, $2::text::{s}.change_row[], $3::text::{s}.run_row[], $4::text::{s}.event_row[],
    $5::text::{s}.document_row[], $6::text::{s}.record_rows, $7) where {own}";

/// Returns no row if another holder has the thread and the claim may not take over.
const CLAIM: &str = "
    select token, exists (select 1 from {s}.due where thread = $1 and driven)
    from {s}.claim($1, $2, $3, $4, $5, $6) token where token is not null and {own}";

const HOLDER: &str =
    "select holder from {s}.threads where name = $1 and holder is not null and leased_until > clock_timestamp()";

const TOKEN: &str = "select token from {s}.threads where name = $1";

const RENEW: &str = "
    update {s}.threads set leased_until = clock_timestamp() + $3 * interval '1 millisecond'
    where name = $1 and token = $2 and {own} returning 1";

const RELEASE: &str = "
    update {s}.threads set holder = null, leased_until = null where name = $1 and token = $2 and {own} returning 1";

const SAVED: &str = "select * from {s}.saved_of_several($1, $2, $3, $4, $5, $6, $7) where {own}";

const VALUES: &str = "select place, version, base, value from {s}.chains($1, $2, $3, $4) where {own}";

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
