//! Commands that make, show or use a model.

pub mod attention;
pub mod export;
pub mod extend_vocab;
pub mod features;
pub mod fill_mask;
pub mod import;
pub mod init;
pub mod inspect;
pub mod merge;
pub mod nearest;
pub mod projector;
