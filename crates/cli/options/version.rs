//! `--version`: the version, the commit, the features and the processor. `-V` prints the version only.

use std::sync::LazyLock;

/// The features of the package, and whether this build has each of them.
const FEATURES: [(&str, bool); 10] = [
    ("flex", cfg!(feature = "flex")),
    ("ndarray", cfg!(feature = "ndarray")),
    ("cuda", cfg!(feature = "cuda")),
    ("wgpu", cfg!(feature = "wgpu")),
    ("vulkan", cfg!(feature = "vulkan")),
    ("metal", cfg!(feature = "metal")),
    ("mpi", cfg!(feature = "mpi")),
    ("object-stores", cfg!(feature = "object-stores")),
    ("nccl", cfg!(feature = "nccl")),
    ("translation", cfg!(feature = "translation")),
];

/// The commit of the repository that the programs were built from, or `unknown`.
pub const COMMIT: &str = match option_env!("BERT_COMMIT") {
    Some(commit) => commit,
    None => "unknown",
};

/// Returns the version of the programs, and in further lines the commit ("unknown" if the build had no repository), the
/// features and the vector instructions of this processor.
pub fn long_version() -> &'static str {
    static TEXT: LazyLock<String> = LazyLock::new(|| {
        let features: Vec<&str> =
            FEATURES.iter().filter_map(|(name, is_on)| is_on.then_some(*name)).collect();
        format!(
            "{}\ncommit:    {}\nfeatures:  {}\nprocessor: {}",
            env!("CARGO_PKG_VERSION"),
            COMMIT,
            features.join(" "),
            bert_kernels::processor::instruction_set(),
        )
    });
    &TEXT
}
