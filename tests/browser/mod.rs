//! Pages in Chromium: clicks, keys and hovers, and the numbers shown compared with the output of the programs.

mod attention; // bert attention
mod charts; // bert report
mod driver; // a WebDriver client
mod layout; // every page
mod projector; // bert projector
mod watch; // bert watch
