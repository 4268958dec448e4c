//! Hides the channels that a lock file marks as secret. A checkpoint may be older than this mark and not contain it.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use hier_core::checkpoint::Schema;
use hier_testkit::lock::{LOCK_FILE, Lock};

use super::ThreadsError;

/// Adds the secret channels of the lock file's graph to the schema of a checkpoint.
pub(super) fn hide_locked(file: Option<&Path>, schema: &mut Arc<Schema>) -> Result<(), ThreadsError> {
    let path = file.unwrap_or(Path::new(LOCK_FILE));
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound && file.is_none() => return Ok(()),
        Err(error) => return Err(ThreadsError::Usage(format!("`{}` cannot be read: {error}", path.display()))),
    };
    let lock = Lock::parse(&text).map_err(|error| ThreadsError::Usage(format!("`{}`: {error}", path.display())))?;
    let graphs = lock.graphs.values().filter(|graph| graph.current(&schema.graph) == graph.name);
    let secrets = graphs.flat_map(|graph| &graph.channels).filter(|(_, channel)| channel.secret);
    let secrets: Vec<String> = secrets.map(|(name, _)| name.clone()).collect();
    Arc::make_mut(schema).secrets.extend(secrets);
    Ok(())
}
