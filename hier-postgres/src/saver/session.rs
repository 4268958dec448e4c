//! Connections, retries, and the version of the tables.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use deadpool_postgres::{Manager, ManagerConfig, Pool, RecyclingMethod, Runtime};
use hier_checkpoint::checkpoint::SaverError;
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep};
use tokio_postgres::types::Type;
use tokio_postgres::{Config, NoTls, Row};
use uuid::Uuid;

use super::address::{DatabaseUrl, Roots, unusable};
use super::client::PooledClient;
pub(crate) use super::client::{Parameter, Transaction};
use super::fault::PostgresFault;
use super::options::PostgresOptions;
use super::schema::VERSIONS;
use super::statements::Statements;

/// Limits [`PostgresOptions::retry_for`] during the first connection, because the URL may be wrong.
const CONNECTING: Duration = Duration::from_secs(5);
/// The longest timeout that the system accepts.
const DAY: Duration = Duration::from_hours(24);
/// The idle time after which the system probes a connection.
const KEEPALIVE: Duration = Duration::from_secs(15);
/// The driver's default, which means that the option is not set.
const NO_IDLE: Duration = Duration::from_hours(2);
const FIRST_WAIT: Duration = Duration::from_millis(20);
const LONGEST_WAIT: Duration = Duration::from_secs(1);

pub(super) struct ListenConfig {
    pub(super) config: Config,
    pub(super) roots: Option<Roots>,
    #[cfg(feature = "tls")]
    pub(super) place: String,
}

pub(crate) struct PostgresSession {
    /// The name of the database in errors.
    pub(crate) place: String,
    pub(crate) statements: Statements,
    pub(super) listen_config: Arc<ListenConfig>,
    pool: Pool,
    /// Limits the number of dropped connections that wait for their answers.
    settling: Arc<Semaphore>,
    /// The time limit of a statement, and of waiting for a connection.
    limit: Duration,
    retry_for: Duration,
    /// True if the tables are known to have this program's version.
    ready: AtomicBool,
    /// False after a prepared statement was lost, because a pooler may give each transaction another connection.
    prepares: AtomicBool,
    /// Marks the notices of this process.
    pub(super) tag: String,
    /// The first half of the ids of this process's changes of runs.
    changer: u64,
}

/// Runs a block with a connection. If the fault may pass, retries the block with another connection.
macro_rules! retrying {
    ($session:expr, $client:ident => $work:expr) => {
        $crate::saver::session::retrying!($session, $session.attempts(), $client => $work)
    };
    ($session:expr, $attempts:expr, $client:ident => $work:expr) => {
        $crate::saver::session::retrying!($attempts => {
            let $client = $session.client().await?;
            $work
        })
    };
    // A block of this form gets its connections by itself.
    ($attempts:expr => $work:expr) => {{
        let mut attempts = $attempts;
        loop {
            let attempt = async {
                let result: Result<_, $crate::saver::fault::PostgresFault> = $work;
                result
            };
            match attempt.await {
                Ok(value) => break Ok(value),
                Err(fault) => {
                    if let Err(error) = attempts.after(fault).await {
                        break Err(error);
                    }
                }
            }
        }
    }};
}
pub(crate) use retrying;

impl PostgresSession {
    pub(crate) async fn start(url: &str, options: &PostgresOptions) -> Result<Self, SaverError> {
        let tag = Uuid::new_v4();
        let statements = Statements::new(&options.schema, tag)?;
        let DatabaseUrl { mut config, place, roots } = DatabaseUrl::parse(url)?;
        let limit = options.limit();
        let connecting = set_defaults(&mut config, limit);
        let mut listen_config = ListenConfig {
            config: config.clone(),
            roots: None,
            #[cfg(feature = "tls")]
            place: place.clone(),
        };
        let pool = Pool::builder(manager(config, roots.as_ref(), &place)?)
            .max_size(options.connections)
            // Another program may accept connections on this port and never answer.
            .create_timeout(Some(connecting))
            .wait_timeout(Some(limit))
            .runtime(Runtime::Tokio1)
            .build()
            .map_err(|error| SaverError::database(&place, error))?;
        listen_config.roots = roots;
        let listen_config = Arc::new(listen_config);
        let ready = AtomicBool::new(false);
        let retry_for = options.retry_for.min(CONNECTING);
        let prepares = AtomicBool::new(true);
        let (changer, tag) = (tag.as_u64_pair().0, tag.simple().to_string());
        // The other half of the connections is closed at once when dropped, so that the pool always has free
        // connections.
        let settling = Arc::new(Semaphore::new(options.connections.div_ceil(2)));
        let mut session =
            Self { place, statements, listen_config, pool, settling, limit, retry_for, ready, prepares, tag, changer };
        let version = retrying!(&session, client => session.version(&client).await)?;
        session.ready = AtomicBool::new(version == Some(VERSIONS.len()));
        session.retry_for = options.retry_for;
        Ok(session)
    }

    pub(crate) fn attempts(&self) -> Retries<'_> {
        self.attempts_for(self.retry_for)
    }

    /// Limits the retries of a call to this time, or to `retry_for` if that is shorter.
    pub(crate) fn attempts_for(&self, time: Duration) -> Retries<'_> {
        // A time that exceeds the range of the clock is no limit.
        let end = Instant::now().checked_add(time.min(self.retry_for));
        Retries { session: self, end, wait: FIRST_WAIT }
    }

    pub(super) fn statement_timeout(&self) -> Duration {
        self.limit
    }

    /// Closes the idle connections after a fault of a connection, because they usually have the same fault.
    pub(super) fn note(&self, fault: &PostgresFault) {
        if fault.is_of_connection() {
            self.pool.retain(|_, _| false);
        }
    }

    pub(crate) async fn client(&self) -> Result<PooledClient, PostgresFault> {
        Ok(PooledClient::new(self.pool.get().await?, self.limit, self.settling.clone()))
    }

    /// Fails unless the tables exist and have this program's version.
    pub(crate) async fn ready(&self) -> Result<(), SaverError> {
        if self.ready.load(Ordering::Relaxed) {
            return Ok(());
        }
        match retrying!(self, client => self.version(&client).await)? {
            Some(version) if version == VERSIONS.len() => {
                self.ready.store(true, Ordering::Relaxed);
                Ok(())
            }
            Some(_) => Err(self.unusable("an older version of hier created its tables: call `Postgres::migrate`")),
            None => Err(self.unusable("it has no tables of hier yet: call `Postgres::migrate`")),
        }
    }

    /// Returns the version of the tables, if they exist.
    async fn version(&self, client: &PooledClient) -> Result<Option<usize>, PostgresFault> {
        let encoding = client.simple_query("show server_encoding").await?;
        let is_utf8 = encoding.iter().any(|message| match message {
            tokio_postgres::SimpleQueryMessage::Row(row) => row.get(0) == Some("UTF8"),
            _ => false,
        });
        if !is_utf8 {
            return Err(self.unusable("its encoding is not UTF8: create a database with `encoding 'UTF8'`").into());
        }
        let versions = format!("{}.version", self.statements.schema);
        let there = client.query("select to_regclass($1) is not null", &[(&versions, Type::TEXT)]).await?;
        if !first::<bool>(&there)? {
            return Ok(None);
        }
        let rows = client.query(&format!("select version from {versions}"), &[]).await?;
        match usize::try_from(first::<i32>(&rows)?) {
            Ok(version) if version <= VERSIONS.len() => Ok(Some(version)),
            _ => Err(self.unusable("a newer version of hier created its tables: update this program").into()),
        }
    }

    /// Creates the tables or migrates them to this program's version.
    pub(crate) async fn migrate(&self) -> Result<(), SaverError> {
        retrying!(self, client => self.migrate_once(client).await)?;
        self.ready.store(true, Ordering::Relaxed);
        Ok(())
    }

    async fn migrate_once(&self, client: PooledClient) -> Result<(), PostgresFault> {
        if self.version(&client).await? == Some(VERSIONS.len()) {
            return Ok(());
        }
        let transaction = Transaction::begin(client).await?;
        let migrated = self.migrate_in(transaction.client()).await;
        transaction.end(migrated).await
    }

    async fn migrate_in(&self, client: &PooledClient) -> Result<(), PostgresFault> {
        // Only one process at a time migrates. A process that waited finds the current version.
        client.batch("select pg_advisory_xact_lock(7523375889364021618)").await?;
        let begin =
            "create schema if not exists {s}; create table if not exists {s}.version (version integer not null);
            insert into {s}.version select 0 where not exists (select 1 from {s}.version)";
        client.batch(&self.statements.with_schema(begin)).await?;
        let version = self.version(client).await?.unwrap_or_default();
        for parts in &VERSIONS[version..] {
            for part in *parts {
                client.batch(&self.statements.with_schema(part)).await?;
            }
        }
        let end = format!("update {{s}}.version set version = {}", VERSIONS.len());
        client.batch(&self.statements.with_schema(&end)).await
    }

    /// Runs a statement that each connection prepares once. Its conditions include `{own}`.
    ///
    /// The driver numbers prepared statements. Behind a pooler, the connection of a transaction may not know a number
    /// or may have another process's statement under it. Then the server rejects the statement, or its condition on the
    /// tag fails, before it has any effect. After that, this process prepares no statements. A transaction never
    /// prepares statements, because a failed attempt would end the transaction.
    pub(crate) async fn query_often(
        &self,
        client: &PooledClient,
        sql: &str,
        with: &[Parameter<'_>],
    ) -> Result<Vec<Row>, PostgresFault> {
        let sql = self.statements.own(sql, with.len());
        let tag: &[Uuid] = &[self.statements.tag];
        let with: Vec<Parameter<'_>> = with.iter().cloned().chain([(&tag as _, Type::UUID_ARRAY)]).collect();
        if self.prepares.load(Ordering::Relaxed) && !client.is_in_transaction() {
            match client.query_prepared(&sql, &with).await {
                Err(fault) if fault.is_of_prepared() => self.prepares.store(false, Ordering::Relaxed),
                answered => return answered,
            }
        }
        client.query(&sql, &with).await
    }

    /// Runs a statement in one round trip. The connection keeps no prepared statement.
    pub(crate) async fn query(
        &self,
        client: &PooledClient,
        sql: &str,
        with: &[Parameter<'_>],
    ) -> Result<Vec<Row>, PostgresFault> {
        client.query(sql, with).await
    }

    /// Returns a new id for a change of runs. Its first half identifies this process.
    pub(super) fn new_change(&self) -> Uuid {
        Uuid::from_u64_pair(self.changer, Uuid::new_v4().as_u64_pair().1)
    }

    fn unusable(&self, reason: &str) -> SaverError {
        unusable(&self.place, reason)
    }
}

/// Sets options that the URL omits, mainly options that detect dead connections. Returns the time limit for connecting.
fn set_defaults(config: &mut Config, limit: Duration) -> Duration {
    let each = *config.get_connect_timeout().unwrap_or(&CONNECTING);
    config.connect_timeout(each);
    if config.get_application_name().is_none() {
        config.application_name("hier");
    }
    if config.get_tcp_user_timeout().is_none() {
        config.tcp_user_timeout(limit.min(DAY));
    }
    if config.get_keepalives_idle() == NO_IDLE {
        config.keepalives_idle(KEEPALIVE);
    }
    if config.get_keepalives_interval().is_none() {
        config.keepalives_interval(KEEPALIVE / 3);
    }
    if config.get_keepalives_retries().is_none() {
        config.keepalives_retries(3);
    }
    let hosts = config.get_hosts().len().max(config.get_hostaddrs().len()).max(1);
    each.saturating_mul(u32::try_from(hosts).unwrap_or(u32::MAX))
}

fn manager(config: Config, roots: Option<&Roots>, place: &str) -> Result<Manager, SaverError> {
    let recycling = ManagerConfig { recycling_method: RecyclingMethod::Fast };
    let Some(roots) = roots else { return Ok(Manager::from_config(config, NoTls, recycling)) };
    #[cfg(feature = "tls")]
    return Ok(Manager::from_config(config, super::tls::connector(roots, place)?, recycling));
    #[cfg(not(feature = "tls"))]
    Err(unusable(
        place,
        format!(
            "its URL requires encryption with {roots}, but this program is built without it: enable the feature `tls` of `hier-postgres`"
        ),
    ))
}

/// Returns the first row of a result that always has rows.
pub(crate) fn first_row(rows: &[Row]) -> Result<&Row, PostgresFault> {
    rows.first().ok_or_else(|| PostgresFault::NoConnection("the server returned no row".to_owned()))
}

/// Returns the first column of the first row.
pub(crate) fn first<T: for<'a> tokio_postgres::types::FromSql<'a>>(rows: &[Row]) -> Result<T, PostgresFault> {
    Ok(first_row(rows)?.try_get(0)?)
}

/// Limits the attempts of a call and sets the time between them.
pub(crate) struct Retries<'a> {
    session: &'a PostgresSession,
    end: Option<Instant>,
    wait: Duration,
}

impl Retries<'_> {
    /// Waits before the next attempt. Fails if the fault is permanent or the time for attempts is over.
    pub(crate) async fn after(&mut self, fault: PostgresFault) -> Result<(), SaverError> {
        self.session.note(&fault);
        if !fault.is_passing() || self.end.is_some_and(|end| Instant::now() >= end) {
            return Err(fault.into_saver_error(&self.session.place));
        }
        sleep(self.wait).await;
        self.wait = (self.wait * 2).min(LONGEST_WAIT);
        Ok(())
    }
}
