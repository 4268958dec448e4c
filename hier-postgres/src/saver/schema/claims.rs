//! Functions that claim threads.

pub(super) const CLAIMS: &str = "
    -- Claims a thread and returns its token. Returns null if another holder has a valid lease and the claim does not take over. A thread
    -- has no expiry before its first commit.
    create function {s}.claim(my_name text, my_holder text, my_lasts bigint, my_lives bigint, keeps boolean, takes_over boolean)
    returns bigint language plpgsql as $$
    declare
        claimed bigint;
    begin
        insert into {s}.threads as old (name, token, holder, leased_until, time_to_live)
        values (my_name, nextval('{s}.tokens'), my_holder, clock_timestamp() + my_lasts * interval '1 millisecond',
            case when not keeps then my_lives end)
        on conflict (name) do update set token = nextval('{s}.tokens'), holder = excluded.holder,
            leased_until = clock_timestamp() + my_lasts * interval '1 millisecond',
            time_to_live = case when keeps then old.time_to_live else my_lives end,
            expires = case when exists (select 1 from {s}.checkpoints where thread = old.key) then clock_timestamp()
                + (case when keeps then old.time_to_live else my_lives end) * interval '1 millisecond' end
        where takes_over or old.holder is null or old.holder = excluded.holder or old.leased_until <= clock_timestamp()
        returning token into claimed;
        return claimed;
    end $$;

    -- The threads that a worker with these graphs may claim, without those named, the longest waiting first.
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
";
