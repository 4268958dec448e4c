//! The v3 event protocol over a WebSocket, with commands and events in one connection.

use std::collections::HashMap;

use axum::extract::Path;
use axum::extract::ws::{Message, WebSocket, WebSocketUpgrade};
use axum::response::Response;
use serde_json::{Value, json};
use uuid::Uuid;

use super::commands::{CommandAnswer, answer, success};
use super::events::{Events, since};
use super::filter::EventFilter;
use super::translate::{V3Event, numbered};
use crate::admission::{Admission, Admitted};
use crate::app::Caller;
use crate::auth::{Action, Resource};
use crate::body::{self, id};
use crate::error::ApiResult;
use crate::sse::HEARTBEAT_EVERY;

/// Maximum number of subscriptions of a connection.
const MAX_SUBSCRIPTIONS: usize = 256;

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

struct Connection {
    caller: Caller,
    thread: String,
    /// The connection's share of the limits. An open connection counts as one request, and each command counts as
    /// another request.
    admission: Option<Admission>,
    /// `None` before the first subscription, which determines the first event.
    events: Option<Events>,
    /// The subscriptions by id. Each has the number of the last event that it has received.
    subscriptions: HashMap<String, (EventFilter, u64)>,
    /// The greatest position that was sent in this pass over the thread. Before the first event, the position after
    /// which the pass begins.
    sent: u64,
    /// The number of times that the connection has read the thread again. Later passes have greater event numbers.
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
            let next = async {
                match events {
                    Some(events) => events.next().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                // Commands first: a new subscription must receive the events that are sent next.
                biased;
                received = socket.recv() => match received {
                    Some(Ok(message)) => if !self.receive(&mut socket, message).await { return },
                    Some(Err(_)) | None => return,
                },
                next = next => {
                    let Ok(Some(event)) = next else {
                        // The thread was deleted, or cannot be read.
                        let _ = socket.send(Message::Close(None)).await;
                        return;
                    };
                    if !self.send(&mut socket, event).await {
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

    /// Returns the number that the client knows for the last event that was sent.
    fn applied(&self) -> u64 {
        numbered(self.sent, self.pass)
    }

    /// Sends an event if any subscription includes it, and only once if several do. Returns false if the client has
    /// disconnected.
    async fn send(&mut self, socket: &mut WebSocket, event: V3Event) -> bool {
        let is_wanted = self.subscriptions.values().any(|(filter, since)| event.seq > *since && filter.wants(&event));
        self.sent = self.sent.max(event.seq);
        // Clients stop at the end of a run, unless its number shows that they have received it before.
        let pass = if event.ends_run() && event.seq <= self.known { 0 } else { self.pass };
        !is_wanted || socket.send(Message::text(event.in_pass(pass).json().to_string())).await.is_ok()
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
                CommandAnswer::Error { id, error: "unknown_error", message: message.to_owned() }
            }
            Err(error) => CommandAnswer::Error { id: Value::Null, error: "invalid_argument", message: error.detail },
        };
        socket.send(Message::text(json!(reply).to_string())).await.is_ok()
    }

    async fn command(&mut self, command: &Value) -> CommandAnswer {
        let number = command.get("id").cloned().unwrap_or_default();
        let nothing = json!({});
        let params = command.get("params").unwrap_or(&nothing);
        match command.get("method").and_then(Value::as_str) {
            Some("subscription.subscribe" | "subscription.reconnect") => match self.subscribe(params).await {
                Ok(result) => success(number, result, self.applied()),
                Err(message) => CommandAnswer::Error { id: number, error: "invalid_argument", message },
            },
            Some("subscription.unsubscribe") => {
                let wanted = params.get("subscription_id").and_then(Value::as_str).unwrap_or_default();
                if self.subscriptions.remove(wanted).is_some() {
                    return success(number, json!({}), self.applied());
                }
                let message = format!("Unknown subscription: {wanted}");
                CommandAnswer::Error { id: number, error: "no_such_subscription", message }
            }
            _ => answer(&self.caller, &self.thread, command, self.applied()).await,
        }
    }

    async fn subscribe(&mut self, params: &Value) -> Result<Value, String> {
        let (filter, since) = (EventFilter::parse(params)?, since(params)?);
        if self.subscriptions.len() >= MAX_SUBSCRIPTIONS {
            return Err(format!("a connection has at most {MAX_SUBSCRIPTIONS} subscriptions: unsubscribe from one"));
        }
        self.caller.may(Resource::Threads, Action::Read).await.map_err(|error| error.to_string())?;
        let subscription = Uuid::new_v4().to_string();
        // The thread is read again from the start of this subscription. The other subscriptions have received all
        // events up to `sent`.
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
