//! The same over a WebSocket: commands and events in one connection.

use std::collections::HashMap;

use axum::extract::Path;
use axum::extract::ws::{Message, WebSocket, WebSocketUpgrade};
use axum::response::Response;
use serde_json::{Value, json};
use uuid::Uuid;

use super::commands::{Answer, answer, success};
use super::events::{Events, since};
use super::filter::Filter;
use super::translate::{Frame, numbered};
use crate::admission::{Admission, Admitted};
use crate::app::Caller;
use crate::auth::{Action, Resource};
use crate::body::{self, id};
use crate::error::ApiResult;
use crate::feed::HEARTBEAT_EVERY;

/// How many subscriptions a connection may have.
const MOST: usize = 256;

pub(crate) async fn open(
    caller: Caller,
    Path(thread): Path<String>,
    Admitted(admission): Admitted,
    upgrade: WebSocketUpgrade,
) -> ApiResult<Response> {
    let thread = id("thread", &thread)?.to_string();
    let limit = caller.app.limits.body;
    let connection = Connection::new(caller, thread, admission);
    Ok(upgrade.max_message_size(limit).on_upgrade(move |socket| connection.serve(socket)))
}

/// A connection to a thread.
struct Connection {
    caller: Caller,
    thread: String,
    /// The connection counts as one request as long as it is open, and each of its commands as another.
    admission: Option<Admission>,
    /// It begins with the first subscription, from where that wants it.
    events: Option<Events>,
    /// What each wants, and the number up to which it has it.
    subscriptions: HashMap<String, (Filter, u64)>,
    /// The greatest position that was sent in this pass over the thread, or the one that the pass began after.
    sent: u64,
    /// Number of times that the thread was read again. Later passes have greater event numbers.
    pass: u64,
    /// The greatest position that was sent in earlier passes.
    known: u64,
}

impl Connection {
    fn new(caller: Caller, thread: String, admission: Option<Admission>) -> Self {
        Self { caller, thread, admission, events: None, subscriptions: HashMap::new(), sent: 0, pass: 0, known: 0 }
    }

    async fn serve(mut self, mut socket: WebSocket) {
        let stopping = self.caller.app.stopping.clone();
        loop {
            let events = &mut self.events;
            let told = async {
                match events {
                    Some(events) => events.next().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                // Commands first: a waiting subscription must receive the events that are sent next.
                biased;
                received = socket.recv() => match received {
                    Some(Ok(message)) => if !self.receive(&mut socket, message).await { return },
                    Some(Err(_)) | None => return,
                },
                told = told => {
                    let Ok(Some(frame)) = told else {
                        // The thread was deleted, or cannot be read any further.
                        let _ = socket.send(Message::Close(None)).await;
                        return;
                    };
                    if !self.send(&mut socket, frame).await {
                        return;
                    }
                },
                () = tokio::time::sleep(HEARTBEAT_EVERY) => {
                    if socket.send(Message::Ping(axum::body::Bytes::new())).await.is_err() {
                        return;
                    }
                }
                () = stopping.cancelled() => {
                    let _ = socket.send(Message::Close(None)).await;
                    return;
                }
            }
        }
    }

    /// The number of the last event that was sent, as the client has it.
    fn applied(&self) -> u64 {
        numbered(self.sent, self.pass)
    }

    /// Sends an event once if any subscription wants it. Returns false if the client has gone.
    async fn send(&mut self, socket: &mut WebSocket, frame: Frame) -> bool {
        let is_wanted = self.subscriptions.values().any(|(filter, since)| frame.seq > *since && filter.wants(&frame));
        self.sent = self.sent.max(frame.seq);
        // Clients stop at the end of a run, unless its number shows that they have had it.
        let pass = if frame.ends_run() && frame.seq <= self.known { 0 } else { self.pass };
        !is_wanted || socket.send(Message::text(frame.in_pass(pass).json().to_string())).await.is_ok()
    }

    async fn receive(&mut self, socket: &mut WebSocket, message: Message) -> bool {
        let text = match message {
            Message::Text(text) => text,
            Message::Close(_) => return false,
            Message::Binary(_) | Message::Ping(_) | Message::Pong(_) => return true,
        };
        let reply = match body::value(text.as_bytes()) {
            Ok(command) if self.admission.as_ref().is_none_or(Admission::admits) => self.command(&command).await,
            Ok(command) => {
                let (id, message) =
                    (command.get("id").cloned().unwrap_or_default(), "too many requests: try again in a second");
                Answer::Error { id, error: "unknown_error", message: message.to_owned() }
            }
            Err(error) => Answer::Error { id: Value::Null, error: "invalid_argument", message: error.detail },
        };
        socket.send(Message::text(json!(reply).to_string())).await.is_ok()
    }

    async fn command(&mut self, command: &Value) -> Answer {
        let number = command.get("id").cloned().unwrap_or_default();
        let nothing = json!({});
        let params = command.get("params").unwrap_or(&nothing);
        match command.get("method").and_then(Value::as_str) {
            Some("subscription.subscribe" | "subscription.reconnect") => match self.subscribe(params).await {
                Ok(result) => success(number, result, self.applied()),
                Err(message) => Answer::Error { id: number, error: "invalid_argument", message },
            },
            Some("subscription.unsubscribe") => {
                let wanted = params.get("subscription_id").and_then(Value::as_str).unwrap_or_default();
                if self.subscriptions.remove(wanted).is_some() {
                    return success(number, json!({}), self.applied());
                }
                let message = format!("Unknown subscription: {wanted}");
                Answer::Error { id: number, error: "no_such_subscription", message }
            }
            _ => answer(&self.caller, &self.thread, command, self.applied()).await,
        }
    }

    async fn subscribe(&mut self, params: &Value) -> Result<Value, String> {
        let (filter, since) = (Filter::parse(params)?, since(params)?);
        if self.subscriptions.len() >= MOST {
            return Err(format!("a connection has at most {MOST} subscriptions: unsubscribe from one"));
        }
        self.caller.may(Resource::Threads, Action::Read).await.map_err(|error| error.to_string())?;
        let subscription = Uuid::new_v4().to_string();
        // The events begin anew from where this subscription wants them. The others have had what was sent so far.
        if self.events.is_none() || since < self.sent {
            for (_, had) in self.subscriptions.values_mut() {
                *had = self.sent.max(*had);
            }
            self.pass += u64::from(since < self.sent);
            self.known = self.known.max(self.sent);
            self.sent = since;
            self.events = Some(Events::new(&self.caller, &self.thread, since).holding_ends());
        }
        self.subscriptions.insert(subscription.clone(), (filter, since));
        Ok(json!({ "subscription_id": subscription, "replayed_events": 0 }))
    }
}
