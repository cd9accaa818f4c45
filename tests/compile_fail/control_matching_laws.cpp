// expect: ok
#include "multidraft/decode/speculative.hpp"
#include "multidraft/draft/sequential.hpp"
#include "multidraft/draft/top_n.hpp"
#include "multidraft/tree/shapes.hpp"
#include "multidraft/verify/naive.hpp"
#include "multidraft/verify/recursive_rejection.hpp"

struct model {
    int vocabulary() const;
    int context_limit() const;
    int length() const;
    void forward(multidraft::token_batch const&, std::span<float>);
    void keep(int, std::span<int const>);
};

auto make(model& target, model& draft) {
    using namespace multidraft;
    (void)make_speculative<draft::top_n, verify::naive<law::deterministic>>(target, draft, chain(2));
    return make_speculative<draft::sequential, verify::recursive_rejection<law::sequential>>(target, draft, chain(2));
}
