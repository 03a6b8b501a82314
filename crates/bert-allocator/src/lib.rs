//! A global allocator for programs: when an allocation fails, the program ends with one line on stderr and the exit
//! code [`EXIT_CODE`].
//!
//! The standard library would abort the program instead, with a signal, a core dump and no advice. A failed
//! `try_reserve` ends the program too, because an allocator does not know its caller.

use std::alloc::{GlobalAlloc, Layout};
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};

/// The exit code of a program that runs out of memory.
pub const EXIT_CODE: i32 = 7;

/// An allocator that forwards to another one and ends the program when that one fails.
///
/// ```
/// use std::alloc::System;
///
/// #[global_allocator]
/// static ALLOCATOR: bert_allocator::ExitOnOom<System> =
///     bert_allocator::ExitOnOom::new(System, "use a smaller batch");
/// ```
#[derive(Debug)]
pub struct ExitOnOom<A> {
    inner: A,
    remedy: &'static str,
}

impl<A> ExitOnOom<A> {
    /// Creates an allocator that takes memory from `inner`; `remedy` is the advice in the error message.
    pub const fn new(inner: A, remedy: &'static str) -> Self {
        Self { inner, remedy }
    }

    fn non_null_or_exit(&self, memory: *mut u8, bytes: usize) -> *mut u8 {
        if memory.is_null() {
            exit(bytes, self.remedy);
        }
        memory
    }
}

#[expect(unsafe_code, reason = "the interface of allocators")]
// SAFETY: every call is forwarded unchanged, and a null pointer is never returned; nothing here allocates or panics.
unsafe impl<A: GlobalAlloc> GlobalAlloc for ExitOnOom<A> {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's guarantees are the ones that `inner` requires.
        self.non_null_or_exit(unsafe { self.inner.alloc(layout) }, layout.size())
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as in `alloc`.
        self.non_null_or_exit(unsafe { self.inner.alloc_zeroed(layout) }, layout.size())
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        // SAFETY: as in `alloc`; `memory` came from `inner`.
        self.non_null_or_exit(unsafe { self.inner.realloc(memory, layout, bytes) }, bytes)
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: as in `realloc`.
        unsafe { self.inner.dealloc(memory, layout) }
    }
}

/// Whether a thread is already ending the program.
static EXITING: AtomicBool = AtomicBool::new(false);

/// Writes the error message and ends the program, without allocating.
#[cold]
fn exit(bytes: usize, remedy: &str) -> ! {
    if EXITING.swap(true, Ordering::SeqCst) {
        // Wait, because another thread is ending the program.
        loop {
            std::thread::sleep(std::time::Duration::from_secs(1));
        }
    }
    let mut line = [0; 512];
    let mut rest = &mut line[..];
    // An error means that the message is too long; it is then truncated.
    let _ = writeln!(rest, "error: not enough memory: cannot allocate {bytes} bytes; {remedy}");
    let unwritten = rest.len();
    write_and_exit(&line[..line.len() - unwritten])
}

fn write_and_exit(line: &[u8]) -> ! {
    #[expect(
        unsafe_code,
        reason = "std's stderr has a lock that this thread may hold, and its exit runs other code"
    )]
    // SAFETY: pointer and length belong to one slice; `_exit` takes any number.
    unsafe {
        // A progress bar leaves the cursor in the middle of a line.
        if libc::isatty(libc::STDERR_FILENO) == 1 {
            libc::write(libc::STDERR_FILENO, b"\n".as_ptr().cast(), 1);
        }
        libc::write(libc::STDERR_FILENO, line.as_ptr().cast(), line.len());
        libc::_exit(EXIT_CODE)
    }
}
