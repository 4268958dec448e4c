//! The writer of a SQLite file under a scheduler that tries many interleavings: the source of the saver itself, with locks
//! and threads of `shuttle`. SQLite's work is not part of an interleaving: a statement is one step.

mod sqlite {
    mod cases;
    #[path = "../../../src/saver/contention.rs"]
    mod contention;
    #[allow(dead_code)] // the saver uses more of it than the writer does
    #[path = "../../../src/saver/fault.rs"]
    pub(crate) mod fault;
    #[path = "../../../src/saver/job.rs"]
    mod job;
    mod log;
    #[path = "../../../src/saver/open_file.rs"]
    mod open_file;
    mod sync;
    #[path = "../../../src/saver/write_queue.rs"]
    mod write_queue;
    #[allow(dead_code)] // the saver uses more of it than the cases do
    #[path = "../../../src/saver/writer.rs"]
    mod writer;
}
