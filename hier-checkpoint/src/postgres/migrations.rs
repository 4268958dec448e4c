//! The tables and the functions of the database, as they came about.

mod changes;
mod claims;
mod saved;
mod several;

/// Each brings the tables to the next version; `{s}` is the schema.
pub(super) const MIGRATIONS: &[&str] = &[
    r#"
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

    -- Stores rows for whoever holds the thread, and says whether that is so. With a key instead of a name: for a thread that
    -- has never been claimed. A function, since its statements are planned once for a connection, whoever uses it.
    create function {s}.commit(
        my_name text, my_token bigint, my_key bigint,
        c_namespace text[], c_id uuid[], c_body bytea[],
        p_namespace text[], p_channel text[], p_version uuid[], p_base uuid[], p_value bytea[],
        w_namespace text[], w_checkpoint uuid[], w_task uuid[], w_slot int4[], w_path text[], w_channel text[],
        w_value bytea[]
    ) returns boolean language plpgsql as $$
    declare
        lives bigint;
    begin
        if my_name is not null then
            -- A claim waits for this commit, and this commit looks again if it had to wait for a claim.
            select key, time_to_live into my_key, lives from {s}.threads
            where name = my_name and token = my_token for no key update;
            if not found then
                return false;
            end if;
        end if;
        if cardinality(c_id) > 0 then
            insert into {s}.checkpoints (thread, namespace, id, body)
            select my_key, r.* from unnest(c_namespace, c_id, c_body) r
            on conflict (thread, namespace, id) do update set body = excluded.body;
        end if;
        if cardinality(p_version) > 0 then
            insert into {s}.pieces (thread, namespace, channel, version, base, value)
            select my_key, r.* from unnest(p_namespace, p_channel, p_version, p_base, p_value) r
            on conflict (thread, namespace, channel, version)
            do update set base = excluded.base, value = excluded.value;
        end if;
        if cardinality(w_slot) > 0 then
            insert into {s}.writes as old (thread, namespace, checkpoint, task, slot, path, channel, value)
            select my_key, r.*
            from unnest(w_namespace, w_checkpoint, w_task, w_slot, w_path, w_channel, w_value) r
            on conflict (thread, namespace, checkpoint, task, slot)
            do update set path = excluded.path, channel = excluded.channel, value = excluded.value where old.slot < 0;
        end if;
        if lives is not null then
            update {s}.threads set expires = clock_timestamp() + lives * interval '1 millisecond' where key = my_key;
        end if;
        return true;
    end $$;

    -- The parts of the chains that lead to these versions of these channels, those that were added last first. Chains lead
    -- backwards; one that does not was not written by us. The limits make each step a search by the whole key.
    create function {s}.chains(my_key bigint, my_namespace text, channels text[], versions uuid[])
    returns table (place bigint, version uuid, base uuid, value bytea) language plpgsql stable as $$
    begin
        return query
        with recursive chain as (
            select r.place, 0 as depth, r.channel, p.version, p.base, p.value
            from unnest(channels, versions) with ordinality r (channel, version, place)
            cross join lateral (
                select * from {s}.pieces where pieces.thread = my_key and pieces.namespace = my_namespace
                    and pieces.channel = r.channel and pieces.version = r.version limit 1) p
            union all
            select chain.place, chain.depth + 1, chain.channel, p.version, p.base, p.value
            from chain cross join lateral (
                select * from {s}.pieces where pieces.thread = my_key and pieces.namespace = my_namespace
                    and pieces.channel = chain.channel and pieces.version = chain.base limit 1) p
            where chain.base < chain.version
        )
        select chain.place, chain.version, chain.base, chain.value from chain order by chain.place, chain.depth;
    end $$;
"#,
    "
    -- Which database this is, so that what is encrypted cannot be moved to another with the same key.
    create table {s}.identity (id uuid not null);
    insert into {s}.identity values (md5(random()::text || clock_timestamp()::text)::uuid);

    -- As `commit`, if the values are there that the rows build on. Nothing if the thread is not held, an empty list if all is
    -- stored, else the channel and the version of a value that is missing.
    create function {s}.store(
        my_name text, my_token bigint, my_key bigint,
        b_namespace text[], b_channel text[], b_version uuid[],
        c_namespace text[], c_id uuid[], c_body bytea[],
        p_namespace text[], p_channel text[], p_version uuid[], p_base uuid[], p_value bytea[],
        w_namespace text[], w_checkpoint uuid[], w_task uuid[], w_slot int4[], w_path text[], w_channel text[],
        w_value bytea[]
    ) returns text[] language plpgsql as $$
    declare
        found_key bigint := my_key;
        missing text[];
    begin
        if cardinality(b_version) > 0 then
            if my_name is not null then
                -- Until the end nobody deletes anything of the thread.
                select key into found_key from {s}.threads where name = my_name and token = my_token for no key update;
                if not found then
                    return null;
                end if;
            end if;
            select array[r.channel, r.version::text] into missing
            from unnest(b_namespace, b_channel, b_version) r (namespace, channel, version)
            where not exists (
                select 1 from {s}.pieces p where p.thread = found_key and p.namespace = r.namespace
                    and p.channel = r.channel and p.version = r.version)
            limit 1;
            if found then
                return missing;
            end if;
        end if;
        if {s}.commit(my_name, my_token, my_key, c_namespace, c_id, c_body, p_namespace, p_channel, p_version, p_base,
            p_value, w_namespace, w_checkpoint, w_task, w_slot, w_path, w_channel, w_value)
        then
            return '{}';
        end if;
        return null;
    end $$;
",
    r#"
    -- The index of threads, and from when on a worker may look at each. Times are microseconds since 1970. `op` is the last
    -- change: one whose answer was lost is made again, and has to know itself.
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
    create table {s}.documents (
        kind text collate "C" not null,
        id text collate "C" not null,
        revision bigint not null,
        body bytea not null,
        primary key (kind, id)
    );
"#,
    r#"
    -- What was sent to threads, by their names: a thread need not exist yet. Of what was taken the id is kept, and which commit took it.
    create table {s}.mail (
        number bigint generated always as identity primary key,
        thread text collate "C" not null,
        id uuid not null,
        signal text,
        value bytea not null,
        size bigint not null,
        taken uuid,
        unique (thread, id)
    );
    create index mail_waiting on {s}.mail (thread, number) where taken is null;
    -- When somebody has to look at a thread next, in milliseconds since 1970.
    create table {s}.due (
        thread text collate "C" primary key,
        graph text collate "C" not null,
        at bigint not null
    );
    create index due_at on {s}.due (graph, at, thread);
"#,
    claims::CLAIMS,
    "
    -- Without those that whoever asks passes over.
    drop function {s}.waiting(text[]);
    create function {s}.waiting(graphs text[], without text[]) returns text[] language plpgsql as $$
    begin
        return array(
            select r.name from {s}.run_threads r
            where r.ready <= (extract(epoch from clock_timestamp()) * 1000000)::bigint
                and (graphs is null or r.graph = any(graphs))
                and r.name <> all(without)
                and not exists (select 1 from {s}.threads t where t.name = r.name and t.holder is not null
                    and t.leased_until > clock_timestamp())
            order by r.ready, r.name limit 100);
    end $$;
",
    "
    -- The changes of runs that were the last of their thread until another process changed it, or deleted it: whoever has lost the
    -- answer finds its change here. What a process does itself after a change it does after its answer. Kept for a day.
    create table {s}.run_changes (op uuid primary key, at timestamptz not null default clock_timestamp());
    create index run_changes_by_age on {s}.run_changes (at);
    create function {s}.keep_change() returns trigger language plpgsql as $$
    begin
        insert into {s}.run_changes (op) values (old.op) on conflict do nothing;
        -- A few for each that comes.
        delete from {s}.run_changes where op in (
            select op from {s}.run_changes where at < clock_timestamp() - interval '1 day'
            order by at limit 4 for update skip locked);
        return null;
    end $$;
    -- The first eight bytes say whose change it is.
    create trigger run_changed after update of op on {s}.run_threads for each row
        when (old.op is not null and left(old.op::text, 18) is distinct from left(new.op::text, 18))
        execute function {s}.keep_change();
    create trigger run_removed after delete on {s}.run_threads for each row
        when (old.op is not null) execute function {s}.keep_change();
",
    "
    -- Planned once for a connection. Left to itself the server plans it each time it is called, which takes five times as long as to do it.
    alter function {s}.chains(bigint, text, text[], uuid[]) set plan_cache_mode = force_generic_plan;
",
    changes::SEVERAL,
    saved::SAVED,
    several::SEVERAL,
    r#"
    -- Pending writes as they were before a run that has not ended changed them; no value where there was none.
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
    -- The run that has taken a letter and has not ended: until then its value stays.
    alter table {s}.mail add column run uuid;
    create index mail_of_runs on {s}.mail (run) where run is not null;
    -- Whether a run goes on with the thread.
    alter table {s}.due add column driven boolean not null default false;
    -- The time from which a document is due; defaults to at once. Documents of some kinds are never looked up by it.
    alter table {s}.documents add column due bigint default 0;
    create index documents_due on {s}.documents (kind, due) where due is not null;
"#,
];
