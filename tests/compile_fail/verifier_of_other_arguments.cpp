// expect: verifier
// expect: position, path
// errors: 1
// A verifier that forgets the path, given to the proof.
#include "multidraft/draft/iid.hpp"
#include "multidraft/testing/prove_lossless.hpp"

using namespace multidraft;

struct my_verifier {
    using law = multidraft::law::iid;
    static constexpr multidraft::verify::verifier_traits traits{.lossless = true};

    template <group G, class Target, class Draft, draw_source Source>
    verdict operator()(G const& g, drafted<law> const& tree, target_rows<Target> const& p, draft_rows<Draft> const& q,
                       Source& source, std::int32_t position) const;
};

auto prove_it() { return testing::prove_lossless(draft::iid{}, my_verifier{}); }
