// Where the fields of what launches hand to kernels are, as the host's compiler and as the device's has them: layout.py
// compares the two. nvcc up to 13.0 at least places what follows an empty `[[no_unique_address]]` member that is the
// last of its class elsewhere on the device, without a word; sizes agree.
#include <cstdio>

#include "multidraft/batch/compact_caches.hpp"
#include "multidraft/batch/draft.hpp"
#include "multidraft/batch/prepare.hpp"
#include "multidraft/batch/prepared_batch.hpp"
#include "multidraft/batch/row_batch.hpp"
#include "multidraft/cuda/on.cuh"
#include "multidraft/cuda/verify.cuh"
#include "multidraft/draft/gumbel_top_k.hpp"
#include "multidraft/draft/sequential.hpp"
#include "multidraft/rows/row_view.hpp"
#include "multidraft/rows/softmax.hpp"
#include "multidraft/verify/merged.hpp"
#include "multidraft/verify/nested_ranked_block.hpp"
#include "multidraft/verify/recursive_rejection.hpp"

using namespace multidraft;

using logits = logit_batch<bfloat16, aligned<16>>;
using plain_logits = logit_batch<float>;
using prepared = prepared_batch<bfloat16, aligned<16>>;
using probability = probability_batch<float>;
using adjusted = adjusted_batch<float>;
using low_rank = low_rank_batch<float>;
using candidates = candidate_batch<float>;
using drawn = multidraft::detail::draw_children<draft::sequential, logits>;
using drawn_noise = multidraft::detail::draw_children<draft::gumbel_top_k, plain_logits>;
using drawn_low_rank = multidraft::detail::draw_children<draft::sequential, low_rank>;
using made = multidraft::detail::prepare_row<logits>;
using exchange = multidraft::cuda::detail::wide_exchange;
using piece = multidraft::detail::compact_piece<contiguous_cache, uint4>;
using view = row_view<bfloat16, aligned<16>>;

struct of_kernel {  // arguments in a row, as in a closure
    char first;
    logits p;
    std::int64_t a;
    prepared q;
    std::int32_t b;
    probability r;
    char c;
    verify::merged<verify::recursive_rejection<law::sequential>> verifier;
    std::int64_t d;
    softmax_row<view> row;
    char e;
};

#define FIELDS(field)                                                                                                 \
    field(logits, data) field(logits, row_of) field(logits, vocabulary) field(logits, layout) field(logits, sampling) \
        field(logits, default_sampling) field(logits, slot_of) field(plain_logits, sampling)                          \
            field(plain_logits, slot_of) field(prepared, row_of) field(prepared, states) field(prepared, sums) field( \
                prepared, runs) field(probability, row_of) field(adjusted, sampling) field(adjusted, adjustments)     \
                field(low_rank, term) field(low_rank, tokens) field(low_rank, slot_of) field(candidates, tokens)      \
                    field(candidates, candidates) field(drawn, level) field(drawn, rows) field(drawn, requests)       \
                        field(drawn, out) field(drawn, out.first) field(drawn, out.node_index)                        \
                            field(drawn_noise, sampler) field(drawn_noise, level) field(drawn_noise, requests)        \
                                field(drawn_noise, out) field(drawn_low_rank, requests) field(drawn_low_rank, out)    \
                                    field(made, trees) field(made, rows) field(made, out) field(made, out.runs)       \
                                        field(of_kernel, p) field(of_kernel, a) field(of_kernel, q)                   \
                                            field(of_kernel, b) field(of_kernel, r) field(of_kernel, c)               \
                                                field(of_kernel, verifier) field(of_kernel, d) field(of_kernel, row)  \
                                                    field(of_kernel, e)                                               \
                                                        field(drafted_batch<law::sequential>, trees.largest)          \
                                                            field(target_rows<logits>, rows.slot_of)                  \
                                                                field(draft_rows<prepared>, rows.runs)                \
                                                                    field(verdict_batch, next) field(exchange, ranks) \
                                                                        field(piece, kept) field(piece, planes)

template <class T>
[[nodiscard]] MULTIDRAFT_HD T* object() {
    return reinterpret_cast<T*>(4096);
}
#define OFFSET(type, name)                                                           \
    static_cast<unsigned long long>(reinterpret_cast<char*>(&object<type>()->name) - \
                                    reinterpret_cast<char*>(object<type>()))
#define STORE(type, name) *out++ = OFFSET(type, name);
#define PRINT(type, name) std::printf("%s.%s %llu\n", #type, #name, OFFSET(type, name));

__global__ void on_device(unsigned long long* out) { FIELDS(STORE) }

int main() { FIELDS(PRINT) }
