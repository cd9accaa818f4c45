// expect: verifier
// expect: law
// errors: 1
// A loop with a verifier that has no law.
#include "multidraft/decode/lookup_drafter.hpp"
#include "multidraft/decode/speculative.hpp"

struct model {
    int vocabulary() const;
    int context_limit() const;
    int length() const;
    void forward(multidraft::token_batch const&, std::span<float>);
    void keep(int, std::span<int const>);
};

struct my_verifier {};

auto make(model& target) {
    using namespace multidraft;
    return make_speculative<my_verifier>(target, lookup_drafter{});
}
