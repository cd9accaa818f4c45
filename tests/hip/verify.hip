// The verifiers on the threads of an AMD GPU, compiled by clang without a device, its libraries or its headers: the
// groups of include/multidraft/cuda/ are written over a `lane_context`, which is all that another vendor's device needs.
#define __host__ __attribute__((host))
#define __device__ __attribute__((device))
#define __global__ __attribute__((global))
#define __shared__ __attribute__((shared))
#define __launch_bounds__(threads) __attribute__((amdgpu_flat_work_group_size(1, threads)))
// What HIP's headers define of the C library.
static __device__ inline float fmaf(float a, float b, float c) noexcept { return __builtin_fmaf(a, b, c); }
static __device__ inline double fma(double a, double b, double c) noexcept { return __builtin_fma(a, b, c); }

#include <cstddef>
#include <cstdint>

#include "multidraft/batch/row_batch.hpp"
#include "multidraft/batch/verify.hpp"
#include "multidraft/cuda/simt_group.hpp"
#include "multidraft/law/law.hpp"
#include "multidraft/methods/list.hpp"

namespace {

using namespace multidraft;

/// The threads of a work group of `Threads`. Its wavefronts have 32 or 64 lanes; a warp of the group is 32 of them.
template <int Threads>
struct work_group_lanes {
    static constexpr int threads = Threads;
    static constexpr cuda::rank_exchange exchange = cuda::rank_exchange::shared_memory;

    [[nodiscard]] __device__ int thread() const { return static_cast<int>(__builtin_amdgcn_workitem_id_x()); }
    [[nodiscard]] __device__ int rank() const { return 0; }
    [[nodiscard]] __device__ int ranks() const { return 1; }
    __device__ void sync() const {
        __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
        __builtin_amdgcn_s_barrier();
        __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
    }
    __device__ void sync_all() const { sync(); }
    template <class T>
    [[nodiscard]] __device__ T shuffle(T x, int from) const {
        static_assert(sizeof(T) % sizeof(int) == 0);
        int const lane = wavefront_lane() - wavefront_lane() % cuda::warp_size + from % cuda::warp_size;
        struct words {
            int word[sizeof(T) / sizeof(int)];
        };
        auto all = __builtin_bit_cast(words, x);
        for (int& word : all.word) word = __builtin_amdgcn_ds_bpermute(4 * lane, word);
        return __builtin_bit_cast(T, all);
    }
    template <class T>
    [[nodiscard]] __device__ T shuffle_xor(T x, int mask) const {
        return shuffle(x, (wavefront_lane() ^ mask) % cuda::warp_size);
    }
    [[nodiscard]] __device__ std::uint32_t ballot(bool b) const {
#if __AMDGCN_WAVEFRONT_SIZE == 64
        std::uint64_t const all = __builtin_amdgcn_uicmp(static_cast<unsigned>(b), 0U, 33);  // 33: not equal
        return static_cast<std::uint32_t>(all >> (wavefront_lane() / cuda::warp_size * cuda::warp_size));
#else
        return __builtin_amdgcn_ballot_w32(b);
#endif
    }
    __device__ std::uint32_t add(std::uint32_t* p, std::uint32_t x) const {
        return __atomic_fetch_add(p, x, __ATOMIC_RELAXED);
    }
    template <class T>
    [[nodiscard]] __device__ T* at_rank(T* p, int) const {
        return p;
    }

private:
    [[nodiscard]] __device__ static int wavefront_lane() {
        return static_cast<int>(__builtin_amdgcn_mbcnt_hi(~0U, __builtin_amdgcn_mbcnt_lo(~0U, 0U)));
    }
};

using work_group = cuda::simt_group<work_group_lanes<256>>;

}  // namespace

template <class Verifier>
__global__ void __launch_bounds__(256)
    verify_kernel(Verifier verifier, drafted_batch<typename Verifier::law> drafts, logit_batch<bfloat16> target,
           logit_batch<bfloat16> draft, request_batch requests, verdict_batch out, std::byte* scratch, std::size_t each) {
    __shared__ typename work_group::storage shared;
    work_group const g({}, shared);
    auto const b = static_cast<std::int32_t>(__builtin_amdgcn_workgroup_id_x());
    detail::verify_request(g, verifier, b, drafts, target_rows(target), draft_rows(draft), requests, out,
                           span<std::byte>(scratch + static_cast<std::size_t>(b) * each, each), 0);
}

#if !defined(MULTIDRAFT_HIP_METHOD)
#define MULTIDRAFT_HIP_METHOD recursive_rejection_sequential
#endif
using verifier = methods::MULTIDRAFT_HIP_METHOD::verifier;
template __global__ void verify_kernel<verifier>(verifier, drafted_batch<verifier::law>, logit_batch<bfloat16>,
                                          logit_batch<bfloat16>, request_batch, verdict_batch, std::byte*, std::size_t);
