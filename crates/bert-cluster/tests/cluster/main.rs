//! Every engine makes the same bytes, and a cluster that loses machines makes them too or says what happened.

mod engines;
mod faults;
mod objects;
mod processes;
mod text;
