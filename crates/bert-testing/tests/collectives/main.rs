//! Tests the transports.

mod common;
mod operations;
mod tcp;
