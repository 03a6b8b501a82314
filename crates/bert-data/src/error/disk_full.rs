//! A full disk, wherever in a chain of causes it was said.

/// Whether an error, or what caused it, is that a disk or quota is full.
#[must_use]
pub fn is_disk_full(error: &(dyn std::error::Error + 'static)) -> bool {
    use std::io::ErrorKind::{QuotaExceeded, StorageFull};
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(io) = error.downcast_ref::<std::io::Error>() {
            if matches!(io.kind(), StorageFull | QuotaExceeded) {
                return true;
            }
            // What an `io::Error` wraps is not among its sources itself.
            if io.get_ref().is_some_and(|inner| is_disk_full(inner)) {
                return true;
            }
        }
        next = error.source();
    }
    false
}
