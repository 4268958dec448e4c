//! Programs that are servers, and end with their clients.

use std::process::Stdio;

use process_wrap::tokio::{CommandWrap, KillOnDrop};
use rmcp::RoleClient;
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::{TokioChildProcess, Transport};
use tokio::process::{ChildStderr, Command};

use super::options::Place;

/// The connection to a child process. Closing it gives the process time to end by itself. If it is dropped without that, for example when
/// the runtime ends with the program, it kills the process and its children at once, because nothing could wait for their end.
pub(super) struct ChildTransport {
    group: Group,
    child: TokioChildProcess,
}

/// The process group of a program that runs.
struct Group(Option<u32>);

impl Drop for Group {
    fn drop(&mut self) {
        #[cfg(unix)]
        if let Some(group) = self.0.and_then(|id| i32::try_from(id).ok()) {
            use nix::sys::signal::{Signal, killpg};
            // It may have ended already.
            let _ = killpg(nix::unistd::Pid::from_raw(group), Signal::SIGKILL);
        }
    }
}

impl ChildTransport {
    /// Starts the program, in an environment of its own. Its standard error is returned, too.
    pub(super) fn start(place: &Place) -> std::io::Result<(Self, Option<ChildStderr>)> {
        let Place::Child { program, args, env, passed, dir } = place else {
            return Err(std::io::Error::other("it is not a program"));
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
        // Its children end with it.
        #[cfg(unix)]
        command.wrap(process_wrap::tokio::ProcessGroup::leader());
        let (child, errors) = TokioChildProcess::builder(command).stderr(Stdio::piped()).spawn()?;
        Ok((Self { group: Group(child.id()), child }, errors))
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
