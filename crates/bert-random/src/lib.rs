//! The random number generators of the workspace. Each stream of draws is a pure function of a seed and an address.
//!
//! | draws | item |
//! |---|---|
//! | pairs, masks, orders of examples, dropout seeds | [`Stream`], ChaCha addressed by seed, [`Domain`] and indices |
//! | a permutation of a billion numbers, computed without a table | [`Permutation`] |
//! | initial weights, addressed by seed and the parameter's name | [`normal`], [`normal_within`], [`uniform`] |
//! | the draws of Google's script, one by one | [`PythonRandom`], CPython's Mersenne Twister |
//!
//! ```
//! use bert_random::{Domain, Random, Stream};
//!
//! // The masks of document 12 in pass 3 under seed 42: the same on every machine, whatever was drawn before.
//! let mut stream = Stream::new(42, Domain::Masks, &[3, 12]);
//! let position = stream.below(128);
//! assert_eq!(position, Stream::new(42, Domain::Masks, &[3, 12]).below(128));
//! ```
//!
//! A [`Stream`] implements [`rand_core::Rng`], so the distributions of the crate `rand` can be drawn from it.
//!
//! The kernels compute dropout masks by hashing a counter; only the seeds come from this crate. These generators are
//! not suitable for cryptography.

mod permutation;
mod python;
mod stream;
mod values;

pub use permutation::Permutation;
pub use python::PythonRandom;
/// The traits of generators, in the version that [`Stream`] implements.
pub use rand_chacha::rand_core;
pub use stream::{Domain, Random, Stream};
pub use values::{normal, normal_within, uniform};
