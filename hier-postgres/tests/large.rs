//! Long threads, and checkpoints with large values.
//!
//! Needs a server: `scripts/postgres.sh test -p hier-postgres`.

mod kit;

use std::sync::Arc;

use hier_core::checkpoint::{Checkpointer, Claim, Prune, Strategy, ThreadAdmin, WriteRecord};
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
    let fails = |code| {
        format!(
            "create or replace function {{s}}.saved_of_several(
            my_name text[], my_namespace text[], my_id uuid[], k_item int4[], k_place int4[], k_channel text[],
            k_version uuid[])
        returns table (
            place bigint, key bigint, id uuid, body bytea,
            w_task uuid[], w_slot int4[], w_path text[], w_channel text[], w_value bytea[],
            v_place int4[], v_version uuid[], v_base uuid[], v_value bytea[]
        ) language plpgsql as $$ begin
            raise 'the row is too large' using errcode = '{code}';
        end $$"
        )
    };
    let other = Postgres::options().schema(proxied.schema).connect(&proxied.url).await.expect("the server");
    // The server has one code for arrays and another one for rows that exceed its limit.
    for (code, store) in [("54000", store), ("XX000", store), ("54000", &other), ("XX000", &other)] {
        proxied.run(&fails(code)).await;
        let after =
            [store.get("t", "", latest).await.expect("a read"), store.get("t", "", earlier).await.expect("a read")];
        assert_eq!(after, before);
        assert_eq!(store.get("t", "", Some(kit::new_id())).await.expect("a read"), None);
        assert_eq!(store.get("other", "", None).await.expect("a read"), None);
    }
}

/// A thread has a namespace for each call of a subgraph.
#[tokio::test]
#[ignore = "needs Postgres: run ./scripts/test.sh"]
async fn prune_of_many_namespaces_takes_few_round_trips() {
    const CALLS: usize = 50;
    let proxied = Proxied::open("many_namespaces").await;
    let store = &proxied.store;
    let lease = store.acquire("t", Claim::default()).await.expect("the thread");
    let (mut last, mut records) = (None, Vec::new());
    for call in 0..CALLS {
        let (root, record) = kit::next(last.as_ref(), &[(0, false, vec![1])], 1);
        let (_, mut inner) = kit::next(None, &[(0, false, vec![2])], 1);
        if let WriteRecord::Checkpoint { namespace, checkpoint, .. } = &mut inner {
            *namespace = format!("work:{call}").into();
            checkpoint.parents = Arc::new([(String::new(), root.id)].into());
        }
        records.extend([record, inner]);
        last = Some(root);
    }
    store.commit(&lease, records.into()).await.expect("a commit");
    store.release(&lease).await.expect("the lease");
    proxied.road.round_trips();
    let prune = Prune { threads: Some(vec!["t".to_owned()]), strategy: Strategy::KeepLatest, older_than: None };
    // The latest checkpoint of the root and of its call remain.
    assert_eq!(store.prune(prune).await.expect("a prune"), 2 * (CALLS as u64 - 1));
    let count = proxied.road.round_trips();
    assert!(count < 25, "{count} round trips");
    let left = store.list(hier_core::checkpoint::ListQuery::default()).await.expect("a list");
    assert_eq!(left.len(), 2);
    assert!(store.get("t", &format!("work:{}", CALLS - 1), None).await.expect("a read").is_some());
}
