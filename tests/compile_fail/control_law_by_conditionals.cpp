// expect: ok

#include "../support/by_conditionals.hpp"
#include "../support/reweighted.hpp"
#include "multidraft/verify/recursive_rejection.hpp"

struct unchanged {
    MULTIDRAFT_HD float operator()(multidraft::index_t) const { return 1; }
};
struct independent_draws {
    static constexpr multidraft::law_traits traits{.name = "independent_draws"};
    template <class G, class Q>
    static auto conditional(G const& g, Q const& q, multidraft::span<multidraft::token_id const>) {
        return multidraft::make_reweighted(g, q, unchanged{});
    }
};

static_assert(multidraft::sampler<multidraft::draft::by_conditionals<independent_draws>>);
static_assert(multidraft::verify::verifier<multidraft::verify::recursive_rejection<independent_draws>>);
