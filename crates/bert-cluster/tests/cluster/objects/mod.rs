//! Builds from and to a server of S3, also over a network that fails.

mod builds;
mod failures;
mod names;
mod server;
mod storage;
