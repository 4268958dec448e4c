//! The function that stores the records of one thread.

pub(super) const COMMITS: &str = "
    -- Stores rows if the thread is held with this token and the values exist that the rows build on. Without a name, `my_token` is the key
    -- of an unclaimed or locked thread. Returns null if the thread is not held, an empty list if all is stored, else the channel
    -- and the version of a missing value. A function, because its statements are planned once for a connection.
    create function {s}.store(
        my_name text, my_token bigint, bases {s}.base_row[], checkpoints {s}.checkpoint_row[], pieces {s}.piece_row[],
        writes {s}.write_row[], bodies bytea[]
    ) returns text[] language plpgsql as $$
    declare
        my_key bigint := my_token;
        lives bigint;
        base {s}.base_row;
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
        -- Row by row. The server would plan a query for all rows again in each call, which takes as long as the rest of the call.
        foreach base in array bases loop
            if base.channel is null then
                perform from {s}.checkpoints c
                where c.thread = my_key and c.namespace = base.namespace and c.id = base.version;
            else
                perform from {s}.pieces p
                where p.thread = my_key and p.namespace = base.namespace and p.channel = base.channel
                    and p.version = base.version;
            end if;
            if not found then
                return array[base.channel, base.version::text];
            end if;
        end loop;
        if cardinality(checkpoints) > 0 then
            insert into {s}.checkpoints (thread, namespace, id, body)
            select my_key, r.namespace, r.id, bodies[r.body] from unnest(checkpoints) r
            on conflict (thread, namespace, id) do update set body = excluded.body;
        end if;
        if cardinality(pieces) > 0 then
            insert into {s}.pieces (thread, namespace, channel, version, base, value)
            select my_key, r.namespace, r.channel, r.version, r.base, bodies[r.value] from unnest(pieces) r
            on conflict (thread, namespace, channel, version)
            do update set base = excluded.base, value = excluded.value;
        end if;
        if cardinality(writes) > 0 then
            insert into {s}.writes as old (thread, namespace, checkpoint, task, slot, path, channel, value)
            select my_key, r.namespace, r.checkpoint, r.task, r.slot, r.path, r.channel, bodies[r.value]
            from unnest(writes) r
            on conflict (thread, namespace, checkpoint, task, slot)
            do update set path = excluded.path, channel = excluded.channel, value = excluded.value where old.slot < 0;
        end if;
        if lives is not null then
            update {s}.threads set expires = clock_timestamp() + lives * interval '1 millisecond' where key = my_key;
        end if;
        return '{}';
    end $$;
";
