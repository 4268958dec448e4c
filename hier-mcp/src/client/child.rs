//! Servers as child processes.

use std::process::Stdio;

use process_wrap::tokio::{CommandWrap, KillOnDrop};
use rmcp::RoleClient;
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::{TokioChildProcess, Transport};
use tokio::process::{ChildStderr, Command};

use super::options::ServerLocation;

/// The connection to a child process.
///
/// Closing it lets the process end by itself. Dropping it without closing kills the process and its children, because
/// nothing could wait for their end.
pub(super) struct ChildTransport {
    group: ChildGroup,
    child: TokioChildProcess,
}

struct ChildGroup(Option<u32>);

impl Drop for ChildGroup {
    fn drop(&mut self) {
        #[cfg(unix)]
        if let Some(group) = self.0.and_then(|id| i32::try_from(id).ok()) {
            use nix::sys::signal::{Signal, killpg};
            // The processes may have ended already.
            let _ = killpg(nix::unistd::Pid::from_raw(group), Signal::SIGKILL);
        }
    }
}

impl ChildTransport {
    /// Starts the program with its own environment. Also returns the program's standard error.
    pub(super) fn start(location: &ServerLocation) -> std::io::Result<(Self, Option<ChildStderr>)> {
        let ServerLocation::Child { program, args, env, passed, dir } = location else {
            return Err(std::io::Error::other("the server is not a program"));
        };
        let mut command = Command::new(program);
        command.args(args).env_clear();
        for name in passed {
            if let Some(value) = std::env::var_os(name) {
                command.env(name, value);
            }
        }
        command.envs(env);
        if let Some(dir) = dir {
            command.current_dir(dir);
        }
        let mut command = CommandWrap::from(command);
        command.wrap(KillOnDrop);
        // A process group, so that the children of the program end with the program.
        #[cfg(unix)]
        command.wrap(process_wrap::tokio::ProcessGroup::leader());
        let (child, errors) = TokioChildProcess::builder(command).stderr(Stdio::piped()).spawn()?;
        Ok((Self { group: ChildGroup(child.id()), child }, errors))
    }
}

impl Transport<RoleClient> for ChildTransport {
    type Error = std::io::Error;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        self.child.send(message)
    }

    fn receive(&mut self) -> impl Future<Output = Option<RxJsonRpcMessage<RoleClient>>> + Send {
        self.child.receive()
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        let closed = self.child.close().await;
        self.group.0 = None;
        closed
    }
}
