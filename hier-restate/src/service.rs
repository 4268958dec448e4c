//! The services of a graph for Restate: one for threads, one for tasks and one for runs.
//!
//! The names of the services contain the name of the graph, which is known only at run time. The macros of Restate's
//! SDK therefore cannot define them.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use restate_sdk::context::{RequestTarget, SharedObjectContext};
use restate_sdk::discovery::{self, HandlerType, ServiceType};
use restate_sdk::endpoint::{self, ContextInternal, HandlerOptions, ServiceOptions};
use restate_sdk::errors::HandlerError;
use restate_sdk::prelude::*;
use restate_sdk::service::macro_support::{ServiceBoxFuture, service_definition};
use restate_sdk::service::{Service, ServiceDefinition};
use uuid::Uuid;

use crate::error::{Error, RunFailure};
use crate::host::Host;
use crate::message::{Message, Packed};
use crate::stored;
use crate::thread::{ThreadObject, stopped};
use crate::wire::{
    Begin, EncodedEntries, Ended, Expire, Post, StateRequest, TaskCall, TaskDone, ThreadDump, UpdateState, Wake,
    run_service, task_service,
};
use crate::work::{WorkEnd, WorkResult};

/// The time after which Restate aborts an invocation that adds no entry to its journal. A node may run for this time.
const LONG: Duration = Duration::from_hours(168);
/// The time after which Restate suspends an invocation that waits for the end of a run.
const WAITS: Duration = Duration::from_mins(1);

struct ThreadService(Arc<Host>);

struct TaskService(Arc<Host>);

/// The service for runs. Each invocation begins a run and waits for its end.
struct RunService(Arc<Host>);

pub(crate) fn definitions(host: &Arc<Host>) -> Result<[ServiceDefinition; 3], Error> {
    let exclusive =
        ["begin", "slice", "wake", "update", "post", "cancel", "delete", "expire"].map(|name| (name, false));
    let shared = ["read", "base"].map(|name| (name, true));
    let handlers: Vec<_> = exclusive.into_iter().chain(shared).collect();
    let object = discovered(&host.name, ServiceType::VirtualObject, &handlers)?;
    let tasks = discovered(&task_service(&host.name), ServiceType::Service, &[("run", false)])?;
    let runs = discovered(&run_service(&host.name), ServiceType::Service, &[("invoke", false)])?;
    let inside = |handlers: &[&str], options: ServiceOptions| {
        let private = HandlerOptions::new().ingress_private(true);
        handlers.iter().fold(options, |options, name| options.handler(*name, private.clone()))
    };
    let object_options = inside(&["slice", "wake", "expire", "base"], options().enable_lazy_state(true));
    Ok([
        service_definition(ThreadService(host.clone()), object).options(object_options),
        service_definition(TaskService(host.clone()), tasks).options(inside(&["run"], options())),
        service_definition(RunService(host.clone()), runs)
            .options(options().idempotency_retention(host.ends_kept).inactivity_timeout(WAITS)),
    ])
}

fn options() -> ServiceOptions {
    ServiceOptions::new()
        .inactivity_timeout(LONG)
        .abort_timeout(LONG)
        // The journal is not needed once its changes are stored.
        .journal_retention(Duration::ZERO)
        .retry_policy_initial_interval(Duration::from_millis(50))
        .retry_policy_max_interval(Duration::from_secs(5))
        // By default, Restate pauses an invocation after 70 attempts, and only an operator can resume it.
        .retry_policy_max_attempts(u32::MAX.into())
}

fn discovered(name: &str, ty: ServiceType, handlers: &[(&str, bool)]) -> Result<discovery::Service, Error> {
    let wrong = |what: &str| {
        Error::Input(format!(
            "`{what}` is not a valid name for Restate: use letters, digits, `_`, `-` and `.`, with a letter first"
        ))
    };
    let handler = |(name, shared): &(&str, bool)| {
        Ok(discovery::Handler {
            name: discovery::HandlerName::try_from(*name).map_err(|_| wrong(name))?,
            input: Some(discovery::InputPayload::from_metadata::<Vec<u8>>()),
            output: Some(discovery::OutputPayload::from_metadata::<Vec<u8>>()),
            ty: shared.then_some(HandlerType::Shared),
            documentation: None,
            metadata: HashMap::default(),
            abort_timeout: None,
            inactivity_timeout: None,
            journal_retention: None,
            idempotency_retention: None,
            workflow_completion_retention: None,
            enable_lazy_state: None,
            ingress_private: None,
            retry_policy_initial_interval: None,
            retry_policy_max_interval: None,
            retry_policy_max_attempts: None,
            retry_policy_exponentiation_factor: None,
            retry_policy_on_max_attempts: None,
        })
    };
    Ok(discovery::Service {
        ty,
        name: discovery::ServiceName::try_from(name.to_owned()).map_err(|_| wrong(name))?,
        handlers: handlers.iter().map(handler).collect::<Result<_, Error>>()?,
        documentation: None,
        metadata: HashMap::default(),
        abort_timeout: None,
        inactivity_timeout: None,
        journal_retention: None,
        idempotency_retention: None,
        enable_lazy_state: None,
        ingress_private: None,
        retry_policy_initial_interval: None,
        retry_policy_max_interval: None,
        retry_policy_max_attempts: None,
        retry_policy_exponentiation_factor: None,
        retry_policy_on_max_attempts: None,
    })
}

fn answer<T: restate_sdk::serde::Serialize>(ctx: &ContextInternal, result: Result<T, HandlerError>) {
    ctx.handle_handler_result(result);
    ctx.end();
}

fn unknown(ctx: &ContextInternal) -> endpoint::Error {
    endpoint::Error::unknown_handler(ctx.service_name(), ctx.handler_name())
}

impl Service for ThreadService {
    type Future = ServiceBoxFuture;

    fn handle(&self, ctx: ContextInternal) -> ServiceBoxFuture {
        let host = self.0.clone();
        Box::pin(async move {
            match ctx.handler_name() {
                "begin" => {
                    let (Packed(input), metadata) = ctx.input::<Packed<Begin>>().await;
                    let object = ObjectContext::from((&ctx, metadata));
                    let done = async { Ok(ThreadObject::open(&object, &ctx, host).await?.begin(input).await?) };
                    answer(&ctx, done.await);
                }
                "slice" => {
                    let (Packed(run), metadata) = ctx.input::<Packed<Uuid>>().await;
                    let object = ObjectContext::from((&ctx, metadata));
                    let done = async { Ok(ThreadObject::open(&object, &ctx, host).await?.continue_run(run).await?) };
                    answer(&ctx, done.await);
                }
                "wake" => {
                    let (Packed(wake), metadata) = ctx.input::<Packed<Wake>>().await;
                    let object = ObjectContext::from((&ctx, metadata));
                    let done = async { Ok(ThreadObject::open(&object, &ctx, host).await?.wake(wake).await?) };
                    answer(&ctx, done.await);
                }
                "update" => {
                    let (Packed(update), metadata) = ctx.input::<Packed<UpdateState>>().await;
                    let object = ObjectContext::from((&ctx, metadata));
                    let done = async { Ok(ThreadObject::open(&object, &ctx, host).await?.update(update).await?) };
                    answer(&ctx, done.await);
                }
                "post" => {
                    let (Packed(post), metadata) = ctx.input::<Packed<Post>>().await;
                    let object = ObjectContext::from((&ctx, metadata));
                    let done = async { Ok(ThreadObject::open(&object, &ctx, host).await?.post(post).await?) };
                    answer(&ctx, done.await);
                }
                "cancel" => {
                    let (Packed(run), metadata) = ctx.input::<Packed<Option<uuid::Uuid>>>().await;
                    let object = ObjectContext::from((&ctx, metadata));
                    let done = async { Ok(ThreadObject::open(&object, &ctx, host).await?.cancel(run).await?) };
                    answer(&ctx, done.await);
                }
                "delete" => {
                    let (_, metadata) = ctx.input::<Vec<u8>>().await;
                    let object = ObjectContext::from((&ctx, metadata));
                    let done = async {
                        ThreadObject::open(&object, &ctx, host).await?.delete().await?;
                        Ok(Packed(()))
                    };
                    answer(&ctx, done.await);
                }
                "expire" => {
                    let (Packed(expire), metadata) = ctx.input::<Packed<Expire>>().await;
                    let object = ObjectContext::from((&ctx, metadata));
                    let done = async {
                        ThreadObject::open(&object, &ctx, host).await?.expire(expire);
                        Ok(Packed(()))
                    };
                    answer(&ctx, done.await);
                }
                "read" => {
                    let (Packed(read), metadata) = ctx.input::<Packed<StateRequest>>().await;
                    let object = SharedObjectContext::from((&ctx, metadata));
                    answer(&ctx, stored::read(&object, &ctx, &host, read).await);
                }
                "base" => {
                    let (_, metadata) = ctx.input::<Vec<u8>>().await;
                    let object = SharedObjectContext::from((&ctx, metadata));
                    answer(&ctx, stored::base(&object, &ctx, &host).await);
                }
                _ => return Err(unknown(&ctx)),
            }
            Ok(())
        })
    }
}

impl Service for RunService {
    type Future = ServiceBoxFuture;

    fn handle(&self, ctx: ContextInternal) -> ServiceBoxFuture {
        let host = self.0.clone();
        Box::pin(async move {
            if ctx.handler_name() != "invoke" {
                return Err(unknown(&ctx));
            }
            let (Packed(begin), metadata) = ctx.input::<Packed<Begin>>().await;
            let context = Context::from((&ctx, metadata));
            answer(&ctx, invoke(&context, &host, begin).await);
            Ok(())
        })
    }
}

async fn invoke(ctx: &Context<'_>, host: &Host, begin: Begin) -> Result<Message<Ended>, HandlerError> {
    let (awakeable, ended) = ctx.awakeable::<Message<Ended>>();
    let (thread, run) = (begin.settings.thread.clone(), begin.run);
    let target = RequestTarget::object(&host.name, &thread, "begin");
    let begin = Begin { awakeable: Some(awakeable), ..begin };
    match Message::encode("the request of the run", &begin, host.limit) {
        Ok(begin) => {
            ctx.request::<_, ()>(target, begin).send();
        }
        Err(failure) => return Ok(Message::unchecked(&Err(failure))),
    }
    match ended.await {
        // The worker that sent the message has checked it.
        Ok(ended) => Ok(ended),
        Err(error) => {
            // The run must not continue without this invocation.
            let target = RequestTarget::object(&host.name, &thread, "cancel");
            ctx.request::<_, Packed<bool>>(target, Packed(Some(run))).call().await?;
            Ok(Message::answer("the error of the run", &Err(stopped(&thread, &error)), host.limit))
        }
    }
}

impl Service for TaskService {
    type Future = ServiceBoxFuture;

    fn handle(&self, ctx: ContextInternal) -> ServiceBoxFuture {
        let host = self.0.clone();
        Box::pin(async move {
            if ctx.handler_name() != "run" {
                return Err(unknown(&ctx));
            }
            let (Packed(call), metadata) = ctx.input::<Packed<TaskCall>>().await;
            let context = Context::from((&ctx, metadata));
            answer(&ctx, task(&context, host, call).await);
            Ok(())
        })
    }
}

/// Executes a task. If the task's node is a graph, each superstep of that graph is a slice.
async fn task(ctx: &Context<'_>, host: Arc<Host>, call: TaskCall) -> Result<Message<TaskDone>, HandlerError> {
    let limit = host.limit;
    let done = task_slices(ctx, host, call).await?;
    let encoded = Message::encode("the data of the task", &done, limit);
    Ok(encoded.unwrap_or_else(|failure| Message::unchecked(&TaskDone::new(Vec::new(), Err(failure)))))
}

async fn task_slices(ctx: &Context<'_>, host: Arc<Host>, call: TaskCall) -> Result<TaskDone, HandlerError> {
    let call = Arc::new(call);
    let mut base: Option<Vec<u8>> = None;
    let mut entries: Vec<EncodedEntries> = Vec::new();
    let mut progress = call.piece.progress.clone();
    loop {
        let piece = {
            let (host, call, base, entries, progress) =
                (host.clone(), call.clone(), base.clone(), entries.clone(), progress.clone());
            || async move { Ok(host.task(&call, base, entries, progress).await?) }
        };
        match ctx.run(piece).name("task").await?.read()? {
            None => {
                let target = RequestTarget::object(&host.name, &call.at.thread, "base");
                let request = ctx.request::<_, Packed<Result<ThreadDump, RunFailure>>>(target, Vec::<u8>::new());
                match request.call().await?.0 {
                    Ok(ThreadDump(dump)) => base = Some(dump),
                    Err(failure) => return Ok(TaskDone::new(Vec::new(), Err(failure))),
                }
            }
            Some(done) => {
                let WorkResult { entries: more, end, progress: made, .. } = done;
                entries.push(more);
                let end = match end {
                    WorkEnd::Stored => {
                        progress = made;
                        continue;
                    }
                    WorkEnd::Task(end) => end,
                    WorkEnd::Run(Err(failure)) => Err(failure),
                    other => Err(RunFailure::new("RunError", format!("unexpected end of a task: {other:?}"))),
                };
                return Ok(TaskDone::new(entries, end));
            }
        }
    }
}
