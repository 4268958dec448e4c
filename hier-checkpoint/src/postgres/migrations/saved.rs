//! A checkpoint with all that it has, read by one statement.

/// `saved`.
pub(super) const SAVED: &str = r"
    -- A checkpoint, the latest if none is named, with its writes, and of these channels the values of these versions as far as they are
    -- there: whoever asks says which it may have. `v_place` is the place in the list, and `v_base` says that a value is only what was added.
    create function {s}.saved(
        my_name text, my_namespace text, my_id uuid, k_channel text[], k_version uuid[],
        out o_key bigint, out o_id uuid, out o_body bytea,
        out w_task uuid[], out w_slot int4[], out w_path text[], out w_channel text[], out w_value bytea[],
        out v_place int8[], out v_base uuid[], out v_value bytea[]
    ) language plpgsql stable
        set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
    as $$
    begin
        select t.key into o_key from {s}.threads t where t.name = my_name;
        if my_id is null then
            select c.id, c.body into o_id, o_body from {s}.checkpoints c
            where c.thread = o_key and c.namespace = my_namespace order by c.id desc limit 1;
        else
            select c.id, c.body into o_id, o_body from {s}.checkpoints c
            where c.thread = o_key and c.namespace = my_namespace and c.id = my_id;
        end if;
        if o_id is null then
            return;
        end if;
        select array_agg(w.task), array_agg(w.slot), array_agg(w.path), array_agg(w.channel), array_agg(w.value)
        into w_task, w_slot, w_path, w_channel, w_value
        from {s}.writes w where w.thread = o_key and w.namespace = my_namespace and w.checkpoint = o_id;
        if cardinality(k_version) > 0 then
            select array_agg(r.i), array_agg(p.base), array_agg(p.value) into v_place, v_base, v_value
            from unnest(k_channel, k_version) with ordinality r (channel, version, i)
            cross join lateral (
                select x.base, x.value from {s}.pieces x where x.thread = o_key and x.namespace = my_namespace
                    and x.channel = r.channel and x.version = r.version limit 1) p;
        end if;
    end $$;
";
