//! Stored values of every form are read as from the memory saver: random chains, forks, prunes and copies.

mod kit;

use hier_core::checkpoint::{
    Checkpoint, Checkpointer, Claim, Lease, ListQuery, MemorySaver, Prune, Saved, Strategy as Kept, WriteRecord,
};
use hier_sqlite::{Sqlite, SqliteOptions};
use proptest::prelude::*;

const CHANNELS: usize = 3;

#[derive(Clone, Debug)]
enum Step {
    /// A checkpoint after the one of this number, which brings these.
    Checkpoint { after: usize, changes: Vec<(usize, bool, Vec<u8>)> },
    /// The write of a task at the checkpoint of this number.
    Write { at: usize, slot: i32, value: Vec<u8> },
    /// Only this many stay.
    Prune(usize),
    /// The thread is copied, deleted, and copied back.
    ThereAndBack,
}

fn step() -> impl Strategy<Value = Step> {
    let bytes = prop::collection::vec(any::<u8>(), 0..40).prop_flat_map(|bytes| {
        // Some that are worth compressing.
        prop_oneof![Just(bytes.clone()), Just(bytes.repeat(20))]
    });
    let change = (0..CHANNELS, any::<bool>(), bytes.clone());
    let changes = prop::collection::vec(change, 0..3);
    prop_oneof![
        8 => (any::<usize>(), changes).prop_map(|(after, changes)| Step::Checkpoint { after, changes }),
        3 => (any::<usize>(), -4..4_i32, bytes).prop_map(|(at, slot, value)| Step::Write { at, slot, value }),
        1 => (1..6_usize).prop_map(Step::Prune),
        1 => Just(Step::ThereAndBack),
    ]
}

/// Mostly the newest, sometimes one further back.
fn pick(made: &[Checkpoint], number: usize) -> Option<&Checkpoint> {
    let back = if number.is_multiple_of(3) { number / 3 % made.len().max(1) } else { 0 };
    made.len().checked_sub(back + 1).map(|place| &made[place])
}

async fn everything(saver: &impl Checkpointer) -> Vec<Saved> {
    let mut all = Vec::new();
    for listed in saver.list(ListQuery::thread("t")).await.expect("a list") {
        let found = saver.get("t", "", Some(listed.checkpoint.id)).await.expect("a checkpoint");
        let found = found.expect("one that is listed");
        assert_eq!(found.checkpoint, listed.checkpoint);
        all.push(found);
    }
    all
}

async fn claim(saver: &impl Checkpointer) -> Lease {
    saver.acquire("t", Claim::default()).await.expect("the thread")
}

async fn replay(
    steps: &[Step],
    saver: &impl Checkpointer,
    records: &mut Vec<WriteRecord>,
    is_first: bool,
) -> Vec<Saved> {
    let mut made: Vec<Checkpoint> = Vec::new();
    let mut given = std::mem::take(records).into_iter();
    let mut lease = claim(saver).await;
    for step in steps {
        match step {
            Step::Checkpoint { after, changes } => {
                let (checkpoint, record) = if is_first {
                    kit::next(pick(&made, *after), changes, CHANNELS)
                } else {
                    let Some(record @ WriteRecord::Checkpoint { .. }) = given.next() else {
                        panic!("as many as before")
                    };
                    let WriteRecord::Checkpoint { checkpoint, .. } = &record else { unreachable!() };
                    (checkpoint.as_ref().clone(), record)
                };
                made.push(checkpoint);
                records.push(record.clone());
                saver.commit(&lease, vec![record].into()).await.expect("a commit");
            }
            Step::Write { at, slot, value } => {
                if let Some(checkpoint) = pick(&made, *at) {
                    saver.commit(&lease, vec![kit::write(checkpoint.id, *slot, value)].into()).await.expect("a commit");
                }
            }
            Step::Prune(count) => {
                let prune = Prune { strategy: Kept::Keep(*count), ..Prune::default() };
                saver.admin().unwrap().prune(prune).await.expect("a prune");
                let keep = made.len().saturating_sub(*count);
                made.drain(..keep);
            }
            Step::ThereAndBack => {
                saver.admin().unwrap().copy_thread("t", "elsewhere").await.expect("a copy");
                saver.delete_thread("t").await.expect("a deletion");
                saver.admin().unwrap().copy_thread("elsewhere", "t").await.expect("a copy back");
                saver.delete_thread("elsewhere").await.expect("a deletion");
                lease = claim(saver).await;
            }
        }
    }
    everything(saver).await
}

fn forms() -> Vec<SqliteOptions> {
    #[cfg_attr(not(feature = "encryption"), allow(unused_mut))]
    let mut forms = vec![Sqlite::options()];
    #[cfg(feature = "compression")]
    forms.push(Sqlite::options().compress());
    #[cfg(feature = "encryption")]
    forms.push(Sqlite::options().encrypt(&hier_sqlite::Key::new([3; 32])));
    #[cfg(all(feature = "compression", feature = "encryption"))]
    forms.push(Sqlite::options().compress().encrypt(&hier_sqlite::Key::new([4; 32])));
    forms
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn every_form_reads_the_same(steps in prop::collection::vec(step(), 1..40)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let mut records = Vec::new();
            let wanted = replay(&steps, &MemorySaver::new(), &mut records, true).await;
            for saved in &wanted {
                prop_assert!(saved.values.iter().all(|(_, chain)| chain.full.is_some()), "{saved:?}");
            }
            for options in forms() {
                let saver = options.in_memory().await.expect("a saver");
                let found = replay(&steps, &saver, &mut records, false).await;
                prop_assert_eq!(&found, &wanted);
            }
            Ok(())
        })?;
    }
}
