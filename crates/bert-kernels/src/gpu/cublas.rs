//! Matrix products of NVIDIA's library cuBLASLt, on the memory of CubeCL.
//!
//! On Hopper its kernels are 3 to 5 times as fast as the best of CubeCL: 500 to 740 TFLOP/s next to 55 to 220 on an
//! H200. The library is loaded when the first product runs; without it [`super::strategy`] computes the products.
//!
//! CubeCL does not give away its stream. A product runs on a stream of its own, between two events: the first waits for
//! all work that the context has, and all later work of the context waits for the second. Both exist since CUDA 12.5.
//! All calls are made by the thread that launches the kernels of CubeCL, so they have a place in its order.
//!
//! The algorithm of a product is a function of its shape, the version of the library and the GPU. Algorithms that divide the
//! sum of a cell over several blocks add in one order too, so equal products have equal bits.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::c_void;
use std::mem::size_of_val;
use std::sync::{LazyLock, Mutex};

use burn::tensor::{DType, Shape};
use burn_cubecl::tensor::CubeTensor;
use burn_std::Metadata;
use cubecl::cuda::CudaRuntime;
use cubecl::device_handle::DeviceHandle;
use cubecl_runtime::runtime::Runtime;
use cubecl_runtime::server::ServerStorage;
use cudarc::cublaslt::{result as lt, sys};
use cudarc::driver::{result as driver, sys as cuda};

use super::empty_shaped;

/// The owner of a device's memory and streams.
type Server = <CudaRuntime as Runtime>::Server;

/// Bytes of scratch memory; NVIDIA recommends 32 MiB for Hopper.
const WORKSPACE: usize = 32 << 20;

/// Alignment of a factor's first element, in bytes.
const ALIGNMENT: u64 = 16;

/// A batch of products `[m, k] x [k, n]`, with the places of the elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Product {
    batch: usize,
    m: usize,
    k: usize,
    n: usize,
    left: Layout,
    right: Layout,
    factors: DType,
    result: DType,
    /// Elements from one row of the result to the next.
    step: usize,
    /// Whether the product is added to the result's values.
    adds: bool,
}

/// The places of the elements of a batch of matrices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Layout {
    /// Whether columns are adjacent instead of rows.
    transposed: bool,
    /// Elements from one row to the next; from one column to the next if transposed.
    step: usize,
    /// Elements from one matrix to the next.
    matrix_step: usize,
}

/// Descriptions of a product and its algorithm, made once for each shape and never freed.
struct Plan {
    description: sys::cublasLtMatmulDesc_t,
    left: sys::cublasLtMatrixLayout_t,
    right: sys::cublasLtMatrixLayout_t,
    result: sys::cublasLtMatrixLayout_t,
    algorithm: sys::cublasLtMatmulAlgo_t,
}

// SAFETY: a plan is made once, and the library only reads it afterwards.
#[expect(unsafe_code, reason = "the library's descriptions are pointers")]
unsafe impl Send for Plan {}
// SAFETY: as above.
#[expect(unsafe_code, reason = "the library's descriptions are pointers")]
unsafe impl Sync for Plan {}

/// Plans of each device and product; `None` where the library cannot compute it.
static PLANS: LazyLock<Mutex<HashMap<(u64, Product), Option<&'static Plan>>>> = LazyLock::new(Mutex::default);

/// Returns `a b`, with sums in f32; `None` if the library cannot compute it on this device.
///
/// f32 factors are rounded to TF32, as CubeCL's kernels do.
///
/// # Shapes
/// - a: `[.., m, k]`, b: `[.., k, n]`, both f32 or both bf16
/// - output: `[.., m, n]`, contiguous
pub(super) fn multiply(a: &CubeTensor, b: &CubeTensor, result: DType) -> Option<CubeTensor> {
    multiply_into_rows(a, b, result, *b.meta.shape().last()?)
}

/// Returns [`multiply`] in rows of `step` elements; the elements after the columns of the product are undefined.
pub(super) fn multiply_into_rows(
    a: &CubeTensor,
    b: &CubeTensor,
    result: DType,
    step: usize,
) -> Option<CubeTensor> {
    let mut stored = a.meta.shape().to_vec();
    let last = stored.len() - 1;
    stored[last] = step;
    let empty = || empty_shaped(a, Shape::from(stored.clone()), result);
    multiply_onto(a, b, (result, step), empty, false)
}

/// Returns `a b + sum` of matrices; sum is f32, contiguous and of the shape of the product.
pub(super) fn multiply_add(a: &CubeTensor, b: &CubeTensor, sum: &CubeTensor) -> Option<CubeTensor> {
    let output = || if sum.can_mut() { sum.clone() } else { sum.copy() };
    multiply_onto(a, b, (DType::F32, *b.meta.shape().last()?), output, true)
}

/// Writes a product to the tensor that `output` returns, or adds it.
fn multiply_onto(
    a: &CubeTensor,
    b: &CubeTensor,
    (result, step): (DType, usize),
    output: impl FnOnce() -> CubeTensor,
    adds: bool,
) -> Option<CubeTensor> {
    if a.client.name() != "cuda" {
        return None;
    }
    let shape = a.meta.shape();
    let rank = shape.num_dims();
    let [m, k, n] = [shape[rank - 2], shape[rank - 1], b.meta.shape()[rank - 1]];
    let batch = shape[..rank - 2].iter().product();
    let [left, right] = [Layout::new(a)?, Layout::new(b)?];
    let product = Product { batch, m, k, n, left, right, factors: a.dtype, result, step, adds };
    let device = DeviceHandle::<Server>::new(a.client.service_id().device);
    let key = (u64::from(device.device_id().index_id), product);
    let plan = *PLANS.lock().expect("a plan never panics").entry(key).or_insert_with(|| {
        device.submit_blocking(move |_| library(|library| library.plan(product)).flatten()).ok().flatten()
    });
    let plan = plan?;
    let mut output = output();
    let bindings = [a, b, &output].map(|x| x.handle.clone().binding());
    let stream = output.handle.stream;
    device.submit(move |server| {
        let resources = bindings.map(|binding| server.get_resource(binding, stream));
        // A buffer without its values carries the error, which the read of a result reports.
        let [Ok(a), Ok(b), Ok(output)] = &resources else { return };
        let pointers = [a, b, output].map(|resource| resource.resource().ptr as *mut c_void);
        let done = library(|library| library.multiply(plan, pointers, adds));
        if let Some(Err(error)) = done {
            panic!("cuBLASLt cannot multiply {product:?}: {error}");
        }
    });
    if step != n {
        let mut visible = shape.to_vec();
        visible[rank - 1] = n;
        *output.meta = Metadata::new(Shape::from(visible), output.meta.strides().clone());
    }
    Some(output)
}

impl Layout {
    /// Returns the layout of a tensor; `None` for elements in a different order.
    fn new(x: &CubeTensor) -> Option<Self> {
        let dims = x.meta.shape().to_vec();
        let steps = x.meta.strides().to_vec();
        let rank = dims.len();
        let rows = dims[rank - 2];
        let columns = dims[rank - 1];
        let aligned = x.handle.offset_start.unwrap_or(0).is_multiple_of(ALIGNMENT);
        let mut matrix_step = None;
        let mut next = 0;
        for axis in (0..rank - 2).rev().filter(|&axis| dims[axis] > 1) {
            if matrix_step.is_some() && steps[axis] != next {
                return None;
            }
            matrix_step.get_or_insert(steps[axis]);
            next = steps[axis] * dims[axis];
        }
        let transposed = match [steps[rank - 2], steps[rank - 1]] {
            [step, 1] if step >= columns || rows == 1 => false,
            [1, step] if step >= rows || columns == 1 => true,
            _ => return None,
        };
        let step = if transposed { steps[rank - 1].max(rows) } else { steps[rank - 2].max(columns) };
        let bytes = |steps: usize| (steps * x.dtype.size()) as u64;
        let matrix_step = matrix_step.unwrap_or(0);
        let whole =
            aligned && bytes(step).is_multiple_of(ALIGNMENT) && bytes(matrix_step).is_multiple_of(ALIGNMENT);
        whole.then_some(Self { transposed, step, matrix_step })
    }
}

/// The library on one device, used by the thread that launches the device's kernels.
struct Library {
    handle: sys::cublasLtHandle_t,
    stream: cuda::CUstream,
    workspace: cuda::CUdeviceptr,
    context: cuda::CUcontext,
    before: cuda::CUevent,
    after: cuda::CUevent,
    order: Order,
}

/// Functions of the driver that order a stream with all work of a context.
#[derive(Clone, Copy)]
struct Order {
    record: unsafe extern "C" fn(cuda::CUcontext, cuda::CUevent) -> cuda::CUresult,
    wait: unsafe extern "C" fn(cuda::CUcontext, cuda::CUevent) -> cuda::CUresult,
}

thread_local! {
    static LIBRARY: RefCell<Option<Option<Library>>> = const { RefCell::new(None) };
}

/// Calls `work` with the library of this thread's device, if there is one.
fn library<R>(work: impl FnOnce(&Library) -> R) -> Option<R> {
    LIBRARY.with_borrow_mut(|library| library.get_or_insert_with(Library::load).as_ref().map(work))
}

impl Order {
    /// Returns the functions, if the driver has them.
    #[expect(unsafe_code, reason = "functions of the driver are found by name")]
    fn load() -> Option<Self> {
        // SAFETY: the driver is loaded, and its documentation has these types.
        unsafe {
            let driver = cuda::culib();
            let record = driver.get(b"cuCtxRecordEvent\0").ok()?;
            let wait = driver.get(b"cuCtxWaitEvent\0").ok()?;
            Some(Self { record: *record, wait: *wait })
        }
    }
}

impl Library {
    /// Returns the library on the device of the current context; `None` if a part of it is missing.
    #[expect(unsafe_code, reason = "the driver and the library are C code")]
    fn load() -> Option<Self> {
        // SAFETY: this only looks for files.
        if !unsafe { sys::is_culib_present() } {
            return None;
        }
        let event = || driver::event::create(cuda::CUevent_flags::CU_EVENT_DISABLE_TIMING).ok();
        Some(Self {
            order: Order::load()?,
            context: driver::ctx::get_current().ok()??,
            stream: driver::stream::create(driver::stream::StreamKind::NonBlocking).ok()?,
            // SAFETY: only the library uses the memory, and writes it before it reads it.
            workspace: unsafe { driver::malloc_sync(WORKSPACE) }.ok()?,
            before: event()?,
            after: event()?,
            handle: lt::create_handle().ok()?,
        })
    }

    /// Returns a plan; `None` if the library has no algorithm.
    fn plan(&self, product: Product) -> Option<&'static Plan> {
        self.try_plan(product).ok().map(|plan| &*Box::leak(Box::new(plan)))
    }

    /// In column-major order a buffer is its transpose, so the library computes `c' = b' a'`.
    #[expect(unsafe_code, reason = "the library is C code")]
    fn try_plan(&self, product: Product) -> Result<Plan, lt::CublasError> {
        use sys::cublasLtMatmulDescAttributes_t::{CUBLASLT_MATMUL_DESC_TRANSA, CUBLASLT_MATMUL_DESC_TRANSB};
        use sys::cublasLtMatmulPreferenceAttributes_t as Preference;
        let Product { batch, m, k, n, left, right, factors, result, step, .. } = product;
        let output = Layout { transposed: false, step, matrix_step: m * step };
        let left_layout = matrix_layout(factors, m, k, left, batch)?;
        let right_layout = matrix_layout(factors, k, n, right, batch)?;
        let result_layout = matrix_layout(result, m, n, output, batch)?;
        let sums = if factors == DType::BF16 {
            sys::cublasComputeType_t::CUBLAS_COMPUTE_32F
        } else {
            sys::cublasComputeType_t::CUBLAS_COMPUTE_32F_FAST_TF32
        };
        let description = lt::create_matmul_desc(sums, sys::cudaDataType_t::CUDA_R_32F)?;
        let preference = lt::create_matmul_pref()?;
        let minimum = ALIGNMENT as u32;
        let alignments = [
            Preference::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES,
            Preference::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        ];
        // SAFETY: all descriptions are valid, and each size belongs to its value.
        let found = unsafe {
            for (attribute, layout) in
                [(CUBLASLT_MATMUL_DESC_TRANSA, right), (CUBLASLT_MATMUL_DESC_TRANSB, left)]
            {
                let operation = i32::from(layout.transposed); // CUBLAS_OP_N, CUBLAS_OP_T
                let size = size_of_val(&operation);
                lt::set_matmul_desc_attribute(description, attribute, (&raw const operation).cast(), size)?;
            }
            let bytes = WORKSPACE;
            let most = Preference::CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES;
            lt::set_matmul_pref_attribute(preference, most, (&raw const bytes).cast(), size_of_val(&bytes))?;
            for alignment in alignments {
                let size = size_of_val(&minimum);
                lt::set_matmul_pref_attribute(preference, alignment, (&raw const minimum).cast(), size)?;
            }
            let [a, b, c] = [right_layout, left_layout, result_layout];
            let found = lt::get_matmul_algo_heuristic(self.handle, description, a, b, c, c, preference);
            lt::destroy_matmul_pref(preference)?;
            found?
        };
        Ok(Plan {
            description,
            left: left_layout,
            right: right_layout,
            result: result_layout,
            algorithm: found.algo,
        })
    }

    /// Puts a product into the order of the context's work. The pointers point to both factors and the result.
    #[expect(unsafe_code, reason = "the driver and the library are C code")]
    fn multiply(&self, plan: &Plan, [a, b, output]: [*mut c_void; 3], adds: bool) -> Result<(), String> {
        let factor = 1.0f32;
        let previous = if adds { 1.0f32 } else { 0.0 };
        // SAFETY: the buffers have the sizes of the plan's layouts, and all other users of their memory come before or
        // after the product, because the context's work does.
        unsafe {
            let text = |error: driver::DriverError| error.to_string();
            (self.order.record)(self.context, self.before).result().map_err(text)?;
            driver::stream::wait_event(
                self.stream,
                self.before,
                cuda::CUevent_wait_flags::CU_EVENT_WAIT_DEFAULT,
            )
            .map_err(text)?;
            lt::matmul(
                self.handle,
                plan.description,
                (&raw const factor).cast(),
                (&raw const previous).cast(),
                b,
                plan.right,
                a,
                plan.left,
                output,
                plan.result,
                output,
                plan.result,
                &raw const plan.algorithm,
                self.workspace as *mut c_void,
                WORKSPACE,
                self.stream.cast(),
            )
            .map_err(|error| error.to_string())?;
            driver::event::record(self.after, self.stream).map_err(text)?;
            (self.order.wait)(self.context, self.after).result().map_err(text)
        }
    }
}

/// Returns the library's description of a batch of `rows x columns` matrices.
#[expect(unsafe_code, reason = "the library is C code")]
fn matrix_layout(
    dtype: DType,
    rows: usize,
    columns: usize,
    layout: Layout,
    batch: usize,
) -> Result<sys::cublasLtMatrixLayout_t, lt::CublasError> {
    use sys::cublasLtMatrixLayoutAttribute_t as Attribute;
    let kind =
        if dtype == DType::BF16 { sys::cudaDataType_t::CUDA_R_16BF } else { sys::cudaDataType_t::CUDA_R_32F };
    // Column-major: the adjacent elements are a column.
    let (height, width) = if layout.transposed { (rows, columns) } else { (columns, rows) };
    let described = lt::create_matrix_layout(kind, height as u64, width as u64, layout.step as i64)?;
    let count = batch as i32;
    let step = layout.matrix_step as i64;
    let counted = Attribute::CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT;
    let stepped = Attribute::CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET;
    // SAFETY: the description is valid, and each size belongs to its value.
    unsafe {
        lt::set_matrix_layout_attribute(described, counted, (&raw const count).cast(), size_of_val(&count))?;
        lt::set_matrix_layout_attribute(described, stepped, (&raw const step).cast(), size_of_val(&step))?;
    }
    Ok(described)
}
