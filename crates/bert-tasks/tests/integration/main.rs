//! Compares scores with other programs through the public interface.

mod metrics;
mod translation_metrics;
