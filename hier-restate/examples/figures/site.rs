//! The server that the script has started, and what was used of it.

use std::path::PathBuf;

use uuid::Uuid;

use crate::Failed;
use crate::relay::Relay;

/// The server's URLs, and the folder of its nodes.
pub(crate) struct Site {
    pub(crate) ingress: String,
    pub(crate) admin: String,
    pub(crate) http: reqwest::Client,
    folder: PathBuf,
}

impl Site {
    pub(crate) fn of_surroundings() -> Result<Self, Failed> {
        let var =
            |name| std::env::var(name).map_err(|_| format!("{name} is not set: run it with scripts/restate.sh with"));
        Ok(Self {
            ingress: var("HIER_TEST_RESTATE")?,
            admin: var("HIER_TEST_RESTATE_ADMIN")?,
            http: reqwest::Client::new(),
            folder: PathBuf::from(var("HIER_TEST_RESTATE_FOLDER")?),
        })
    }

    /// Calls a handler by hand; with an idempotency key if hier's client would give one.
    pub(crate) async fn bare<T: serde::Serialize>(&self, path: &str, input: &T, key: bool) -> Result<(), Failed> {
        let mut sent = self.http.post(format!("{}/{path}", self.ingress)).json(input);
        if key {
            sent = sent.header("idempotency-key", Uuid::new_v4().to_string());
        }
        sent.send().await?.error_for_status()?;
        Ok(())
    }

    /// The processor time of the nodes of the server and of this process so far, in milliseconds.
    pub(crate) fn processor(&self) -> Result<f64, Failed> {
        let mut all = seconds(std::process::id())?;
        for node in std::fs::read_dir(&self.folder)? {
            if let Ok(process) = std::fs::read_to_string(node?.path().join("pid")) {
                all += seconds(process.trim().parse()?)?;
            }
        }
        Ok(all * 1e3)
    }

    /// Returns the usage so far, of the server's nodes and of a worker behind a relay.
    pub(crate) async fn spent(&self, worker: u32, relay: &Relay) -> Result<Spent, Failed> {
        let mut spent = Spent { worker: seconds(worker)?, wire: relay.bytes() as f64, ..Spent::default() };
        for node in std::fs::read_dir(&self.folder)? {
            let node = node?.path();
            let Ok(process) = std::fs::read_to_string(node.join("pid")) else { continue };
            spent.server += seconds(process.trim().parse()?)?;
            let ports = std::fs::read_to_string(node.join("ports"))?;
            let fabric = ports.split_whitespace().nth(2).ok_or("a node has a port for the others")?;
            let received = self.http.get(format!("http://127.0.0.1:{fabric}/metrics")).send().await?.text().await?;
            for line in received.lines() {
                let is = |name: &str| line.starts_with(name) && !line.contains("metadata-server");
                let Some(bytes) = line.rsplit(' ').next().and_then(|value| value.parse::<f64>().ok()) else { continue };
                if is("restate_rocksdb_bytes_written_total") {
                    *(if line.contains("log-server") { &mut spent.log } else { &mut spent.store }) += bytes;
                } else if ["wal_bytes", "flush_write_bytes", "compact_write_bytes"]
                    .iter()
                    .any(|name| is(&format!("restate_rocksdb_{name}_total")))
                {
                    spent.disk += bytes;
                }
            }
        }
        Ok(spent)
    }
}

/// The usage: processor seconds of the server and of the worker, bytes between the two, bytes that the server has put into its log and
/// into its store of invocations and states, and bytes that it has given to the disk for both.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Spent {
    pub(crate) server: f64,
    pub(crate) worker: f64,
    pub(crate) wire: f64,
    pub(crate) log: f64,
    pub(crate) store: f64,
    pub(crate) disk: f64,
}

impl Spent {
    /// Each of them.
    pub(crate) fn each(self, other: Self, change: impl Fn(f64, f64) -> f64) -> Self {
        Self {
            server: change(self.server, other.server),
            worker: change(self.worker, other.worker),
            wire: change(self.wire, other.wire),
            log: change(self.log, other.log),
            store: change(self.store, other.store),
            disk: change(self.disk, other.disk),
        }
    }
}

/// The processor time of a process, in seconds. Linux counts it in hundredths.
fn seconds(process: u32) -> Result<f64, Failed> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat"))?;
    let after = stat.rsplit_once(')').ok_or("the process has no name")?.1;
    let ticks = after.split_whitespace().skip(11).take(2).map(str::parse::<f64>).sum::<Result<f64, _>>()?;
    Ok(ticks / 100.0)
}

/// Returns the memory of a process, in bytes.
pub(crate) fn resident(process: u32) -> Result<u64, Failed> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).ok_or("the kernel does not count it")?;
    Ok(line.trim().trim_end_matches(" kB").parse::<u64>()? * 1024)
}
