//! Changes of the runs of several threads, as one statement.

/// `change_threads`.
pub(super) const CHANGES: &str = r"
    -- Stores changes of the runs of threads, each with its records, events and documents, and each only if the runs have not changed since
    -- they were read (then `op` was `seen`). The lists that begin with `my_` have one place for a thread, in rising order of the names. The
    -- other lists name that place in `_item`. `said` has one result for a place:
    --   null: the change is stored, and `tokens` has the token of the claim if one was requested;
    --   `changed`: the runs have changed; `stale`: the document that the change depends on has changed; `superseded`: the thread is not
    --   held with this token; `taken`: the thread cannot be claimed; `lacks`: a value is missing that the records build on, and the lists
    --   that begin with `lack_` name it; `alone`: another process is changing the thread, and the other threads do not wait for it.
    -- A change with a result has not happened; all others have. A caller that waits sends one thread. Existing rows are locked without
    -- waiting, and new rows are made in the order of the names, so that no two calls wait for each other.
    create function {s}.change_threads(
        waits boolean, k_kind text, k_id text, k_revision bigint, k_body bytea,
        my_name text[], my_seen uuid[], my_new boolean[], my_op uuid[], my_ready bigint[], my_graph text[], my_expires bigint[],
        my_body bytea[], my_vals bytea[], my_token bigint[], my_ends boolean[], my_holder text[], my_lasts bigint[],
        r_item int4[], r_id uuid[], r_number bigint[], r_status text[], r_ended bigint[], r_body bytea[], r_gone uuid[],
        e_item int4[], e_at bigint[], e_number bigint[], e_run uuid[], e_bytes bigint[], e_body bytea[],
        d_item int4[], d_kind text[], d_id text[], d_body bytea[],
        b_item int4[], b_namespace text[], b_channel text[], b_version uuid[],
        c_item int4[], c_namespace text[], c_id uuid[], c_body bytea[],
        p_item int4[], p_namespace text[], p_channel text[], p_version uuid[], p_base uuid[], p_value bytea[],
        w_item int4[], w_namespace text[], w_checkpoint uuid[], w_task uuid[], w_slot int4[], w_path text[], w_channel text[],
        w_value bytea[],
        out said text[], out tokens bigint[], out lack_item int4[], out lack_channel text[], out lack_version uuid[]
    ) language plpgsql
        -- Planned once for a connection, as searches by the keys.
        set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
    as $$
    declare
        keys bigint[];
        lives boolean;
        place int4;
    begin
        if k_kind is not null then
            perform 1 from {s}.documents where kind = k_kind and id = k_id and revision = k_revision for update;
            if not found then
                said := array_fill('stale'::text, array[cardinality(my_name)]);
                return;
            end if;
        end if;
        if waits then
            perform 1 from {s}.run_threads where name = any(my_name) for update;
        end if;
        select array_agg(
            case when r.is_new or (t.is_there and t.op is not distinct from r.seen) then null
                when t.is_there or waits then 'changed' else 'alone' end order by r.i)
        into said
        from unnest(my_name, my_seen, my_new) with ordinality r (name, seen, is_new, i)
        left join lateral (
            select true as is_there, x.op from {s}.run_threads x where x.name = r.name and not r.is_new
            for update skip locked) t on true;
        if cardinality(array_remove(my_token, null)) + cardinality(array_remove(my_holder, null)) > 0 then
            if waits then
                perform 1 from {s}.threads where name = any(my_name) for no key update;
            end if;
            select array_agg(t.key order by r.i), bool_or(t.time_to_live is not null), array_agg(
                case when said[r.i] is not null or (r.token is null and r.holder is null) then said[r.i]
                    when t.key is null and not waits and exists (select 1 from {s}.threads x where x.name = r.name) then 'alone'
                    when r.token is not null then
                        case when t.token = r.token and t.holder is not null then null else 'superseded' end
                    when t.key is null or t.holder is null or t.holder = r.holder or t.leased_until <= clock_timestamp() then null
                    else 'taken' end order by r.i)
            into keys, lives, said
            from unnest(my_name, my_token, my_holder) with ordinality r (name, token, holder, i)
            left join lateral (
                select x.key, x.token, x.holder, x.leased_until, x.time_to_live from {s}.threads x
                where x.name = r.name and said[r.i] is null and (r.token is not null or r.holder is not null)
                for no key update skip locked) t on true;
        end if;
        if cardinality(b_version) > 0 then
            select array_agg(r.item), array_agg(r.channel), array_agg(r.version) into lack_item, lack_channel, lack_version
            from unnest(b_item, b_namespace, b_channel, b_version) r (item, namespace, channel, version)
            where said[r.item] is null and case when r.channel is null then
                not exists (
                    select 1 from {s}.checkpoints c where c.thread = keys[r.item] and c.namespace = r.namespace and c.id = r.version)
            else
                not exists (
                    select 1 from {s}.pieces p where p.thread = keys[r.item] and p.namespace = r.namespace
                        and p.channel = r.channel and p.version = r.version)
            end;
            if lack_item is not null then
                foreach place in array lack_item loop
                    said[place] := 'lacks';
                end loop;
            end if;
        end if;
        if true = any(my_new) then
            with made as (
                insert into {s}.run_threads (name, ready, graph, expires, op, body, vals)
                select r.name, r.ready, r.graph, r.expires, r.op, r.body, r.vals
                from unnest(my_name, my_new, my_ready, my_graph, my_expires, my_op, my_body, my_vals)
                    with ordinality r (name, is_new, ready, graph, expires, op, body, vals, i)
                where r.is_new and said[r.i] is null order by r.i
                on conflict do nothing returning name)
            select array_agg(case when said[r.i] is null and r.is_new and made.name is null then 'changed' else said[r.i] end
                order by r.i)
            into said
            from unnest(my_name, my_new) with ordinality r (name, is_new, i) left join made on made.name = r.name;
        end if;
        if cardinality(array_remove(my_holder, null)) > 0 then
            -- A thread has no time to expire at before its first commit.
            with held as (
                update {s}.threads t set token = nextval('{s}.tokens'), holder = r.holder,
                    leased_until = clock_timestamp() + r.lasts * interval '1 millisecond', time_to_live = null, expires = null
                from unnest(keys, my_holder, my_lasts) with ordinality r (key, holder, lasts, i)
                where t.key = r.key and r.holder is not null and said[r.i] is null
                returning r.i, t.token),
            made as (
                insert into {s}.threads (name, token, holder, leased_until)
                select r.name, nextval('{s}.tokens'), r.holder, clock_timestamp() + r.lasts * interval '1 millisecond'
                from unnest(my_name, keys, my_holder, my_lasts) with ordinality r (name, key, holder, lasts, i)
                where r.key is null and r.holder is not null and said[r.i] is null order by r.i
                on conflict do nothing returning name, key, token)
            select array_agg(coalesce(held.token, made.token) order by r.i), array_agg(coalesce(r.key, made.key) order by r.i)
            into tokens, keys
            from unnest(my_name, keys) with ordinality r (name, key, i)
            left join held on held.i = r.i left join made on made.name = r.name;
            perform 1 from unnest(my_holder, tokens, said) r (holder, token, said)
            where r.holder is not null and r.token is null and r.said is null;
            if found then
                -- Another process created the thread in the meantime, which undoes all of this.
                raise exception 'a thread was claimed by two at once' using errcode = 'serialization_failure';
            end if;
        end if;
        if cardinality(c_id) > 0 then
            insert into {s}.checkpoints (thread, namespace, id, body)
            select keys[r.item], r.namespace, r.id, r.body from unnest(c_item, c_namespace, c_id, c_body) r (item, namespace, id, body)
            where said[r.item] is null
            on conflict (thread, namespace, id) do update set body = excluded.body;
        end if;
        if cardinality(p_version) > 0 then
            insert into {s}.pieces (thread, namespace, channel, version, base, value)
            select keys[r.item], r.namespace, r.channel, r.version, r.base, r.value
            from unnest(p_item, p_namespace, p_channel, p_version, p_base, p_value) r (item, namespace, channel, version, base, value)
            where said[r.item] is null
            on conflict (thread, namespace, channel, version) do update set base = excluded.base, value = excluded.value;
        end if;
        if cardinality(w_slot) > 0 then
            insert into {s}.writes as old (thread, namespace, checkpoint, task, slot, path, channel, value)
            select keys[r.item], r.namespace, r.checkpoint, r.task, r.slot, r.path, r.channel, r.value
            from unnest(w_item, w_namespace, w_checkpoint, w_task, w_slot, w_path, w_channel, w_value)
                r (item, namespace, checkpoint, task, slot, path, channel, value)
            where said[r.item] is null
            on conflict (thread, namespace, checkpoint, task, slot)
            do update set path = excluded.path, channel = excluded.channel, value = excluded.value where old.slot < 0;
        end if;
        if lives then
            update {s}.threads t set expires = clock_timestamp() + t.time_to_live * interval '1 millisecond'
            from (select distinct i from unnest(c_item || p_item || w_item) i) r
            where t.key = keys[r.i] and said[r.i] is null and t.time_to_live is not null;
        end if;
        if k_kind is not null and said[1] is null then
            update {s}.documents set revision = revision + 1, body = k_body where kind = k_kind and id = k_id;
        end if;
        if cardinality(d_id) > 0 then
            insert into {s}.documents (kind, id, revision, body)
            select r.kind, r.id, 1, r.body from unnest(d_item, d_kind, d_id, d_body) r (item, kind, id, body)
            where said[r.item] is null order by r.kind, r.id on conflict do nothing;
        end if;
        if cardinality(r_id) > 0 then
            insert into {s}.runs (id, thread, number, status, ended, body)
            select r.id, my_name[r.item], r.number, r.status, r.ended, r.body
            from unnest(r_item, r_id, r_number, r_status, r_ended, r_body) r (item, id, number, status, ended, body)
            where said[r.item] is null
            on conflict (id) do update set status = excluded.status, ended = excluded.ended, body = excluded.body;
        end if;
        if cardinality(r_gone) > 0 and said[1] is null then
            delete from {s}.runs where id = any(r_gone);
        end if;
        if cardinality(e_number) > 0 then
            insert into {s}.events (thread, at, number, run, bytes, body)
            select my_name[r.item], r.at, r.number, r.run, r.bytes, r.body
            from unnest(e_item, e_at, e_number, e_run, e_bytes, e_body) r (item, at, number, run, bytes, body)
            where said[r.item] is null;
        end if;
        if false = any(my_new) then
            update {s}.run_threads t set ready = r.ready, graph = r.graph, expires = r.expires, op = r.op, body = r.body,
                vals = coalesce(r.vals, t.vals)
            from unnest(my_name, my_new, my_ready, my_graph, my_expires, my_op, my_body, my_vals)
                with ordinality r (name, is_new, ready, graph, expires, op, body, vals, i)
            where t.name = r.name and not r.is_new and said[r.i] is null;
        end if;
        if true = any(my_ends) then
            update {s}.threads t set holder = null, leased_until = null
            from unnest(keys, my_token, my_ends) with ordinality r (key, token, ends, i)
            where t.key = r.key and t.token = r.token and r.ends and said[r.i] is null;
        end if;
    end $$;
";
