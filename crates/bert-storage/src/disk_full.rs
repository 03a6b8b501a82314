//! Recognizes a full disk or quota anywhere in an error's chain of causes.

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

#[cfg(test)]
mod tests {
    use std::io::{Error, ErrorKind};

    use super::*;

    #[test]
    fn it_is_found_wherever_it_was_said() {
        let full = || Error::from(ErrorKind::StorageFull);
        let wrapped = crate::error::Error::io("write", std::path::Path::new("shard"))(full());
        assert!(is_disk_full(&full()) && is_disk_full(&Error::from(ErrorKind::QuotaExceeded)));
        assert!(is_disk_full(&Error::other(full())) && is_disk_full(&wrapped));
        assert!(is_disk_full(&Error::other(wrapped)));
        assert!(!is_disk_full(&Error::other("full")) && !is_disk_full(&Error::from(ErrorKind::NotFound)));
    }
}
