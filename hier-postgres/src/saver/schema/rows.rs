//! The types of rows that statements have as parameters.

pub(super) const ROWS: &str = "
    -- Rows of records. `item` is the place of their thread in the changes of a statement. `body` and `value` are places in its list of byte
    -- strings. A base without a channel is a checkpoint of the namespace: if it exists, so does everything that it builds on.
    create type {s}.base_row as (item int4, namespace text, channel text, version uuid);
    create type {s}.checkpoint_row as (item int4, namespace text, id uuid, body int4);
    create type {s}.piece_row as (item int4, namespace text, channel text, version uuid, base uuid, value int4);
    create type {s}.write_row as (
        item int4, namespace text, checkpoint uuid, task uuid, slot int4, path text, channel text, value int4);
    create type {s}.record_rows as (
        bases {s}.base_row[], checkpoints {s}.checkpoint_row[], pieces {s}.piece_row[], writes {s}.write_row[]);

    -- A change of a thread's runs. `token` is the lease that the thread must be held with, `holder` requests a claim.
    create type {s}.change_row as (
        name text, seen uuid, is_new boolean, op uuid, ready bigint, graph text, expires bigint, body int4, vals int4,
        token bigint, ends boolean, holder text, lasts bigint, removed uuid[]);
    create type {s}.run_row as (item int4, id uuid, number bigint, status text, ended bigint, body int4);
    create type {s}.event_row as (item int4, at bigint, number bigint, run uuid, bytes bigint, body int4);
    -- With a revision the document must have it and is replaced. Without one it is added unless it exists.
    create type {s}.document_row as (item int4, kind text, id text, revision bigint, body int4);
";
