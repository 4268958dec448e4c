//! Long threads, and checkpoints with large values.
//!
//! Needs a server: `scripts/postgres.sh test -p hier-postgres`.

mod kit;

use hier_core::checkpoint::{Checkpointer, Claim};
use hier_postgres::Postgres;
use kit::proxied::Proxied;

/// The server cannot return all writes of the checkpoint in one row, because together they exceed 1 GB. This test replaces
/// the function by one that fails like this.
#[tokio::test]
#[ignore = "needs Postgres: run ./scripts/test.sh"]
async fn checkpoint_is_read_if_its_writes_exceed_a_row() {
    let proxied = Proxied::open("large_writes").await;
    let store = &proxied.store;
    let lease = store.acquire("t", Claim::default()).await.expect("the thread");
    let (first, record) = kit::next(None, &[(0, false, vec![1])], 2);
    let (last, next) = kit::next(Some(&first), &[(0, true, vec![2]), (1, false, vec![3])], 2);
    let writes = [kit::write(first.id, 0, &[4]), kit::write(last.id, 0, &[5]), kit::write(last.id, 1, &[6])];
    store.commit(&lease, [record, next].into_iter().chain(writes).collect::<Vec<_>>().into()).await.expect("a commit");
    let [latest, earlier] = [None, Some(first.id)];
    let before =
        [store.get("t", "", latest).await.expect("a read"), store.get("t", "", earlier).await.expect("a read")];
    let fails = "create or replace function {s}.saved_of_several(
            my_name text[], my_namespace text[], my_id uuid[], k_item int4[], k_place int4[], k_channel text[],
            k_version uuid[])
        returns table (
            place bigint, key bigint, id uuid, body bytea,
            w_task uuid[], w_slot int4[], w_path text[], w_channel text[], w_value bytea[],
            v_place int4[], v_version uuid[], v_base uuid[], v_value bytea[]
        ) language plpgsql as $$ begin
            raise 'array size exceeds the maximum allowed' using errcode = 'program_limit_exceeded';
        end $$";
    proxied.run(fails).await;
    let other = Postgres::options().schema(proxied.schema).connect(&proxied.url).await.expect("the server");
    for store in [store, &other] {
        let after =
            [store.get("t", "", latest).await.expect("a read"), store.get("t", "", earlier).await.expect("a read")];
        assert_eq!(after, before);
        assert_eq!(store.get("t", "", Some(kit::new_id())).await.expect("a read"), None);
        assert_eq!(store.get("other", "", None).await.expect("a read"), None);
    }
}
