//! Detection of the bf16 instructions.

/// Returns whether this processor has the instructions of the fused kernels' bf16 products (AVX-512 BF16; AMX tiles are
/// used as well if there are any). On other processors, [`Precision::Bf16`] runs burn's own operations, which are slow
/// on a CPU.
pub fn has_bf16_instructions() -> bool {
    #[cfg(target_arch = "x86_64")]
    return crate::matmul::bf16::supported();
    #[cfg(not(target_arch = "x86_64"))]
    false
}
