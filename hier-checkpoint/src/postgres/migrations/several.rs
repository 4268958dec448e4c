//! What is read for several at once: before a change of the runs of a thread, and before a run of it goes on.

/// `runs_of_several` and `saved_of_several`.
pub(super) const SEVERAL: &str = r"
    -- As `runs_of`, which stays for processes of an older version, for several threads, each with a run that may be there or none.
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
            -- Found as those that have not ended, of which there are few, and then sorted.
            from (select * from {s}.runs y where y.thread = r.name and y.ended is null offset 0) x) l on true
        left join {s}.runs n on n.id = r.run;
    end $$;

    -- As `saved`, which stays for processes of an older version, for several: `place` is that in the lists that begin with `my_`, and those
    -- that are not there are left out. The lists that begin with `k_` say of which value is asked for which, and as what.
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
