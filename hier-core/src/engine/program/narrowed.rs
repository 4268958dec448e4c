//! Runs with another context. Tools that are used under several contexts need them.

use std::sync::Arc;

use super::{Run, RunShared};

impl<C> Run<C> {
    /// Returns a copy of this run whose context is the value that `part` returns. `part` receives this run's context.
    #[doc(hidden)]
    pub fn narrowed<D>(&self, part: impl FnOnce(&C) -> D) -> Run<D> {
        self.in_context(Arc::new(part(&self.shared.context)))
    }

    /// Returns a copy of this run with another context.
    #[doc(hidden)]
    pub fn in_context<D>(&self, context: Arc<D>) -> Run<D> {
        let RunShared {
            config,
            plan,
            namespace,
            sink,
            tracker,
            heartbeat,
            log,
            parents,
            store,
            steps,
            home,
            unaddressed,
            taint,
            scope,
            background,
            ..
        } = &*self.shared;
        // Without a saver, this id distinguishes runs. Both runs must share it, so it is made before the copy.
        self.shared.checkpoint_id(self.key.step);
        let shared = RunShared {
            context,
            config: config.clone(),
            plan: plan.clone(),
            namespace: namespace.clone(),
            sink: sink.clone(),
            tracker: tracker.clone(),
            heartbeat: heartbeat.clone(),
            id: self.shared.id.clone(),
            log: log.clone(),
            parents: parents.clone(),
            store: store.clone(),
            steps: steps.clone(),
            home: home.clone(),
            unaddressed: unaddressed.clone(),
            taint: taint.clone(),
            scope: scope.clone(),
            background: background.clone(),
        };
        Run {
            shared: Arc::new(shared),
            key: self.key,
            attempt: self.attempt,
            remaining: self.remaining,
            heartbeat: self.heartbeat.clone(),
            base: self.base,
            resume: self.resume.clone(),
            taint: self.taint.clone(),
            hook: self.hook.clone(),
            is_handler: self.is_handler,
        }
    }
}
