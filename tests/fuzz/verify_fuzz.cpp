// Verifiers with hostile rows and trees: `invalid_input`, or a verdict that is one - a path of the tree and a token of
// the vocabulary.
#include <cstddef>
#include <cstdint>

#include "fuzz/problem.hpp"
#include "multidraft/verify/block.hpp"
#include "multidraft/verify/naive.hpp"
#include "multidraft/verify/recursive_rejection.hpp"
#include "multidraft/verify/speculative_sampling.hpp"
#include "multidraft/verify/traversal.hpp"

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
    using namespace multidraft;
    fuzz::bytes in(data, size);
    bool const probabilities = in.byte() % 2 == 0;
    auto const b = fuzz::read_problem(in);
    fuzz::with_rows(b, probabilities, [&](auto const& target, auto const& draft) {
        fuzz::verify_one<verify::recursive_rejection<law::iid>>(b, target, draft);
        fuzz::verify_one<verify::recursive_rejection<law::sequential>>(b, target, draft);
        fuzz::verify_one<verify::speculative_sampling<law::iid>>(b, target, draft);
        fuzz::verify_one<verify::naive<law::deterministic>>(b, target, verify::unread{});
        fuzz::verify_one<verify::block<law::iid>>(b, target, draft);
        fuzz::verify_one<verify::traversal<law::iid>>(b, target, draft);
        fuzz::verify_one<verify::traversal<law::sequential>>(b, target, draft);
    });
    return 0;
}
