//! Functions that read several threads at once, before changes of their runs or before their runs continue.

pub(super) const READS: &str = r"
    -- The parts of the chains that lead to these versions of these channels, the latest first. Chains lead backwards, so a base that is not
    -- older than its version is damage and ends the chain. The limits make each step a search by the whole key. Planned once for a
    -- connection: by default the server plans each call, which takes five times as long as the call.
    create function {s}.chains(my_key bigint, my_namespace text, channels text[], versions uuid[])
    returns table (place bigint, version uuid, base uuid, value bytea) language plpgsql stable
        set plan_cache_mode = force_generic_plan
    as $$
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

    -- The state that a change of each thread's runs starts from, at one moment: the thread, its runs that have not ended, and, where the
    -- caller names a new run, a number and whatever exists under its id. Takes no locks.
    create function {s}.runs_of_several(my_name text[], my_run uuid[])
    returns table (place bigint, body bytea, op uuid, now bigint, ids uuid[], bodies bytea[], number bigint, there bytea)
    language plpgsql
        set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
    as $$
    begin
        return query
        select r.i, t.body, t.op, (extract(epoch from clock_timestamp()) * 1000000)::bigint, l.ids, l.bodies,
            case when r.run is not null then nextval('{s}.run_numbers') end, n.body
        from unnest(my_name, my_run) with ordinality r (name, run, i)
        left join {s}.run_threads t on t.name = r.name
        left join lateral (
            select array_agg(x.id order by x.number) as ids, array_agg(x.body order by x.number) as bodies
            -- Found by the index of live runs, which are few, and then sorted.
            from (select * from {s}.runs y where y.thread = r.name and y.ended is null offset 0) x) l on true
        left join {s}.runs n on n.id = r.run;
    end $$;

    -- Checkpoints, the latest where no id is given, each with its writes and the requested values that exist. `place` is the place in the
    -- lists that begin with `my_`; missing checkpoints have no row. The lists that begin with `k_` name the values: `v_place` is the place in
    -- them, and a value with a `v_base` holds only what was added to that base.
    create function {s}.saved_of_several(
        my_name text[], my_namespace text[], my_id uuid[], k_item int4[], k_place int4[], k_channel text[], k_version uuid[]
    )
    returns table (
        place bigint, key bigint, id uuid, body bytea,
        w_task uuid[], w_slot int4[], w_path text[], w_channel text[], w_value bytea[],
        v_place int4[], v_version uuid[], v_base uuid[], v_value bytea[]
    ) language plpgsql stable
        set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
    as $$
    begin
        return query
        select r.i, t.key, c.id, c.body, w.tasks, w.slots, w.paths, w.channels, w.vals, v.places, v.versions, v.bases, v.vals
        from unnest(my_name, my_namespace, my_id) with ordinality r (name, namespace, id, i)
        join {s}.threads t on t.name = r.name
        cross join lateral (
            select x.id, x.body from {s}.checkpoints x
            where x.thread = t.key and x.namespace = r.namespace
                and x.id <= coalesce(r.id, 'ffffffff-ffff-ffff-ffff-ffffffffffff'::uuid)
            order by x.id desc limit 1) c
        cross join lateral (
            select array_agg(x.task) as tasks, array_agg(x.slot) as slots, array_agg(x.path) as paths,
                array_agg(x.channel) as channels, array_agg(x.value) as vals
            from {s}.writes x where x.thread = t.key and x.namespace = r.namespace and x.checkpoint = c.id) w
        cross join lateral (
            select array_agg(k.place) as places, array_agg(k.version) as versions, array_agg(p.base) as bases,
                array_agg(p.value) as vals
            from unnest(k_item, k_place, k_channel, k_version) k (item, place, channel, version)
            cross join lateral (
                select x.base, x.value from {s}.pieces x where x.thread = t.key and x.namespace = r.namespace
                    and x.channel = k.channel and x.version = k.version limit 1) p
            where k.item = r.i) v
        where r.id is null or c.id = r.id;
    end $$;
";
