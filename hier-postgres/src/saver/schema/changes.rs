//! The function that stores changes of the runs of several threads with one statement.

pub(super) const CHANGES: &str = r"
    -- Stores changes of the runs of threads, each with its records, events and documents, and each only if the runs have not changed since
    -- they were read (then `op` was `seen`). `changes` has one place for a thread, in rising order of the names. The other rows name that
    -- place as their `item`. `said` has one result for a place:
    --   null: the change is stored, and `tokens` has the token of the claim if one was requested;
    --   `changed`: the runs have changed; `stale`: the document that the change depends on has changed; `superseded`: the thread is not
    --   held with this token; `taken`: the thread cannot be claimed; `lacks`: a value is missing that the records build on, and the lists
    --   that begin with `lack_` name it; `alone`: another process is changing the thread, and the other threads do not wait for it.
    -- A change with a result has not happened; all others have. A caller that waits sends one thread. Existing rows are locked without
    -- waiting, and new rows are made in the order of the names, so that no two calls wait for each other.
    create function {s}.change_threads(
        waits boolean, changes {s}.change_row[], runs {s}.run_row[], events {s}.event_row[], documents {s}.document_row[],
        records {s}.record_rows, bodies bytea[],
        out said text[], out tokens bigint[], out lack_item int4[], out lack_channel text[], out lack_version uuid[]
    ) language plpgsql
        -- Planned once for a connection, as searches by the keys.
        set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
    as $$
    declare
        bases {s}.base_row[] := records.bases;
        checkpoints {s}.checkpoint_row[] := records.checkpoints;
        pieces {s}.piece_row[] := records.pieces;
        writes {s}.write_row[] := records.writes;
        replaced {s}.document_row;
        names text[];
        keys bigint[];
        any_lease boolean;
        any_claim boolean;
        any_new boolean;
        any_old boolean;
        any_end boolean;
        lives boolean;
        base {s}.base_row;
    begin
        if cardinality(documents) > 0 then
            select r.* into replaced from unnest(documents) r where r.revision is not null;
            if found then
                perform 1 from {s}.documents d
                where d.kind = replaced.kind and d.id = replaced.id and d.revision = replaced.revision for update;
                if not found then
                    said := array_fill('stale'::text, array[cardinality(changes)]);
                    return;
                end if;
            end if;
        end if;
        select array_agg(r.name order by r.ordinality), bool_or(r.token is not null or r.holder is not null),
            bool_or(r.holder is not null), bool_or(r.is_new), bool_or(not r.is_new), bool_or(r.ends)
        into names, any_lease, any_claim, any_new, any_old, any_end
        from unnest(changes) with ordinality r;
        if waits then
            perform 1 from {s}.run_threads where name = any(names) for update;
        end if;
        select array_agg(
            case when r.is_new or (t.is_there and t.op is not distinct from r.seen) then null
                when t.is_there or waits then 'changed' else 'alone' end order by r.ordinality)
        into said
        from unnest(changes) with ordinality r
        left join lateral (
            select true as is_there, x.op from {s}.run_threads x where x.name = r.name and not r.is_new
            for update skip locked) t on true;
        if any_lease then
            if waits then
                perform 1 from {s}.threads where name = any(names) for no key update;
            end if;
            select array_agg(t.key order by r.ordinality), bool_or(t.time_to_live is not null), array_agg(
                case when said[r.ordinality] is not null or (r.token is null and r.holder is null) then said[r.ordinality]
                    when t.key is null and not waits and exists (select 1 from {s}.threads x where x.name = r.name) then 'alone'
                    when r.token is not null then
                        case when t.token = r.token and t.holder is not null then null else 'superseded' end
                    when t.key is null or t.holder is null or t.holder = r.holder or t.leased_until <= clock_timestamp() then null
                    else 'taken' end order by r.ordinality)
            into keys, lives, said
            from unnest(changes) with ordinality r
            left join lateral (
                select x.key, x.token, x.holder, x.leased_until, x.time_to_live from {s}.threads x
                where x.name = r.name and said[r.ordinality] is null and (r.token is not null or r.holder is not null)
                for no key update skip locked) t on true;
        end if;
        -- Row by row: see `store`.
        foreach base in array bases loop
            continue when said[base.item] is not null;
            if base.channel is null then
                perform from {s}.checkpoints c
                where c.thread = keys[base.item] and c.namespace = base.namespace and c.id = base.version;
            else
                perform from {s}.pieces p
                where p.thread = keys[base.item] and p.namespace = base.namespace and p.channel = base.channel
                    and p.version = base.version;
            end if;
            if not found then
                said[base.item] := 'lacks';
                lack_item := lack_item || base.item;
                lack_channel := lack_channel || base.channel;
                lack_version := lack_version || base.version;
            end if;
        end loop;
        if any_new then
            with made as (
                insert into {s}.run_threads (name, ready, graph, expires, op, body, vals)
                select r.name, r.ready, r.graph, r.expires, r.op, bodies[r.body], bodies[r.vals]
                from unnest(changes) with ordinality r
                where r.is_new and said[r.ordinality] is null order by r.ordinality
                on conflict do nothing returning name)
            select array_agg(
                case when said[r.ordinality] is null and r.is_new and made.name is null then 'changed' else said[r.ordinality] end
                order by r.ordinality)
            into said
            from unnest(changes) with ordinality r left join made on made.name = r.name;
        end if;
        if any_claim then
            -- A thread has no time to expire at before its first commit.
            with held as (
                update {s}.threads t set token = nextval('{s}.tokens'), holder = r.holder,
                    leased_until = clock_timestamp() + r.lasts * interval '1 millisecond', time_to_live = null, expires = null
                from unnest(changes) with ordinality r
                where t.key = keys[r.ordinality] and r.holder is not null and said[r.ordinality] is null
                returning r.ordinality, t.token),
            made as (
                insert into {s}.threads (name, token, holder, leased_until)
                select r.name, nextval('{s}.tokens'), r.holder, clock_timestamp() + r.lasts * interval '1 millisecond'
                from unnest(changes) with ordinality r
                where keys[r.ordinality] is null and r.holder is not null and said[r.ordinality] is null order by r.ordinality
                on conflict do nothing returning name, key, token)
            select array_agg(coalesce(held.token, made.token) order by r.ordinality),
                array_agg(coalesce(keys[r.ordinality], made.key) order by r.ordinality)
            into tokens, keys
            from unnest(changes) with ordinality r
            left join held on held.ordinality = r.ordinality left join made on made.name = r.name;
            perform 1 from unnest(changes) with ordinality r
            where r.holder is not null and tokens[r.ordinality] is null and said[r.ordinality] is null;
            if found then
                -- Another process created the thread in the meantime, which undoes all of this.
                raise exception 'a thread was claimed by two at once' using errcode = 'serialization_failure';
            end if;
        end if;
        if cardinality(checkpoints) > 0 then
            insert into {s}.checkpoints (thread, namespace, id, body)
            select keys[r.item], r.namespace, r.id, bodies[r.body] from unnest(checkpoints) r
            where said[r.item] is null
            on conflict (thread, namespace, id) do update set body = excluded.body;
        end if;
        if cardinality(pieces) > 0 then
            insert into {s}.pieces (thread, namespace, channel, version, base, value)
            select keys[r.item], r.namespace, r.channel, r.version, r.base, bodies[r.value] from unnest(pieces) r
            where said[r.item] is null
            on conflict (thread, namespace, channel, version) do update set base = excluded.base, value = excluded.value;
        end if;
        if cardinality(writes) > 0 then
            insert into {s}.writes as old (thread, namespace, checkpoint, task, slot, path, channel, value)
            select keys[r.item], r.namespace, r.checkpoint, r.task, r.slot, r.path, r.channel, bodies[r.value]
            from unnest(writes) r
            where said[r.item] is null
            on conflict (thread, namespace, checkpoint, task, slot)
            do update set path = excluded.path, channel = excluded.channel, value = excluded.value where old.slot < 0;
        end if;
        if lives then
            update {s}.threads t set expires = clock_timestamp() + t.time_to_live * interval '1 millisecond'
            from (select c.item from unnest(checkpoints) c union select p.item from unnest(pieces) p
                union select w.item from unnest(writes) w) r
            where t.key = keys[r.item] and said[r.item] is null and t.time_to_live is not null;
        end if;
        if cardinality(documents) > 0 then
            if replaced.kind is not null and said[1] is null then
                update {s}.documents d set revision = d.revision + 1, body = bodies[replaced.body]
                where d.kind = replaced.kind and d.id = replaced.id;
            end if;
            insert into {s}.documents (kind, id, revision, body)
            select r.kind, r.id, 1, bodies[r.body] from unnest(documents) r
            where r.revision is null and said[r.item] is null order by r.kind, r.id on conflict do nothing;
        end if;
        if cardinality(runs) > 0 then
            insert into {s}.runs (id, thread, number, status, ended, body)
            select r.id, names[r.item], r.number, r.status, r.ended, bodies[r.body] from unnest(runs) r
            where said[r.item] is null
            on conflict (id) do update set status = excluded.status, ended = excluded.ended, body = excluded.body;
        end if;
        if cardinality(changes[1].removed) > 0 and said[1] is null then
            delete from {s}.runs where id = any(changes[1].removed);
        end if;
        if cardinality(events) > 0 then
            insert into {s}.events (thread, at, number, run, bytes, body)
            select names[r.item], r.at, r.number, r.run, r.bytes, bodies[r.body] from unnest(events) r
            where said[r.item] is null;
        end if;
        if any_old then
            update {s}.run_threads t set ready = r.ready, graph = r.graph, expires = r.expires, op = r.op, body = bodies[r.body],
                vals = coalesce(bodies[r.vals], t.vals)
            from unnest(changes) with ordinality r
            where t.name = r.name and not r.is_new and said[r.ordinality] is null;
        end if;
        if any_end then
            update {s}.threads t set holder = null, leased_until = null
            from unnest(changes) with ordinality r
            where t.key = keys[r.ordinality] and t.token = r.token and r.ends and said[r.ordinality] is null;
        end if;
    end $$;
";
