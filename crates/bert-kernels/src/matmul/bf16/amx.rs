//! Computes products of packed operands with AMX. Four tile registers hold a block of 32 x 32 numbers of c.
//!
//! A tile register holds sixteen rows of 64 bytes. `tdpbf16ps` multiplies a tile of a (16 rows, 16 pairs of bf16) by a
//! tile of b (16 pairs, 16 columns) and adds the products to a tile of c. For each element it runs two chains of fused
//! multiply-adds from zero, one over the first and one over the second numbers of the pairs, and adds their sum to c;
//! every step rounds to nearest, and subnormal numbers are zero (Intel SDM, TDPBF16PS).
//!
//! Rust's compiler has no stable intrinsics for tiles, so this module uses inline assembly. Linux enables the registers
//! for a process on request.

use std::arch::asm;
use std::marker::PhantomData;
use std::sync::LazyLock;

use super::pack::{B_LANES, LANES, PAIRS};
use crate::matmul::matrix_view::MatrixMut;

/// Number of rows, and of columns, of a block of c.
pub(crate) const SIDE: usize = 2 * LANES;
const _: () = assert!(SIDE == B_LANES);

/// Returns whether the processor has bf16 tiles and the system lets this process use them.
pub(crate) fn supported() -> bool {
    static AVAILABLE: LazyLock<bool> = LazyLock::new(|| processor_has_tiles() && request_permission());
    *AVAILABLE
}

fn processor_has_tiles() -> bool {
    use std::arch::x86_64::{__cpuid, __cpuid_count, _xgetbv};
    const OSXSAVE: u32 = 1 << 27;
    const AMX_BF16: u32 = 1 << 22;
    const AMX_TILE: u32 = 1 << 24;
    const TILE_STATE: u64 = 0b11 << 17;
    if __cpuid(0).eax < 7 || __cpuid(1).ecx & OSXSAVE == 0 {
        return false;
    }
    let has = __cpuid_count(7, 0).edx & (AMX_BF16 | AMX_TILE) == AMX_BF16 | AMX_TILE;
    #[expect(unsafe_code, reason = "reads a register that OSXSAVE says is there")]
    // SAFETY: OSXSAVE is set, so the instruction exists and is enabled.
    let saved = unsafe { _xgetbv(0) };
    has && saved & TILE_STATE == TILE_STATE
}

/// Requests the tile registers, which Linux enables on request only.
#[cfg(target_os = "linux")]
fn request_permission() -> bool {
    const ARCH_REQ_XCOMP_PERM: libc::c_int = 0x1023;
    const XFEATURE_XTILEDATA: libc::c_int = 18;
    #[expect(unsafe_code, reason = "a system call that std does not have")]
    // SAFETY: the call takes two numbers and touches no memory of this process.
    let denied = unsafe { libc::syscall(libc::SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) };
    denied == 0
}

#[cfg(not(target_os = "linux"))]
fn request_permission() -> bool {
    false
}

/// The configured tile registers of this thread. Dropping the value resets them. The value cannot move to another
/// thread.
pub(crate) struct TileRegisters(PhantomData<*const ()>);

/// The operand of `ldtilecfg`: palette 1, and 16 rows of 64 bytes for each of eight registers.
#[repr(C, align(64))]
struct Configuration {
    palette: u8,
    start_row: u8,
    reserved: [u8; 14],
    bytes: [u16; 16],
    rows: [u8; 16],
}

impl TileRegisters {
    pub(crate) fn configure() -> Self {
        static ALL: Configuration = Configuration {
            palette: 1,
            start_row: 0,
            reserved: [0; 14],
            bytes: [64, 64, 64, 64, 64, 64, 64, 64, 0, 0, 0, 0, 0, 0, 0, 0],
            rows: [16, 16, 16, 16, 16, 16, 16, 16, 0, 0, 0, 0, 0, 0, 0, 0],
        };
        assert!(supported(), "this processor has no AMX tiles for bf16");
        #[expect(unsafe_code, reason = "tiles have no stable intrinsics")]
        // SAFETY: `supported` holds, and the operand is 64 bytes in the form that the instruction takes.
        unsafe {
            asm!(
                "ldtilecfg [{configuration}]",
                configuration = in(reg) &raw const ALL,
                options(nostack, preserves_flags, readonly),
                out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
                out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
            );
        }
        Self(PhantomData)
    }

    /// Writes the sum of the products of all terms to c, or adds it to c if `add` is true. First prefetches
    /// all rows of c into the L1 cache, because c is in more distant memory than the operands.
    pub(crate) fn products(&self, terms: &[Term], c: MatrixMut, add: bool) {
        let MatrixMut { data: c, row_stride: c_row } = c;
        assert!(!terms.is_empty(), "a product needs at least one term");
        assert!(c_row >= SIDE && c.len() >= (SIDE - 1) * c_row + SIDE, "c holds the block");
        let (top, bottom) = c.split_at_mut(LANES * c_row);
        #[expect(unsafe_code, reason = "tiles have no stable intrinsics")]
        // SAFETY: `self` proves that the registers are configured. The outer loop reads every term of the slice, which
        // has the layout of C. For each term the inner loop reads memory that `Term::new` has checked: `tiles` blocks
        // of 1024 bytes in each half of a, and the same number of 2048 bytes in b; a prefetch reads nothing. Rows of c
        // are read or written 16 by 16, 128 bytes each, in both halves; the assertion above checks that all of them are
        // in bounds.
        unsafe {
            asm!(
                "mov {upper}, {top}; mov {lower}, 32",
                "5:",
                "prefetchw [{upper}]; prefetchw [{upper} + 64]; add {upper}, {c_stride}; dec {lower}; jnz 5b",
                "test {add}, {add}; jnz 3f",
                "tilezero tmm0; tilezero tmm1; tilezero tmm2; tilezero tmm3",
                "jmp 4f",
                "3:",
                "tileloadd tmm0, [{top} + {c_stride}]; tileloadd tmm1, [{top} + {c_stride} + 64]",
                "tileloadd tmm2, [{bottom} + {c_stride}]; tileloadd tmm3, [{bottom} + {c_stride} + 64]",
                "4:",
                "mov {upper}, [{term}]; mov {b}, [{term} + 8]; mov {ahead}, [{term} + 16]; mov {tiles}, [{term} + 24]",
                "mov {lower}, {tiles}; shl {lower}, 10; add {lower}, {upper}",
                "2:",
                "tileloadd tmm4, [{upper} + {stride}]",
                "prefetcht0 [{ahead}]; prefetcht0 [{ahead} + 64]; prefetcht0 [{ahead} + 128]; prefetcht0 [{ahead} + 192]",
                "tileloadd tmm6, [{b} + 2 * {stride}]",
                "prefetcht0 [{ahead} + 256]; prefetcht0 [{ahead} + 320]; prefetcht0 [{ahead} + 384]; prefetcht0 [{ahead} + 448]",
                "tileloadd tmm7, [{b} + 2 * {stride} + 64]",
                "tdpbf16ps tmm0, tmm4, tmm6",
                "prefetcht0 [{ahead} + 512]; prefetcht0 [{ahead} + 576]; prefetcht0 [{ahead} + 640]; prefetcht0 [{ahead} + 704]",
                "tileloadd tmm5, [{lower} + {stride}]",
                "tdpbf16ps tmm1, tmm4, tmm7",
                "prefetcht0 [{ahead} + 768]; prefetcht0 [{ahead} + 832]; prefetcht0 [{ahead} + 896]; prefetcht0 [{ahead} + 960]",
                "tdpbf16ps tmm2, tmm5, tmm6; tdpbf16ps tmm3, tmm5, tmm7",
                "add {upper}, 1024; add {lower}, 1024; add {b}, 2048; add {ahead}, 1024",
                "dec {tiles}; jnz 2b",
                "add {term}, 32; dec {terms}; jnz 4b",
                "tilestored [{top} + {c_stride}], tmm0; tilestored [{top} + {c_stride} + 64], tmm1",
                "tilestored [{bottom} + {c_stride}], tmm2; tilestored [{bottom} + {c_stride} + 64], tmm3",
                term = inout(reg) terms.as_ptr() => _,
                terms = inout(reg) terms.len() => _,
                upper = out(reg) _, lower = out(reg) _, b = out(reg) _, ahead = out(reg) _, tiles = out(reg) _,
                top = in(reg) top.as_mut_ptr(),
                bottom = in(reg) bottom.as_mut_ptr(),
                stride = in(reg) 64usize,
                c_stride = in(reg) 4 * c_row,
                add = in(reg) usize::from(add),
                options(nostack),
                out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
                out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
            );
        }
    }
}

/// One of the products that add up to a block of c.
#[repr(C)]
pub(crate) struct Term<'a> {
    a: *const u32,
    b: *const u32,
    ahead: *const u32,
    tiles: usize,
    factors: PhantomData<&'a [u32]>,
}

const _: () = assert!(size_of::<Term>() == 32);

impl<'a> Term<'a> {
    /// Creates the product of 32 lanes of a in [tiles](super::pack::Layout::Tiles) and a panel of 32 lanes of
    /// b. The multiplication prefetches the beginning of `ahead`, half as many words as b has, into the L1
    /// cache, because loading tiles from more distant memory is three times as slow.
    #[inline]
    pub(crate) fn new(a: &'a [u32], b: &'a [u32], ahead: &'a [u32]) -> Self {
        let tiles = b.len() / (PAIRS * B_LANES);
        assert!(tiles > 0 && b.len() == tiles * PAIRS * B_LANES, "whole tiles of b");
        assert_eq!(a.len(), b.len(), "as many tiles of a as of b");
        assert!(2 * ahead.len() >= b.len(), "half as much ahead as b has");
        Self { a: a.as_ptr(), b: b.as_ptr(), ahead: ahead.as_ptr(), tiles, factors: PhantomData }
    }
}

impl Drop for TileRegisters {
    fn drop(&mut self) {
        #[expect(unsafe_code, reason = "tiles have no stable intrinsics")]
        // SAFETY: the instruction exists, since this value exists; it has no operands and accesses no memory.
        unsafe {
            asm!(
                "tilerelease",
                options(nostack, nomem, preserves_flags),
                out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
                out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
            );
        }
    }
}
