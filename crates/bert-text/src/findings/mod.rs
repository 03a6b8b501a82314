//! Findings about the form of a text, counted while it is read.
//!
//! [`line_check`] checks each line and row; [`signs`] counts the lines and rows that do not look like running text;
//! [`remarks`] turns the counts of all files into sentences.

pub mod line_check;
pub mod remarks;
mod signs;
