//! Process groups of threads, and faults of a transport.

mod faulty;
mod threads;

pub use faulty::{Fault, FaultyTransport};
pub use threads::ThreadTransport;
