//! The server that the script has started, and what was used of it.

use std::path::PathBuf;

use crate::Failed;

/// The server's URLs, and the folder of its first node.
pub(crate) struct Site {
    pub(crate) ingress: String,
    pub(crate) admin: String,
    folder: PathBuf,
    http: reqwest::Client,
}

impl Site {
    pub(crate) fn of_surroundings() -> std::result::Result<Self, Failed> {
        let var =
            |name| std::env::var(name).map_err(|_| format!("{name} is not set: run it with scripts/restate.sh with"));
        Ok(Self {
            ingress: var("HIER_TEST_RESTATE")?,
            admin: var("HIER_TEST_RESTATE_ADMIN")?,
            folder: PathBuf::from(var("HIER_TEST_RESTATE_FOLDER")?).join("1"),
            http: reqwest::Client::new(),
        })
    }

    pub(crate) async fn bare(&self, object: &str, key: &str, goal: u64) -> std::result::Result<(), Failed> {
        let sent = self.http.post(format!("{}/{object}/{key}/run", self.ingress)).json(&goal).send().await?;
        sent.error_for_status()?;
        Ok(())
    }

    /// What was used so far.
    pub(crate) fn spent(&self) -> std::result::Result<Spent, Failed> {
        let server: u32 = std::fs::read_to_string(self.folder.join("pid"))?.trim().parse()?;
        Ok(Spent { server: seconds(server)?, own: seconds(std::process::id())?, written: written(server)? })
    }
}

/// What was used: processor seconds of the server and of this process, and bytes that the server has written to files and sockets.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Spent {
    pub(crate) server: f64,
    pub(crate) own: f64,
    pub(crate) written: f64,
}

impl Spent {
    /// Each of them.
    pub(crate) fn each(self, other: Self, change: impl Fn(f64, f64) -> f64) -> Self {
        Self {
            server: change(self.server, other.server),
            own: change(self.own, other.own),
            written: change(self.written, other.written),
        }
    }
}

/// The processor time of a process, in seconds. Linux counts it in hundredths.
fn seconds(process: u32) -> std::result::Result<f64, Failed> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat"))?;
    let after = stat.rsplit_once(')').ok_or("the process has no name")?.1;
    let ticks =
        after.split_whitespace().skip(11).take(2).map(str::parse::<f64>).sum::<std::result::Result<f64, _>>()?;
    Ok(ticks / 100.0)
}

/// How many bytes a process has given to files and sockets.
fn written(process: u32) -> std::result::Result<f64, Failed> {
    let io = std::fs::read_to_string(format!("/proc/{process}/io"))?;
    let line = io.lines().find_map(|line| line.strip_prefix("wchar: ")).ok_or("the kernel does not count it")?;
    Ok(line.parse()?)
}

/// How much memory this process has, in bytes.
pub(crate) fn resident() -> std::result::Result<u64, Failed> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).ok_or("the kernel does not count it")?;
    Ok(line.trim().trim_end_matches(" kB").parse::<u64>()? * 1024)
}
