//! The Postgres saver keeps the contract, and survives failures of the server.
//!
//! Needs a server: `scripts/postgres.sh test -p hier-postgres`.

mod kit;

use hier_core::checkpoint::{
    Checkpointer, Claim, Commit, DueChange, ListQuery, SaverError, SideEffects, ThreadAdmin, WhenRunning, WriteRecord,
};
use hier_core::runs::{Document, EventQuery, LogEvent, NewEvent, NewRun, Request, RunClaim, RunCommit, RunStore};
use hier_postgres::{Postgres, PostgresOptions};
use hier_testkit::checkpoint::{self as suite, Report};
use kit::pooler::pooler;
use kit::server::{Bouncer, Road, Server, server};

/// A schema for each case.
async fn report(schema: &str, url: &str, options: PostgresOptions) -> Report {
    let mut report = Report::default();
    for (number, case) in suite::cases().enumerate() {
        let saver = options.clone().schema(format!("{schema}_{number}")).connect(url).await.expect("a server");
        saver.migrate().await.expect("tables");
        report.results.push((case, case.run(saver).await));
    }
    report
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Postgres: run ./scripts/test.sh"]
async fn backend_keeps_the_contract() {
    let url = server();
    let report = report("plain", &url, Postgres::options()).await;
    assert!(report.passed(), "{report}");
}

/// The real one, in its mode of transactions: nothing may be left behind in a connection.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Postgres: run ./scripts/test.sh"]
async fn saver_behind_pgbouncer_keeps_the_contract() {
    let bouncer = Bouncer::start();
    let report = report("bounced", &bouncer.url, Postgres::options()).await;
    assert!(report.passed(), "{report}");
}

#[cfg(all(feature = "compression", feature = "encryption"))]
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Postgres: run ./scripts/test.sh"]
async fn encrypted_and_compressed_backend_keeps_the_contract() {
    let url = server();
    let options = Postgres::options().compress().encrypt(&hier_postgres::Key::new([7; 32]));
    let report = report("sealed", &url, options).await;
    assert!(report.passed(), "{report}");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Postgres: run ./scripts/test.sh"]
async fn saver_reconnects_after_the_server_was_killed() {
    let server = Server::start();
    let saver = Postgres::connect(&server.url).await.expect("the server");
    saver.migrate().await.expect("tables");
    let lease = saver.acquire("t", Claim::default()).await.expect("the thread");
    let (mut last, mut made) = (None, Vec::new());
    for round in 0..3 {
        let mut waiting = Vec::new();
        for number in 0..40_u8 {
            let (checkpoint, record) = kit::next(last.as_ref(), &[(0, number > 0, vec![round, number])], 1);
            let write = kit::write(checkpoint.id, 0, &[number]);
            waiting.push(saver.commit(&lease, vec![record, write].into()));
            made.push(checkpoint.id);
            last = Some(checkpoint);
            if number == 20 {
                // Some are done, some in flight, and some waiting.
                server.crash();
            }
        }
        server.start_again();
        for commit in waiting {
            commit.await.expect("a commit, at last");
        }
    }
    let listed = saver.list(hier_core::checkpoint::ListQuery::thread("t")).await.expect("a list");
    let stored: Vec<_> = listed.iter().rev().map(|it| it.checkpoint.id).collect();
    assert_eq!(stored, made);
    let latest = saver.get("t", "", None).await.expect("a checkpoint").expect("the latest");
    assert_eq!(latest.values[0].1.deltas.len(), 39);
    saver.renew(&lease).await.expect("the lease, still");
}

/// The server has stored the claim and the answer is lost. The retry must not find its own claim as a conflict.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Postgres: run ./scripts/test.sh"]
async fn claim_whose_answer_was_lost_is_one_claim() {
    let url = server();
    let road = Road::to(&url).await;
    let saver = Postgres::options().schema("lost_answers").connections(1).connect(&road.url).await.expect("the server");
    saver.migrate().await.expect("tables");
    let claim = || Claim { holder: "desk 7".to_owned(), when_running: WhenRunning::Reject, ..Claim::default() };
    road.lose_one_answer();
    let lease = saver.acquire("t", claim()).await.expect("the thread");
    let (_, record) = kit::next(None, &[(0, false, b"value".to_vec())], 1);
    saver.commit(&lease, vec![record].into()).await.expect("a commit");
    let other = saver.acquire("t", claim()).await.expect_err("it is in use, if by the same holder");
    assert!(matches!(&other, SaverError::Busy { holder, .. } if holder == "desk 7"), "{other:?}");
    let threads = saver.threads(None).await.expect("a list");
    assert_eq!(threads[0].holder.as_deref(), Some("desk 7"));
}

/// Something else listens at that port.
#[tokio::test(flavor = "multi_thread")]
async fn silent_peer_times_out() {
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("postgres://u@{}/x", silent.local_addr().expect("an address"));
    let options = Postgres::options().retry_for(std::time::Duration::ZERO);
    let error = options.connect(&url).await.expect_err("no server");
    assert!(matches!(error, SaverError::Database { .. }), "{error:?}");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Postgres: run ./scripts/test.sh"]
async fn connection_errors_omit_the_password() {
    for url in ["postgres://u:sesame@127.0.0.1:1/x", "postgres://u:sesame@127.0.0.1:port/x", "sesame"] {
        let options = Postgres::options().retry_for(std::time::Duration::ZERO);
        let error = options.connect(url).await.expect_err("no server");
        let received = format!("{error} {error:?}");
        assert!(!received.contains("sesame"), "{received}");
    }
    let options = Postgres::options().retry_for(std::time::Duration::ZERO);
    let error = options.connect("postgres://u@127.0.0.1:1/x").await.expect_err("no server");
    assert!(error.to_string().contains("refused"), "{error}");
    let error = Postgres::options().schema("x; drop table y").connect("postgres://u@h/x").await.expect_err("no name");
    assert!(matches!(error, SaverError::Invalid(_)), "{error:?}");
    let url = server();
    let missing = url.replace("/postgres", "/no_such_database");
    let error = Postgres::connect(&missing).await.expect_err("no database");
    assert!(error.to_string().contains("the database does not exist"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Postgres: run ./scripts/test.sh"]
async fn missing_tables_are_reported_and_created_once() {
    let url = server();
    let options = || Postgres::options().schema("made_once");
    let saver = options().connect(&url).await.expect("the server");
    let error = saver.get("t", "", None).await.expect_err("no tables");
    assert!(error.to_string().contains("call `Postgres::migrate`"), "{error}");
    let mut together = Vec::new();
    for _ in 0..8 {
        let other = options().connect(&url).await.expect("the server");
        together.push(tokio::spawn(async move { other.migrate().await }));
    }
    for one in together {
        one.await.expect("no panic").expect("tables");
    }
    assert_eq!(saver.get("t", "", None).await.expect("tables by now"), None);
    let (client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await.expect("the server");
    tokio::spawn(connection);
    client.batch_execute("update made_once.version set version = 99").await.expect("a newer version");
    let error = options().connect(&url).await.expect_err("a newer version");
    assert!(error.to_string().contains("newer version"), "{error}");
}

/// A schema for each case.
async fn runs_report(schema: &str, url: &str, options: PostgresOptions) -> hier_testkit::runs::Report {
    let mut report = hier_testkit::runs::Report::default();
    for (number, case) in hier_testkit::runs::cases().enumerate() {
        let store = options.clone().schema(format!("{schema}_{number}")).connect(url).await.expect("a server");
        store.migrate().await.expect("tables");
        report.results.push((case, case.run(store).await));
    }
    report
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Postgres: run ./scripts/test.sh"]
async fn runs_keep_the_contract() {
    let url = server();
    let report = runs_report("runs", &url, Postgres::options()).await;
    assert!(report.passed(), "{report}");
}

#[cfg(all(feature = "compression", feature = "encryption"))]
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Postgres: run ./scripts/test.sh"]
async fn encrypted_and_compressed_runs_keep_the_contract() {
    let url = server();
    let options = Postgres::options().compress().encrypt(&hier_postgres::Key::new([7; 32]));
    let report = runs_report("sealed_runs", &url, options).await;
    assert!(report.passed(), "{report}");
}

/// A worker in another process is notified of a run before it polls.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Postgres: run ./scripts/test.sh"]
async fn other_processes_are_notified() {
    let url = server();
    let open = || Postgres::options().schema("woken").connect(&url);
    let (here, there) = (open().await.expect("a server"), open().await.expect("a server"));
    here.migrate().await.expect("tables");
    let (mut runs, mut thread) = (here.driver().notifier().runs(), here.driver().notifier().thread("t\\0"));
    // The first may come before the other listens.
    for _ in 0..200 {
        let run = NewRun::new("t\\0", "desk", Request::default()).create_thread();
        there.driver().create_run(run).await.expect("a run");
        let woken = async { tokio::join!(runs.changed(), thread.changed()) };
        if tokio::time::timeout(std::time::Duration::from_millis(100), woken).await.is_ok() {
            return;
        }
    }
    panic!("it was never notified");
}

/// A statement of one connection is unknown to the next, or another client's statement of the same name, which must
/// not run: everything is stored as without a pooler.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Postgres: run ./scripts/test.sh"]
async fn pooler_may_give_each_transaction_another_connection() {
    let url = server();
    for shares_names in [false, true] {
        let pooled = pooler(&url, shares_names).await;
        let options = Postgres::options().schema(format!("pooled_{shares_names}")).connections(1);
        let saver = options.connect(&pooled).await.expect("the server");
        saver.migrate().await.expect("tables");
        let lease = saver.acquire("t", Claim::default()).await.expect("the thread");
        let (mut last, mut made) = (None, Vec::new());
        for number in 0..6 {
            let (checkpoint, record) = kit::next(last.as_ref(), &[(0, number > 0, vec![7, number])], 1);
            saver.commit(&lease, vec![record].into()).await.expect("stored");
            made.insert(0, checkpoint.id);
            last = Some(checkpoint);
        }
        let listed = saver.list(ListQuery::thread("t")).await.expect("a list");
        assert_eq!(listed.iter().map(|it| it.checkpoint.id).collect::<Vec<_>>(), made, "{shares_names}");
        let found = saver.get("t", "", None).await.expect("the thread").expect("a checkpoint");
        assert_eq!(found.values[0].1.deltas.len(), 5, "all parts are there");
        saver.release(&lease).await.expect("released");
    }
}

/// Postgres compresses names, so these have no repetitions. An index entry with the longest has no place on a page.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Postgres: run ./scripts/test.sh"]
async fn names_that_no_index_accepts_are_refused_with_a_fix() {
    let saver = Postgres::options().schema("long_names").connect(&server()).await.expect("a server");
    saver.migrate().await.expect("tables");
    let lease = saver.acquire("t", Claim::default()).await.expect("the thread");
    let long = |bytes: usize| (0..=bytes / 36).map(|_| uuid::Uuid::new_v4().to_string()).collect::<String>();
    let (checkpoint, record) = kit::next(None, &[(0, false, vec![7])], 1);
    let WriteRecord::Checkpoint { pieces, .. } = &record else { unreachable!("it is a checkpoint") };
    let channel = |name: String| {
        let mut checkpoint = checkpoint.clone();
        checkpoint.channels = [name.into()].into();
        WriteRecord::Checkpoint { namespace: "".into(), checkpoint: Box::new(checkpoint), pieces: pieces.clone() }
    };
    let (empty, _) = kit::next(None, &[], 1);
    let namespace = |name: String| WriteRecord::Checkpoint {
        namespace: name.into(),
        checkpoint: Box::new(empty.clone()),
        pieces: Vec::new(),
    };
    let due = DueChange::NoLaterThan { at: std::time::SystemTime::now(), graph: long(4_000).into() };
    for (commit, what) in [
        (Commit::new(vec![channel(long(4_000))]), "the name of a channel, with the namespace of its subgraph, is"),
        (Commit::new(vec![namespace(long(4_000))]), "the namespace of a subgraph is"),
        (Commit::default().also(SideEffects::due(due)), "the name of a graph, with the id of its thread, is"),
        (Commit::new(vec![channel(long(40_000))]), "a name is"),
    ] {
        let refused = saver.commit(&lease, commit).await.expect_err("it is too long");
        let text = refused.to_string();
        let start = format!("{what} too long for an index of Postgres: shorten");
        assert!(matches!(refused, SaverError::Invalid(_)) && text.contains(&start), "{text}");
    }
    let document = Document::new("kind", long(4_000), serde_json::json!(1));
    let text = saver.driver().put_document(document, None).await.expect_err("it is too long").to_string();
    assert!(
        text.contains("the id of a document, with its kind, is too long for an index of Postgres: shorten"),
        "{text}"
    );
    saver.commit(&lease, vec![record].into()).await.expect("others are accepted");
}

/// Other limits of the program have the code of a name that is too long for an index.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Postgres: run ./scripts/test.sh"]
async fn error_of_another_limit_reports_no_name() {
    let url = server();
    let saver = Postgres::options().schema("limits").connect(&url).await.expect("a server");
    saver.migrate().await.expect("tables");
    let (client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await.expect("the server");
    tokio::spawn(connection);
    let lease = saver.acquire("t", Claim::default()).await.expect("the thread");
    let (_, record) = kit::next(None, &[(0, false, vec![7])], 1);
    for place in ["", ", table = 'pieces'"] {
        let limit = format!(
            "create or replace function limits.refuse() returns trigger language plpgsql as
             $$ begin raise exception 'the row is too big' using errcode = 'program_limit_exceeded'{place}; end $$;
             create or replace trigger refuse before insert on limits.pieces execute function limits.refuse()"
        );
        client.batch_execute(&limit).await.expect("a trigger");
        let refused = saver.commit(&lease, vec![record.clone()].into()).await.expect_err("it is refused");
        let text = refused.to_string();
        assert!(!matches!(refused, SaverError::Invalid(_)) && !text.contains("too long"), "{text}");
        let cause = std::error::Error::source(&refused).map(ToString::to_string);
        assert!(cause.is_some_and(|cause| cause.contains("the row is too big")), "{refused:?}");
    }
}

/// A read could also run another client's statement of the same name, which finds nothing. Existing rows are found, whichever
/// of them a process prepares first.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Postgres: run ./scripts/test.sh"]
async fn existing_data_is_read_through_a_pooler() {
    let url = server();
    let there = Postgres::options().schema("pooled_reads").connect(&url).await.expect("the server");
    there.migrate().await.expect("tables");
    let new = || NewRun::new("t", "desk", Request::default()).create_thread();
    let run = there.driver().create_run(new()).await.expect("a run").id;
    let claim = || RunClaim::new("worker", std::time::Duration::from_mins(1), ["desk"]);
    let claimed = there.driver().claim_run(claim()).await.expect("the server").expect("the run");
    let (checkpoint, record) = kit::next(None, &[(0, false, vec![7])], 1);
    let write = kit::write(checkpoint.id, 0, b"done");
    there.driver().commit_run(&claimed.lease, RunCommit::records(vec![record, write])).await.expect("stored");
    there.driver().requeue(&claimed.lease, run).await.expect("handed back");
    there.driver().put_document(Document::new("kind", "a", serde_json::json!(1)), None).await.expect("a document");
    for shares_names in [false, true] {
        let pooled = pooler(&url, shares_names).await;
        let open = async || {
            let options = Postgres::options().schema("pooled_reads").connections(1);
            options.connect(&pooled).await.expect("the server")
        };
        assert!(open().await.driver().run(run).await.expect("the server").is_some());
        assert!(open().await.driver().thread("t").await.expect("the server").is_some());
        assert!(open().await.driver().document("kind", "a").await.expect("the server").is_some());
        assert!(!open().await.driver().events(EventQuery::after("t", 0)).await.expect("the server").events.is_empty());
        for id in [None, Some(checkpoint.id)] {
            let found = open().await.get("t", "", id).await.expect("the server").expect("a checkpoint");
            assert_eq!((found.values.len(), found.writes.len()), (1, 1));
        }
        let claimed = there.driver().claim_run(claim()).await.expect("the server").expect("the run");
        open().await.renew(&claimed.lease).await.expect("it is held");
        open().await.driver().create_run(new()).await.expect("one that waits");
        open().await.release(&claimed.lease).await.expect("released");
        let next = open()
            .await
            .driver()
            .claim_run(claim())
            .await
            .expect("the server")
            .expect("the run whose worker has let go");
        assert_eq!(next.run.id, run);
        let received = NewEvent::new(run, LogEvent::Values(serde_json::json!({})));
        assert!(
            open().await.driver().commit_run(&next.lease, RunCommit::events(vec![received])).await.expect("stored") > 1
        );
        there.driver().requeue(&next.lease, run).await.expect("handed back");
    }
}
