//! Turns a panic of another crate into an error.
//!
//! Decoders panic on some bytes, and a driver's runtime panics if the driver is missing. [`catch_panic`] returns the
//! message of such a panic; nothing is printed, and the program continues. Values used by the panicked work must not be
//! used again. Do not use it for the code of this workspace, whose panics are bugs.

use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Once;

thread_local! {
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// Runs `work` on this thread and catches its panics silently; other threads are not affected.
///
/// # Errors
/// Fails when `work` panics; the error is the message of the panic.
pub fn catch_panic<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    static QUIET_INSIDE: Once = Once::new();
    QUIET_INSIDE.call_once(|| {
        let outside = take_hook();
        set_hook(Box::new(move |panic| {
            if !INSIDE.get() {
                outside(panic);
            }
        }));
    });
    let before = INSIDE.replace(true);
    let result = catch_unwind(AssertUnwindSafe(work));
    INSIDE.set(before);
    result.map_err(|panic| message(&*panic))
}

fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("no reason given").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_an_error_inside_and_a_panic_outside() {
        assert_eq!(catch_panic(|| 7), Ok(7));
        assert_eq!(catch_panic(|| panic!("plain")), Err::<(), _>("plain".to_owned()));
        let index = std::hint::black_box(9);
        let message = catch_panic(|| [1, 2, 3][index]).unwrap_err();
        assert_eq!(message, "index out of bounds: the len is 3 but the index is 9");
        assert_eq!(catch_panic(|| catch_panic(|| panic!("inner"))), Ok(Err::<(), _>("inner".to_owned())));
        assert!(!INSIDE.get());
        assert!(catch_unwind(|| panic!("as ever")).is_err());
    }
}
