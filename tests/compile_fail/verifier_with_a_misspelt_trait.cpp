// expect: shape_may_depends_on
// errors: 1
// A verifier that means to say that it is lossless for trees of a fixed shape alone.
#include "multidraft/verify/traits.hpp"

struct my_verifier {
    using law = multidraft::law::iid;
    static constexpr multidraft::verify::verifier_traits traits{
        .lossless = true, .shape_may_depends_on = multidraft::shape_depends_on::nothing};
};
