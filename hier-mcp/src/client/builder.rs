use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use hier_agents::{ChatModel, TrustLabels};
use hier_core::NodeError;
use serde_json::Value;

use super::mcp_client::McpClient;
use super::options::{ClientOptions, Protocol, ServerLocation};
use super::question::McpQuestion;
use crate::error::McpError;

/// A builder of an [`McpClient`]. [`McpClient::stdio`] and [`McpClient::http`] create it.
#[must_use = "a builder does nothing until it is built"]
pub struct McpClientBuilder {
    name: String,
    location: ServerLocation,
    options: ClientOptions,
    mistakes: Vec<String>,
}

impl fmt::Debug for McpClientBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The output omits the environment and the headers, which contain secrets.
        f.debug_struct("McpClientBuilder").field("name", &self.name).finish_non_exhaustive()
    }
}

impl McpClientBuilder {
    pub(super) fn new(name: String, location: ServerLocation) -> Self {
        Self { name, location, options: ClientOptions::default(), mistakes: Vec::new() }
    }

    /// Adds a command-line argument of the program that the client starts as the server.
    pub fn arg(self, arg: impl Into<String>) -> Self {
        self.args([arg])
    }

    /// Adds command-line arguments of the program that the client starts as the server.
    pub fn args<A: Into<String>>(mut self, given: impl IntoIterator<Item = A>) -> Self {
        if let ServerLocation::Child { args, .. } = &mut self.location {
            args.extend(given.into_iter().map(Into::into));
        } else {
            self.no_program("args");
        }
        self
    }

    /// Sets an environment variable of the program that the client starts as the server.
    ///
    /// The program receives only the variables that you set with this method or pass with [`pass_env`](Self::pass_env).
    /// It does not receive other variables of this process, because they may contain secrets.
    pub fn env(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        if let ServerLocation::Child { env, .. } = &mut self.location {
            env.insert(name.into(), value.into());
        } else {
            self.no_program("env");
        }
        self
    }

    /// Passes environment variables of this process to the server's program, such as `.pass_env(["PATH", "HOME"])`.
    ///
    /// If the program is given by its name, without a directory, pass `PATH`. Otherwise the program is not found.
    pub fn pass_env<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        if let ServerLocation::Child { passed, .. } = &mut self.location {
            passed.extend(names.into_iter().map(Into::into));
        } else {
            self.no_program("pass_env");
        }
        self
    }

    /// Sets the working directory of the program that the client starts.
    pub fn dir(mut self, folder: impl Into<String>) -> Self {
        if let ServerLocation::Child { dir, .. } = &mut self.location {
            *dir = Some(folder.into());
        } else {
            self.no_program("dir");
        }
        self
    }

    /// Sets a token that the client sends with each request, as `Authorization: Bearer …`.
    pub fn bearer(mut self, token: impl Into<String>) -> Self {
        if let ServerLocation::Http { bearer, .. } = &mut self.location {
            *bearer = Some(token.into());
        } else {
            self.no_address("bearer");
        }
        #[cfg(feature = "oauth")]
        if let ServerLocation::Http { auth: Some(_), .. } = &self.location {
            self.mistakes.push("`oauth` and `bearer` exclude each other: remove one".to_owned());
        }
        self
    }

    /// Sends the access tokens of this authorization with each request. The URL of the authorization must be the URL of
    /// the MCP server to which this client connects.
    #[cfg(feature = "oauth")]
    pub fn oauth(mut self, given: &crate::oauth::McpAuth) -> Self {
        match &mut self.location {
            ServerLocation::Http { url, auth, bearer, .. } => {
                if *url != given.url() {
                    let theirs = given.url();
                    self.mistakes.push(format!("`oauth` has tokens for `{theirs}`, and this server is `{url}`"));
                }
                if bearer.is_some() {
                    self.mistakes.push("`oauth` and `bearer` exclude each other: remove one".to_owned());
                }
                *auth = Some(given.clone());
            }
            ServerLocation::Child { .. } => self.no_address("oauth"),
        }
        self
    }

    /// Adds a header to each request.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        if let ServerLocation::Http { headers, .. } = &mut self.location {
            headers.push((name.into(), value.into()));
        } else {
            self.no_address("header");
        }
        self
    }

    fn no_program(&mut self, option: &str) {
        self.mistakes.push(format!("`{option}` applies to programs, but this server has a URL"));
    }

    fn no_address(&mut self, option: &str) {
        self.mistakes.push(format!("`{option}` applies to URLs, but this server is a program"));
    }

    /// Sets the protocol version. Defaults to [`Protocol::Auto`].
    pub fn protocol(mut self, protocol: Protocol) -> Self {
        self.options.protocol = protocol;
        self
    }

    /// Makes only these tools available to models. `tools` contains their names on the server, without the prefix. By
    /// default, all tools are available.
    pub fn only<N: Into<String>>(mut self, tools: impl IntoIterator<Item = N>) -> Self {
        self.options.only = Some(tools.into_iter().map(Into::into).collect());
        self
    }

    /// Adds a prefix to the names of the tools for models: with `crm_`, `lookup` becomes `crm_lookup`.
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.options.prefix = prefix.into();
        self
    }

    /// Requires a person's approval for calls of these tools. `tools` contains their names on the server, without the
    /// prefix.
    pub fn approve<N: Into<String>>(mut self, tools: impl IntoIterator<Item = N>) -> Self {
        self.options.approve = Some(tools.into_iter().map(Into::into).collect());
        self
    }

    /// Requires a person's approval for calls of all tools of the server.
    pub fn approve_all(mut self) -> Self {
        self.options.approve_all = true;
        self
    }

    /// Sets the trust labels of the server's tools. Defaults to [`TrustLabels::UNTRUSTED`] with [`TrustLabels::SENDS`].
    ///
    /// The compile-time checks of `graph!` do not see this setting. Repeat the labels in the graph: `tools: [|desk|
    /// &desk.crm { labels: [private] }]`.
    pub fn labels(mut self, labels: TrustLabels) -> Self {
        self.options.labels = Some(labels);
        self
    }

    /// Sets the time limit for starting the server's program, and for each request except tool calls. If a list has
    /// several pages, the limit applies to all of them together. Defaults to 30 seconds.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.options.timeout = timeout;
        self
    }

    /// Sets the time limit of a tool call. If the server asks for input, the limit applies to each
    /// [round](Self::max_rounds) of the call. Defaults to 5 minutes.
    pub fn call_timeout(mut self, timeout: Duration) -> Self {
        self.options.call_timeout = timeout;
        self
    }

    /// Sets the maximum time for which the client waits until a [task](McpClient) of the server ends or asks a
    /// question. After that time, the client cancels the task and the call fails. The time starts again when a question
    /// is answered, and when a process resumes the run. Defaults to 24 hours.
    pub fn task_timeout(mut self, timeout: Duration) -> Self {
        self.options.task_timeout = timeout;
        self
    }

    /// Sets the maximum size of the text in a result, in bytes. The client cuts off longer text, and the model receives
    /// a note. Defaults to 128 KiB.
    pub fn max_text(mut self, bytes: usize) -> Self {
        self.options.max_text = bytes;
        self
    }

    /// Sets the maximum size of an image or a file in a result, in bytes of Base64. If an image or a file is larger,
    /// the model receives a note instead. Defaults to 5 MiB.
    pub fn max_media(mut self, bytes: usize) -> Self {
        self.options.max_media = bytes;
        self
    }

    /// Sets the maximum size of a message from a server over HTTP, in bytes. A request fails if its response is larger.
    /// Defaults to 16 MiB.
    ///
    /// This option does not apply to programs. The client drops a message of a program that is larger than 16 MiB, so
    /// the request fails at its time limit ([`timeout`](Self::timeout), [`call_timeout`](Self::call_timeout)).
    pub fn max_message(mut self, bytes: usize) -> Self {
        self.options.max_message = bytes;
        self
    }

    /// Sets the maximum number of the server's tools. It also limits the resources and the prompts. If the server has
    /// more of a kind, listing them fails. Defaults to 1,000.
    pub fn max_tools(mut self, tools: usize) -> Self {
        self.options.max_tools = tools;
        self
    }

    /// Sets the maximum number of rounds of a tool call. A round is one request to the server, which can respond with
    /// questions instead of a result. If the last allowed round has no result, the call fails. Defaults to 10.
    pub fn max_rounds(mut self, rounds: usize) -> Self {
        self.options.rounds = rounds;
        self
    }

    /// Sets a function that answers the server's questions in runs without a checkpointer. The call waits for the
    /// answer. To decline a question, the function returns `Value::Null`.
    ///
    /// Without this function, the client declines the questions of servers with an older protocol. A question of a
    /// server with the protocol of 2026-07-28 interrupts the run, which then cannot be resumed. In a run with a
    /// checkpointer, the client does not call the function. See [Questions of the
    /// server](McpClient#questions-of-the-server).
    pub fn answer<F>(mut self, answer: impl Fn(McpQuestion) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<Value, NodeError>> + Send + 'static,
    {
        self.options.answer = Some(Arc::new(move |question| Box::pin(answer(question))));
        self
    }

    /// Sets the model for the server's sampling requests (`sampling/createMessage`). Without a model, the client does
    /// not offer sampling to the server. In a run with a checkpointer, the client refuses sampling requests of
    /// servers with a protocol before 2026-07-28.
    ///
    /// Set a model only for trusted servers: the server decides about the messages that the model receives, and you pay
    /// for the replies.
    pub fn sampling(mut self, model: impl ChatModel) -> Self {
        self.options.sampling = Some(Arc::new(model));
        self
    }

    /// Sets the folders, as `file:` URLs. The client returns these URLs if the server asks for its roots
    /// (`roots/list`).
    pub fn roots<R: Into<String>>(mut self, roots: impl IntoIterator<Item = R>) -> Self {
        self.options.roots = roots.into_iter().map(Into::into).collect();
        self
    }

    /// Builds the client, which connects when it is first used.
    ///
    /// # Errors
    ///
    /// Fails if an option is invalid. Also fails if an option for programs, such as [`env`](Self::env), is set for a
    /// server with a URL, or if an option for URLs, such as [`bearer`](Self::bearer), is set for a program.
    pub fn build(self) -> Result<McpClient, McpError> {
        let Self { name, location, options, mut mistakes } = self;
        if let Some(bad) = options.prefix.chars().find(|c| !c.is_ascii_alphanumeric() && !matches!(c, '_' | '-')) {
            mistakes
                .push(format!("the prefix `{}` contains `{bad}`: use letters, digits, `_` and `-`", options.prefix));
        }
        if let Some(reason) = mistakes.into_iter().next() {
            return Err(McpError::Options { server: name, reason });
        }
        Ok(McpClient::new(name, location, options))
    }
}
