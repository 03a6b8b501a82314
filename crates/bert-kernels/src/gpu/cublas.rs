//! Matrix products by NVIDIA's library cuBLASLt on buffers of CubeCL.
//!
//! For the dense layers of BERT-base on an H200, it is about 3 to 5 times as fast as the best kernels of
//! CubeCL (docs/results.md). The library is loaded when the first product runs; without it
//! [`super::strategy`] computes the products.
//!
//! CubeCL does not expose its stream. Therefore, a product runs on a separate stream between two events. The
//! product waits for the first event, which records all earlier work of the context; all later work of the
//! context waits for the second event. CUDA 12.5 added the driver functions for this. All calls come from the
//! thread that launches CubeCL's kernels, so they keep the order of the launches.
//!
//! The algorithm of a product is a function of its shape, the version of the library and the GPU. Algorithms
//! that divide the sum of an element among several thread blocks also add in a fixed order, so equal products
//! have equal bits.

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

/// CubeCL's server, which owns the memory and the streams of a device.
type Server = <CudaRuntime as Runtime>::Server;

/// Size of the scratch memory in bytes; NVIDIA recommends 32 MiB for Hopper.
const WORKSPACE: usize = 32 << 20;

/// Alignment of an operand's first element, in bytes.
const ALIGNMENT: u64 = 16;

/// A batch of products `[m, k] x [k, n]`, with the layouts of the operands.
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
    /// Distance from one row of the result to the next, in elements.
    step: usize,
    /// Whether the product is added to the existing values of the result.
    adds: bool,
}

/// The memory layout of a batch of matrices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Layout {
    /// Whether the elements of a column are adjacent, instead of the elements of a row.
    transposed: bool,
    /// Distance from one row to the next in elements; from one column to the next if transposed.
    step: usize,
    /// Distance from one matrix to the next, in elements.
    matrix_step: usize,
}

/// The library's descriptors of a product and its algorithm, created once for each product and never freed.
struct Plan {
    description: sys::cublasLtMatmulDesc_t,
    left: sys::cublasLtMatrixLayout_t,
    right: sys::cublasLtMatrixLayout_t,
    result: sys::cublasLtMatrixLayout_t,
    algorithm: sys::cublasLtMatmulAlgo_t,
}

// SAFETY: a plan is complete before it is shared, and the library only reads it afterwards.
#[expect(unsafe_code, reason = "the library's descriptions are pointers")]
unsafe impl Send for Plan {}
// SAFETY: as above.
#[expect(unsafe_code, reason = "the library's descriptions are pointers")]
unsafe impl Sync for Plan {}

/// The plan of each product on each device; `None` if the library cannot compute the product.
static PLANS: LazyLock<Mutex<HashMap<(u64, Product), Option<&'static Plan>>>> = LazyLock::new(Mutex::default);

/// Returns `a b` in the dtype `result`, with sums in f32; `None` if the library cannot compute it on this
/// device.
///
/// Operands in f32 are rounded to TF32, as in CubeCL's kernels.
///
/// # Shapes
/// - a: `[.., m, k]`, b: `[.., k, n]`, both f32 or both bf16
/// - output: `[.., m, n]`, contiguous
pub(super) fn multiply(a: &CubeTensor, b: &CubeTensor, result: DType) -> Option<CubeTensor> {
    multiply_into_rows(a, b, result, *b.meta.shape().last()?)
}

/// Computes [`multiply`] into rows of `step` elements; the elements after the product's last column are
/// undefined.
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

/// Returns `a b + sum` for matrices; `sum` is contiguous, in f32 and has the shape of the product.
pub(super) fn multiply_add(a: &CubeTensor, b: &CubeTensor, sum: &CubeTensor) -> Option<CubeTensor> {
    let output = || if sum.can_mut() { sum.clone() } else { sum.copy() };
    multiply_onto(a, b, (DType::F32, *b.meta.shape().last()?), output, true)
}

/// Writes a product to the tensor that `output` returns, or adds the product to it if `adds` is true. `step`
/// is the distance between rows of the output.
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
        // If an earlier operation failed, its buffer is an error. Skipping the product is safe, because
        // reading the result reports that error.
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
    /// Returns the layout of a tensor; `None` if its strides or its alignment do not fit the library.
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

/// The library's handle and resources on one device. Only the thread that launches the device's kernels uses
/// them.
struct Library {
    handle: sys::cublasLtHandle_t,
    stream: cuda::CUstream,
    workspace: cuda::CUdeviceptr,
    context: cuda::CUcontext,
    before: cuda::CUevent,
    after: cuda::CUevent,
    order: Order,
}

/// Driver functions that record an event for all work of a context, and make all its later work wait for an
/// event.
#[derive(Clone, Copy)]
struct Order {
    record: unsafe extern "C" fn(cuda::CUcontext, cuda::CUevent) -> cuda::CUresult,
    wait: unsafe extern "C" fn(cuda::CUcontext, cuda::CUevent) -> cuda::CUresult,
}

thread_local! {
    static LIBRARY: RefCell<Option<Option<Library>>> = const { RefCell::new(None) };
}

/// Calls `work` with the library of this thread's device and returns the result; `None` without the library.
fn library<R>(work: impl FnOnce(&Library) -> R) -> Option<R> {
    LIBRARY.with_borrow_mut(|library| library.get_or_insert_with(Library::load).as_ref().map(work))
}

impl Order {
    /// Returns the functions; `None` if the driver does not have them.
    #[expect(unsafe_code, reason = "functions of the driver are found by name")]
    fn load() -> Option<Self> {
        // SAFETY: the driver is loaded, and the types are from its documentation.
        unsafe {
            let driver = cuda::culib();
            let record = driver.get(b"cuCtxRecordEvent\0").ok()?;
            let wait = driver.get(b"cuCtxWaitEvent\0").ok()?;
            Some(Self { record: *record, wait: *wait })
        }
    }
}

impl Library {
    /// Loads the library for the device of the current context; returns `None` if a part of it is missing.
    #[expect(unsafe_code, reason = "the driver and the library are C code")]
    fn load() -> Option<Self> {
        // SAFETY: the function only looks for the library's file.
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

    /// Creates the descriptors. The library reads matrices in column-major order, in which each buffer is the
    /// transpose, so it computes `c' = b' a'`.
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
        // SAFETY: all descriptors are valid, and each size is the size of the value before it.
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

    /// Launches a product after all earlier and before all later work of the context. The pointers are a, b
    /// and the result.
    #[expect(unsafe_code, reason = "the driver and the library are C code")]
    fn multiply(&self, plan: &Plan, [a, b, output]: [*mut c_void; 3], adds: bool) -> Result<(), String> {
        let factor = 1.0f32;
        let previous = if adds { 1.0f32 } else { 0.0 };
        // SAFETY: the buffers have the sizes of the plan's layouts. All other work on their memory belongs to
        // the context, so it runs before or after the product.
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

/// Returns the library's descriptor of a batch of `rows x columns` matrices.
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
    // The library's matrices are column-major: the elements of a column are adjacent.
    let (height, width) = if layout.transposed { (rows, columns) } else { (columns, rows) };
    let described = lt::create_matrix_layout(kind, height as u64, width as u64, layout.step as i64)?;
    let count = batch as i32;
    let step = layout.matrix_step as i64;
    let counted = Attribute::CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT;
    let stepped = Attribute::CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET;
    // SAFETY: the descriptor is valid, and each size is the size of the value before it.
    unsafe {
        lt::set_matrix_layout_attribute(described, counted, (&raw const count).cast(), size_of_val(&count))?;
        lt::set_matrix_layout_attribute(described, stepped, (&raw const step).cast(), size_of_val(&step))?;
    }
    Ok(described)
}
