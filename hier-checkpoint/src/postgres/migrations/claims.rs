//! Claims of threads and of runs, and changes of the runs of one thread.

/// `claim`, `runs_of`, `waiting` and `change_runs`.
pub(super) const CLAIMS: &str = "
    -- Claims a thread, and says by which token. Nothing if somebody else holds it and the claim is not to take it over. A thread has no
    -- time to expire at before its first commit.
    create function {s}.claim(my_name text, my_holder text, my_lasts bigint, my_lives bigint, takes_over boolean)
    returns bigint language plpgsql as $$
    declare
        claimed bigint;
    begin
        insert into {s}.threads as old (name, token, holder, leased_until, time_to_live)
        values (my_name, nextval('{s}.tokens'), my_holder, clock_timestamp() + my_lasts * interval '1 millisecond', my_lives)
        on conflict (name) do update set token = nextval('{s}.tokens'), holder = excluded.holder,
            leased_until = clock_timestamp() + my_lasts * interval '1 millisecond', time_to_live = excluded.time_to_live,
            expires = case when exists (select 1 from {s}.checkpoints where thread = old.key)
                then clock_timestamp() + my_lives * interval '1 millisecond' end
        where takes_over or old.holder is null or old.holder = excluded.holder or old.leased_until <= clock_timestamp()
        returning token into claimed;
        return claimed;
    end $$;

    -- What a change of a thread's runs begins with, as it was at one moment: the thread, its runs that have not ended, a number and
    -- whatever there is under the id of a new run, if one is asked for. Nobody is kept from changing the thread meanwhile.
    create function {s}.runs_of(
        my_name text, my_run uuid,
        out body bytea, out op uuid, out now bigint, out ids uuid[], out bodies bytea[], out number bigint, out there bytea
    ) language plpgsql as $$
    begin
        select t.body, t.op, l.ids, l.bodies, n.body into body, op, ids, bodies, there
        from (select 1) one
        left join {s}.run_threads t on t.name = my_name
        left join lateral (
            select array_agg(r.id order by r.number) as ids, array_agg(r.body order by r.number) as bodies
            from {s}.runs r where r.thread = my_name and r.ended is null) l on true
        left join {s}.runs n on n.id = my_run;
        if my_run is not null then
            number := nextval('{s}.run_numbers');
        end if;
        now := (extract(epoch from clock_timestamp()) * 1000000)::bigint;
    end $$;

    -- The threads that a worker with these graphs may look at, those that have waited longest first.
    create function {s}.waiting(graphs text[]) returns text[] language plpgsql as $$
    begin
        return array(
            select r.name from {s}.run_threads r
            where r.ready <= (extract(epoch from clock_timestamp()) * 1000000)::bigint
                and (graphs is null or r.graph = any(graphs))
                and not exists (select 1 from {s}.threads t where t.name = r.name and t.holder is not null
                    and t.leased_until > clock_timestamp())
            order by r.ready, r.name limit 100);
    end $$;

    -- Stores a change of a thread's runs with everything beside it, if nobody has changed them since they were read (then `op` was
    -- `seen`). Says `changed` if somebody has; `stale` if the document that it depends on was changed; `superseded` if the thread is not
    -- held with this token, `taken` if it cannot be claimed; `lacks`, channel and version if a value is missing that the records build on:
    -- nothing has happened then. Else `done`, and the token of the claim if one was asked for.
    create function {s}.change_runs(
        my_name text, seen uuid, is_new boolean, my_op uuid, my_ready bigint, my_graph text, my_expires bigint, my_body bytea,
        my_vals bytea, my_token bigint, ends boolean, my_holder text, my_lasts bigint,
        k_kind text, k_id text, k_revision bigint, k_body bytea,
        r_id uuid[], r_number bigint[], r_status text[], r_ended bigint[], r_body bytea[], r_gone uuid[],
        e_at bigint, e_number bigint[], e_run uuid[], e_bytes bigint[], e_body bytea[],
        d_kind text[], d_id text[], d_body bytea[],
        b_namespace text[], b_channel text[], b_version uuid[],
        c_namespace text[], c_id uuid[], c_body bytea[],
        p_namespace text[], p_channel text[], p_version uuid[], p_base uuid[], p_value bytea[],
        w_namespace text[], w_checkpoint uuid[], w_task uuid[], w_slot int4[], w_path text[], w_channel text[],
        w_value bytea[]
    ) returns text[] language plpgsql as $$
    declare
        claimed bigint;
        missing text[];
    begin
        if k_kind is not null then
            perform 1 from {s}.documents where kind = k_kind and id = k_id and revision = k_revision for update;
            if not found then
                return '{stale}';
            end if;
        end if;
        if is_new then
            insert into {s}.run_threads (name, op, body) values (my_name, my_op, my_body) on conflict do nothing;
        else
            perform 1 from {s}.run_threads where name = my_name and op is not distinct from seen for update;
        end if;
        if not found then
            return '{changed}';
        end if;
        if my_token is not null then
            perform 1 from {s}.threads where name = my_name and token = my_token and holder is not null for no key update;
            if not found then
                return '{superseded}';
            end if;
        end if;
        if my_holder is not null then
            claimed := {s}.claim(my_name, my_holder, my_lasts, null, false);
            if claimed is null then
                return '{taken}';
            end if;
        end if;
        if cardinality(c_id) + cardinality(p_version) + cardinality(w_slot) > 0 then
            missing := {s}.store(my_name, my_token, null, b_namespace, b_channel, b_version, c_namespace, c_id, c_body,
                p_namespace, p_channel, p_version, p_base, p_value, w_namespace, w_checkpoint, w_task, w_slot, w_path,
                w_channel, w_value);
            if missing is null then
                return '{superseded}';
            elsif cardinality(missing) > 0 then
                return array['lacks'] || missing;
            end if;
        end if;
        if k_kind is not null then
            update {s}.documents set revision = revision + 1, body = k_body where kind = k_kind and id = k_id;
        end if;
        if cardinality(d_id) > 0 then
            insert into {s}.documents (kind, id, revision, body)
            select r.kind, r.id, 1, r.body from unnest(d_kind, d_id, d_body) r (kind, id, body) on conflict do nothing;
        end if;
        if cardinality(r_id) > 0 then
            insert into {s}.runs (id, thread, number, status, ended, body)
            select r.id, my_name, r.number, r.status, r.ended, r.body
            from unnest(r_id, r_number, r_status, r_ended, r_body) r (id, number, status, ended, body)
            on conflict (id) do update set status = excluded.status, ended = excluded.ended, body = excluded.body;
        end if;
        if cardinality(r_gone) > 0 then
            delete from {s}.runs where id = any(r_gone);
        end if;
        if cardinality(e_number) > 0 then
            insert into {s}.events (thread, at, number, run, bytes, body)
            select my_name, e_at, r.* from unnest(e_number, e_run, e_bytes, e_body) r;
        end if;
        update {s}.run_threads set ready = my_ready, graph = my_graph, expires = my_expires, op = my_op, body = my_body,
            vals = coalesce(my_vals, vals) where name = my_name;
        if ends then
            update {s}.threads set holder = null, leased_until = null where name = my_name and token = my_token;
        end if;
        return array['done', claimed::text];
    end $$;
";
