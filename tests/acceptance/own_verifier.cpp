// The program `acceptance` with a user's verifier, which considers the first candidate only.
#include "acceptance/own_verifier.hpp"

#include "acceptance/program.hpp"
#include "multidraft/base/config.hpp"
#include "multidraft/base/span.hpp"
#include "multidraft/draft/iid.hpp"
#include "multidraft/group/group.hpp"
#include "multidraft/law/law.hpp"
#include "multidraft/random/source.hpp"
#include "multidraft/rows/distribution.hpp"
#include "multidraft/verify/node_by_node.hpp"
#include "multidraft/verify/recursive_rejection.hpp"
#include "multidraft/verify/verdict.hpp"

namespace {

namespace md = multidraft;

class first_only : public md::verify::node_by_node<first_only, md::law::iid> {
public:
    static constexpr md::verify::verifier_traits traits{.lossless = true};

    template <md::group G, md::distribution P, md::distribution Q, md::draw_source Source>
    [[nodiscard]] md::verify::node_verdict decide(G const& g, P const& p, Q const& q,
                                                  md::span<md::token_id const> candidates, Source& source,
                                                  md::draw_site site) const {
        return md::verify::recursive_rejection<md::law::iid>{}.decide(g, p, q, candidates.first(1), source, site);
    }
};

}  // namespace

int main(int argc, char** argv) {
    return md::examples::acceptance_program(
        argc, argv, {md::examples::make_own_verifier("first_only", md::draft::iid{}, first_only{})});
}
