//! Functions that store the records of one thread.

/// `store`.
pub(super) const COMMITS: &str = "
    -- Stores rows if the thread is held with this token and the values exist that the rows build on. A base without a channel is a
    -- checkpoint of the namespace: if it exists, so does everything that it builds on. Takes a key instead of a name for a thread that has
    -- never been claimed. Returns null if the thread is not held, an empty list if all is stored, else the channel and the version of a
    -- missing value. A function, because its statements are planned once for a connection.
    create function {s}.store(
        my_name text, my_token bigint, my_key bigint,
        b_namespace text[], b_channel text[], b_version uuid[],
        c_namespace text[], c_id uuid[], c_body bytea[],
        p_namespace text[], p_channel text[], p_version uuid[], p_base uuid[], p_value bytea[],
        w_namespace text[], w_checkpoint uuid[], w_task uuid[], w_slot int4[], w_path text[], w_channel text[],
        w_value bytea[]
    ) returns text[] language plpgsql as $$
    declare
        lives bigint;
        missing text[];
    begin
        if my_name is not null then
            -- A claim waits for this commit, and this commit looks again if it had to wait for a claim. Until the end nothing of the thread
            -- can be deleted.
            select key, time_to_live into my_key, lives from {s}.threads
            where name = my_name and token = my_token for no key update;
            if not found then
                return null;
            end if;
        end if;
        if cardinality(b_version) > 0 then
            select array[r.channel, r.version::text] into missing
            from unnest(b_namespace, b_channel, b_version) r (namespace, channel, version)
            where case when r.channel is null then
                not exists (
                    select 1 from {s}.checkpoints c where c.thread = my_key and c.namespace = r.namespace and c.id = r.version)
            else
                not exists (
                    select 1 from {s}.pieces p where p.thread = my_key and p.namespace = r.namespace
                        and p.channel = r.channel and p.version = r.version)
            end
            limit 1;
            if found then
                return missing;
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
        return '{}';
    end $$;
";
