// Verifiers with hostile rows and trees: `invalid_input` or a valid verdict - a path of the tree and a token of the
// vocabulary.
#include <cstddef>
#include <cstdint>

#include "fuzz/problem.hpp"
#include "multidraft/methods/list.hpp"

namespace {

using namespace multidraft;

/// Every listed method that decides node by node or verifies whole paths and trees.
template <class Target, class Draft>
void verify_all(fuzz::problem const& b, Target const& target, Draft const& draft) {
    auto const one = [&](auto listed) {
        using verifier = typename decltype(listed)::verifier;
        if constexpr (verify::reads_draft<verifier>)
            fuzz::verify_one<verifier>(b, target, draft);
        else
            fuzz::verify_one<verifier>(b, target, verify::no_draft_rows{});
    };
    methods::by_node::for_each(one);
    methods::by_tree::for_each(one);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
    fuzz::bytes in(data, size);
    bool const probabilities = in.byte() % 2 == 0;
    auto const b = fuzz::read_problem(in);
    fuzz::with_rows(b, probabilities, [&](auto const& target, auto const& draft) { verify_all(b, target, draft); });
    return 0;
}
