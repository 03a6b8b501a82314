//! Takes the place of an optional dependency of burn or CubeCL that no feature of this workspace enables (`[patch.crates-io]` in
//! the root `Cargo.toml`). It is never compiled.

compile_error!("to enable this crate, remove its line from [patch.crates-io] in the root Cargo.toml");
