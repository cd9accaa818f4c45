// The machine of the example transformer's device form on CUDA: launches, cuBLASLt products, a graph.
#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "multidraft/batch/compact_caches.hpp"
#include "multidraft/cuda/block_group.cuh"
#include "multidraft/cuda/on.cuh"
#include "transformer/device_transformer.hpp"

namespace multidraft::examples {
namespace {

using device::matrix;
using device::shared_memory;
using device::threads;

void check(cudaError_t e, char const* what) {
    if (e != cudaSuccess) throw std::runtime_error(std::string("CUDA, ") + what + ": " + cudaGetErrorString(e));
}
void check(cublasStatus_t s, char const* what) {
    if (s != CUBLAS_STATUS_SUCCESS)
        throw std::runtime_error(std::string("cuBLASLt, ") + what + ": " + cublasLtGetStatusString(s));
}

template <class Kernel>
__global__ void __launch_bounds__(threads) kernel_of(Kernel kernel) {
    __shared__ shared_memory shared;
    kernel(cuda::block_lanes<threads>{}, static_cast<int>(blockIdx.x), shared);
}

/// Device memory that is freed together.
class memory {
public:
    memory() = default;
    memory(memory const&) = delete;
    memory& operator=(memory const&) = delete;
    ~memory() {
        for (void* const p : pieces_) static_cast<void>(cudaFree(p));
    }
    template <class T>
    [[nodiscard]] T* array(std::size_t n) {
        void* p = nullptr;
        check(cudaMalloc(&p, n * sizeof(T)), "memory");
        pieces_.push_back(p);
        check(cudaMemset(p, 0, n * sizeof(T)), "memory");
        return static_cast<T*>(p);
    }

private:
    std::vector<void*> pieces_;
};

/// The algorithm for one shape of product: always the same, so that equal rows have equal bits.
struct product {
    product(cublasLtHandle_t handle, std::int32_t outputs, std::int32_t inputs, std::size_t workspace) {
        // Row-major out[rows][outputs] is column-major outputs x rows: transposed weights times the rows.
        check(cublasLtMatmulDescCreate(&operation, CUBLAS_COMPUTE_32F, CUDA_R_32F), "product");
        cublasOperation_t const transposed = CUBLAS_OP_T;
        check(cublasLtMatmulDescSetAttribute(operation, CUBLASLT_MATMUL_DESC_TRANSA, &transposed, sizeof transposed),
              "product");
        auto const k = static_cast<std::uint64_t>(inputs);
        auto const n = static_cast<std::uint64_t>(outputs);
        auto const rows = static_cast<std::uint64_t>(device_rows);
        check(cublasLtMatrixLayoutCreate(&weights, CUDA_R_16BF, k, n, inputs), "layout");
        check(cublasLtMatrixLayoutCreate(&in, CUDA_R_16BF, k, rows, inputs), "layout");
        check(cublasLtMatrixLayoutCreate(&out, CUDA_R_32F, n, rows, outputs), "layout");
        cublasLtMatmulPreference_t preference = nullptr;
        check(cublasLtMatmulPreferenceCreate(&preference), "preference");
        check(cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace,
                                                   sizeof workspace),
              "preference");
        int found = 0;
        cublasStatus_t const status =
            cublasLtMatmulAlgoGetHeuristic(handle, operation, weights, in, out, out, preference, 1, &chosen, &found);
        check(cublasLtMatmulPreferenceDestroy(preference), "preference");
        check(status, "choosing an algorithm");
        if (found == 0)
            throw std::runtime_error("cuBLASLt has no algorithm for " + std::to_string(outputs) + " x " +
                                     std::to_string(inputs));
    }
    product(product const&) = delete;
    product& operator=(product const&) = delete;
    ~product() {
        static_cast<void>(cublasLtMatrixLayoutDestroy(out));
        static_cast<void>(cublasLtMatrixLayoutDestroy(in));
        static_cast<void>(cublasLtMatrixLayoutDestroy(weights));
        static_cast<void>(cublasLtMatmulDescDestroy(operation));
    }

    cublasLtMatmulDesc_t operation = nullptr;
    cublasLtMatrixLayout_t weights = nullptr, in = nullptr, out = nullptr;
    cublasLtMatmulHeuristicResult_t chosen{};
};

class cuda_machine {
public:
    explicit cuda_machine(int number) {
        int count = 0;
        cudaError_t const e = cudaGetDeviceCount(&count);
        if (e != cudaSuccess || count == 0)
            throw std::runtime_error(std::string("there is no CUDA device: ") +
                                     (e != cudaSuccess ? cudaGetErrorString(e) : "none was found"));
        if (number < 0 || number >= count)
            throw std::runtime_error("CUDA device " + std::to_string(number) + ": there are " + std::to_string(count));
        check(cudaSetDevice(number), "choosing the device");
        check(cublasLtCreate(&handle_), "start");
    }
    cuda_machine(cuda_machine const&) = delete;
    cuda_machine& operator=(cuda_machine const&) = delete;
    ~cuda_machine() { static_cast<void>(cublasLtDestroy(handle_)); }

    template <class T>
    [[nodiscard]] T* array(std::size_t n) {
        return memory_.array<T>(n);
    }
    template <class T>
    void upload(T* to, T const* from, std::size_t n) {
        check(cudaMemcpy(to, from, n * sizeof(T), cudaMemcpyHostToDevice), "copy to the device");
    }

    class stream {
    public:
        using recording = cudaGraphExec_t;

        explicit stream(cuda_machine& on) : handle_(on.handle_) {
            check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "stream");
            workspace_ = memory_.array<std::byte>(workspace_bytes);
        }
        stream(stream const&) = delete;
        stream& operator=(stream const&) = delete;
        ~stream() {
            static_cast<void>(cudaStreamSynchronize(stream_));
            if (recording_ != nullptr) static_cast<void>(cudaGraphExecDestroy(recording_));
            for (void* const p : pinned_) static_cast<void>(cudaFreeHost(p));
            static_cast<void>(cudaStreamDestroy(stream_));
        }

        template <class T>
        [[nodiscard]] T* array(std::size_t n) {
            return memory_.array<T>(n);
        }
        [[nodiscard]] std::byte* staging(std::size_t bytes) {
            void* p = nullptr;
            check(cudaMallocHost(&p, bytes), "host memory");
            pinned_.push_back(p);
            return static_cast<std::byte*>(p);
        }
        template <class Kernel>
        void launch(Kernel const& kernel, int blocks) {
            kernel_of<<<static_cast<unsigned>(blocks), threads, 0, stream_>>>(kernel);
            check(cudaGetLastError(), "launch");
        }
        void multiply(matrix const& m, bfloat16 const* in, float* out) {
            auto& made = products_[{m.outputs, m.inputs}];
            if (!made) made = std::make_unique<product>(handle_, m.outputs, m.inputs, workspace_bytes);
            float const one = 1;
            float const zero = 0;
            check(cublasLtMatmul(handle_, made->operation, &one, m.weights, made->weights, in, made->in, &zero, out,
                                 made->out, out, made->out, &made->chosen.algo, workspace_, workspace_bytes, stream_),
                  "product");
        }
        template <class Work>
        [[nodiscard]] recording record(Work const& work) {
            cudaGraph_t graph = nullptr;
            check(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), "capture");
            try {
                work();
            } catch (...) {
                static_cast<void>(cudaStreamEndCapture(stream_, &graph));
                if (graph != nullptr) static_cast<void>(cudaGraphDestroy(graph));
                throw;
            }
            check(cudaStreamEndCapture(stream_, &graph), "capture");
            cudaError_t const e = cudaGraphInstantiate(&recording_, graph, 0);
            static_cast<void>(cudaGraphDestroy(graph));
            check(e, "graph");
            return recording_;
        }
        void play(recording graph) { check(cudaGraphLaunch(graph, stream_), "graph"); }
        void fetch(void* to, void const* from, std::size_t bytes) {
            check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, stream_), "copy to the device");
        }
        void read(float* to, float const* from, std::size_t n) {
            check(cudaMemcpyAsync(to, from, n * sizeof(float), cudaMemcpyDeviceToHost, stream_), "copy to the host");
        }
        void compact(contiguous_cache const& cache, kept_batch const& kept) {
            check(compact_caches(cuda::on(stream_), cache, kept), "compaction");
        }
        void wait() { check(cudaStreamSynchronize(stream_), "forward call"); }

    private:
        static constexpr std::size_t workspace_bytes = std::size_t{32} << 20;

        cublasLtHandle_t handle_;
        cudaStream_t stream_ = nullptr;
        memory memory_;
        std::byte* workspace_ = nullptr;
        std::vector<void*> pinned_;
        std::map<std::pair<std::int32_t, std::int32_t>, std::unique_ptr<product>> products_;
        recording recording_ = nullptr;
    };

private:
    friend class stream;
    cublasLtHandle_t handle_ = nullptr;
    memory memory_;
};

}  // namespace

accelerator on_cuda(int number) {
    return [number](model_config const& config, tensor_store const& tensors, std::int32_t context_limit,
                    std::int32_t capacity) -> std::shared_ptr<accelerator_weights const> {
        return std::make_shared<device::weights<cuda_machine>>(std::make_unique<cuda_machine>(number), config, tensors,
                                                               context_limit, capacity);
    };
}

}  // namespace multidraft::examples
