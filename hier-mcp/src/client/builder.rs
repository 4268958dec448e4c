//! Builds clients.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use hier_agents::ChatModel;
use hier_core::NodeError;
use serde_json::Value;

use super::connection::Client;
use super::options::{Options, Place, Protocol};
use super::question::Question;
use crate::error::McpError;

/// What a client is to be: begun by [`Client::stdio`] or [`Client::http`].
#[must_use = "a builder does nothing until it is built"]
pub struct ClientBuilder {
    name: String,
    place: Place,
    options: Options,
    mistakes: Vec<String>,
}

impl fmt::Debug for ClientBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Neither the environment nor the headers: they have secrets.
        f.debug_struct("ClientBuilder").field("name", &self.name).finish_non_exhaustive()
    }
}

impl ClientBuilder {
    pub(super) fn new(name: String, place: Place) -> Self {
        Self { name, place, options: Options::default(), mistakes: Vec::new() }
    }

    /// An argument of the program.
    pub fn arg(self, arg: impl Into<String>) -> Self {
        self.args([arg])
    }

    /// Arguments of the program.
    pub fn args<A: Into<String>>(mut self, given: impl IntoIterator<Item = A>) -> Self {
        if let Place::Child { args, .. } = &mut self.place {
            args.extend(given.into_iter().map(Into::into));
        } else {
            self.no_program("args");
        }
        self
    }

    /// A variable of the program's environment. It has no others but those that are [passed](Self::pass_env): secrets of this
    /// process do not reach the server.
    pub fn env(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        if let Place::Child { env, .. } = &mut self.place {
            env.insert(name.into(), value.into());
        } else {
            self.no_program("env");
        }
        self
    }

    /// Variables of this process that the program gets as they are: `.pass_env(["PATH", "HOME"])`. A program that is named
    /// without its folder is found only if `PATH` is among them.
    pub fn pass_env<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        if let Place::Child { passed, .. } = &mut self.place {
            passed.extend(names.into_iter().map(Into::into));
        } else {
            self.no_program("pass_env");
        }
        self
    }

    /// The folder in which the program runs.
    pub fn dir(mut self, folder: impl Into<String>) -> Self {
        if let Place::Child { dir, .. } = &mut self.place {
            *dir = Some(folder.into());
        } else {
            self.no_program("dir");
        }
        self
    }

    /// A token that is sent with each request, as `Authorization: Bearer …`.
    pub fn bearer(mut self, token: impl Into<String>) -> Self {
        if let Place::Http { bearer, .. } = &mut self.place {
            *bearer = Some(token.into());
        } else {
            self.no_address("bearer");
        }
        self
    }

    /// A header that is sent with each request.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        if let Place::Http { headers, .. } = &mut self.place {
            headers.push((name.into(), value.into()));
        } else {
            self.no_address("header");
        }
        self
    }

    fn no_program(&mut self, option: &str) {
        self.mistakes.push(format!("`{option}` is of a program, and this server has an address"));
    }

    fn no_address(&mut self, option: &str) {
        self.mistakes.push(format!("`{option}` is of an address, and this server is a program"));
    }

    /// Which protocol is spoken.
    pub fn protocol(mut self, protocol: Protocol) -> Self {
        self.options.protocol = protocol;
        self
    }

    /// The tools that are used, by the server's names; all unless given.
    pub fn only<N: Into<String>>(mut self, tools: impl IntoIterator<Item = N>) -> Self {
        self.options.only = Some(tools.into_iter().map(Into::into).collect());
        self
    }

    /// What the names of its tools begin with: `crm_` makes `crm_lookup` of `lookup`.
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.options.prefix = prefix.into();
        self
    }

    /// The tools whose calls a person must approve, by the server's names.
    pub fn approve<N: Into<String>>(mut self, tools: impl IntoIterator<Item = N>) -> Self {
        self.options.approve = Some(tools.into_iter().map(Into::into).collect());
        self
    }

    /// Every call must be approved by a person.
    pub fn approve_all(mut self) -> Self {
        self.options.approve_all = true;
        self
    }

    /// Sets the time limit for the start of the server, and for each request that is not a tool call. Listing counts as one request for
    /// all pages. Defaults to 30 seconds.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.options.timeout = timeout;
        self
    }

    /// How long a call of a tool may take, or one round of it; 5 minutes unless given.
    pub fn call_timeout(mut self, timeout: Duration) -> Self {
        self.options.call_timeout = timeout;
        self
    }

    /// The longest text of a result, in bytes; 128 KiB unless given. What is longer is cut, and the model is told.
    pub fn max_text(mut self, bytes: usize) -> Self {
        self.options.max_text = bytes;
        self
    }

    /// The largest image or file of a result, in bytes of Base64; 5 MiB unless given. The model is told of larger ones.
    pub fn max_media(mut self, bytes: usize) -> Self {
        self.options.max_media = bytes;
        self
    }

    /// The largest message of a server that is read at all, in bytes; 16 MiB unless given.
    pub fn max_message(mut self, bytes: usize) -> Self {
        self.options.max_message = bytes;
        self
    }

    /// How many tools a server may have; 1,000 unless given. One that has more cannot be used.
    pub fn max_tools(mut self, tools: usize) -> Self {
        self.options.max_tools = tools;
        self
    }

    /// How often a server may ask during one call; 10 times unless given.
    pub fn max_rounds(mut self, rounds: usize) -> Self {
        self.options.rounds = rounds;
        self
    }

    /// Answers the server's questions while its call waits: where the run is not durable, and no person can be asked later. In a
    /// durable run a question is an interrupt, and this is not asked. `Value::Null` declines.
    pub fn answer<F>(mut self, answer: impl Fn(Question) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<Value, NodeError>> + Send + 'static,
    {
        self.options.answer = Some(Arc::new(move |question| Box::pin(answer(question))));
        self
    }

    /// The model that answers the server's requests of one (`sampling/createMessage`). Without, the server is told that there is
    /// none. It sees what the server sends, and costs what it costs: only for servers that are trusted.
    pub fn sampling(mut self, model: impl ChatModel) -> Self {
        self.options.sampling = Some(Arc::new(model));
        self
    }

    /// The folders that the server is told of (`roots/list`), as `file:` addresses.
    pub fn roots<R: Into<String>>(mut self, roots: impl IntoIterator<Item = R>) -> Self {
        self.options.roots = roots.into_iter().map(Into::into).collect();
        self
    }

    /// The client. It connects when it is used first. An error says what does not fit together.
    pub fn build(self) -> Result<Client, McpError> {
        let Self { name, place, options, mut mistakes } = self;
        if let Some(bad) = options.prefix.chars().find(|c| !c.is_ascii_alphanumeric() && !matches!(c, '_' | '-')) {
            mistakes
                .push(format!("the prefix `{}` has a `{bad}`; it takes letters, digits, `_` and `-`", options.prefix));
        }
        if let Some(reason) = mistakes.into_iter().next() {
            return Err(McpError::Options { server: name, reason });
        }
        Ok(Client::of(name, place, options))
    }
}
