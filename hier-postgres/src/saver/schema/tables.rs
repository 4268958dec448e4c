//! Tables, indexes and triggers.

pub(super) const TABLES: &str = r#"
    create sequence {s}.tokens;
    -- The id of this database. Encryption binds values to it, so that a row moved to another database is refused.
    create table {s}.identity (id uuid not null);
    insert into {s}.identity values (md5(random()::text || clock_timestamp()::text)::uuid);

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
    -- Pending writes before a run that has not ended changed them. A row without a value marks a write that did not exist.
    create table {s}.overwritten (
        run uuid not null,
        thread bigint not null,
        namespace text collate "C" not null,
        checkpoint uuid not null,
        task uuid not null,
        slot integer not null,
        path text,
        channel text,
        value bytea,
        primary key (run, thread, namespace, checkpoint, task, slot)
    );
    create index overwritten_of_threads on {s}.overwritten (thread, namespace, checkpoint);

    -- The index of threads. `ready` is the time from which a worker may claim a thread. Times are microseconds since 1970. `op` is the
    -- id of the last change: a process that lost the answer to its change finds it here.
    create table {s}.run_threads (
        name text collate "C" primary key,
        ready bigint,
        graph text,
        expires bigint,
        op uuid,
        body bytea not null,
        vals bytea
    );
    create index run_threads_ready on {s}.run_threads (ready) where ready is not null;
    create sequence {s}.run_numbers;
    create table {s}.runs (
        id uuid primary key,
        thread text collate "C" not null,
        number bigint not null,
        status text not null,
        ended bigint,
        body bytea not null
    );
    create index runs_of_threads on {s}.runs (thread, number);
    create index runs_by_number on {s}.runs (number);
    create index runs_live on {s}.runs (thread) where ended is null;
    create index runs_ended on {s}.runs (ended) where ended is not null;
    create table {s}.events (
        thread text collate "C" not null,
        number bigint not null,
        at bigint not null,
        run uuid,
        bytes bigint not null,
        body bytea not null,
        primary key (thread, number)
    );
    create index events_by_age on {s}.events (at);
    -- `due` is the time from which a document is due; defaults to at once. Some kinds of documents are never looked up by it.
    create table {s}.documents (
        kind text collate "C" not null,
        id text collate "C" not null,
        revision bigint not null,
        body bytea not null,
        due bigint default 0,
        primary key (kind, id)
    );
    create index documents_due on {s}.documents (kind, due) where due is not null;

    -- Messages and signals, by the name of their thread, which may not exist yet. The id of a taken row stays, with the commit that took
    -- it. `run` is the run that took it and has not ended: until then the value stays.
    create table {s}.mail (
        number bigint generated always as identity primary key,
        thread text collate "C" not null,
        id uuid not null,
        signal text,
        value bytea not null,
        size bigint not null,
        taken uuid,
        run uuid,
        unique (thread, id)
    );
    create index mail_waiting on {s}.mail (thread, number) where taken is null;
    create index mail_of_runs on {s}.mail (run) where run is not null;
    -- The time at which a thread is due, in milliseconds since 1970. `driven` is true while a run continues the thread.
    create table {s}.due (
        thread text collate "C" primary key,
        graph text collate "C" not null,
        at bigint not null,
        driven boolean not null default false
    );
    create index due_at on {s}.due (graph, at, thread);

    -- Ids of changes that are no longer the last of their thread, because another process changed or deleted it. A process that lost the
    -- answer to its change finds it here. Its own later changes need no row: it makes them after the answer. Rows stay for a day.
    create table {s}.run_changes (op uuid primary key, at timestamptz not null default clock_timestamp());
    create index run_changes_by_age on {s}.run_changes (at);
    create function {s}.keep_change() returns trigger language plpgsql as $$
    begin
        insert into {s}.run_changes (op) values (old.op) on conflict do nothing;
        -- Each new row removes a few old ones.
        delete from {s}.run_changes where op in (
            select op from {s}.run_changes where at < clock_timestamp() - interval '1 day'
            order by at limit 4 for update skip locked);
        return null;
    end $$;
    -- The first eight bytes identify the process.
    create trigger run_changed after update of op on {s}.run_threads for each row
        when (old.op is not null and left(old.op::text, 18) is distinct from left(new.op::text, 18))
        execute function {s}.keep_change();
    create trigger run_removed after delete on {s}.run_threads for each row
        when (old.op is not null) execute function {s}.keep_change();
"#;
