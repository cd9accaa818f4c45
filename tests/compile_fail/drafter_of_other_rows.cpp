// expect: drafter
// expect: draft_row_source
// errors: 1
// A drafter whose rows are no rows.
#include "multidraft/decode/lookup_drafter.hpp"
#include "multidraft/decode/speculative.hpp"
#include "multidraft/verify/naive.hpp"

struct model {
    int vocabulary() const;
    int context_limit() const;
    int length() const;
    void forward(multidraft::token_batch const&, std::span<float>);
    void keep(int, std::span<int const>);
};

struct my_drafter : multidraft::lookup_drafter {
    float const* rows() const;
};

auto make(model& target, my_drafter drafter) {
    using namespace multidraft;
    return make_speculative<verify::naive<my_drafter::law>>(target, drafter);
}
