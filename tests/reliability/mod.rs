//! Wrong, damaged and hostile input, kills, full disks, and the page that promises all that.

mod errors; // wrong input: exit code, message, nothing changed
mod full_disk; // a disk that is really full
mod fuzz_corpus; // the corpus of the fuzz targets, replayed
pub(crate) mod hostile; // files that are hostile or damaged: exit code and message of each
mod kills; // killed at random moments until done: nothing lost, nothing duplicated
mod promises; // the tests that docs/reliability.md names
mod rank_kills; // ranks of a run killed at random moments: the others end, the bits stay
