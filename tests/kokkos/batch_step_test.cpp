// A step of a batch on an execution space: the tokens, nodes and caches of the same step on host threads.
#include <gtest/gtest.h>

#include <Kokkos_Core.hpp>
#include <cstddef>
#include <string>

#include "kokkos/machine.hpp"
#include "multidraft/base/error.hpp"
#include "multidraft/batch/compact_caches.hpp"
#include "multidraft/batch/device_step.hpp"
#include "multidraft/batch/step_inputs.hpp"
#include "multidraft/draft/sequential.hpp"
#include "multidraft/draft/stratified.hpp"
#include "multidraft/kokkos/batch_step.hpp"
#include "multidraft/kokkos/on.hpp"
#include "multidraft/law/law.hpp"
#include "multidraft/rows/row_view.hpp"
#include "multidraft/verify/nested_ranked_block.hpp"
#include "multidraft/verify/recursive_rejection.hpp"
#include "multidraft/verify/traversal.hpp"
#include "support/batch_steps.hpp"

namespace MULTIDRAFT_NAMESPACE::testing {
namespace {

/// An array in the space's memory.
template <class T>
class on_space {
public:
    explicit on_space(std::size_t size) : view_("array", size) {}
    [[nodiscard]] T* data() const { return view_.data(); }

private:
    Kokkos::View<T*, memory> view_;
};

template <class Sampler, class Verifier>
struct steps_on_space {
    template <class T>
    using array = on_space<T>;

    kokkos::space_policy<space> policy = kokkos::on(space());
    kokkos::batch_step<Sampler, Verifier, space> step;

    device_inputs inputs(step_inputs const& in) {
        device_inputs there;
        step.copy_inputs(policy, in, there);
        return there;
    }
    template <class Target, class Draft>
    void compact(Target const& target, Draft const& draft) {
        kept_batch of_target, of_draft;
        step.copy_kept(policy, of_target, of_draft);
        compact_caches(policy, target, of_target);
        compact_caches(policy, draft, of_draft);
    }
};

template <class Sampler, class Verifier>
void expect_the_hosts_steps_on_a_space() {
    expect_the_hosts_steps<Sampler, Verifier, contiguous, steps_on_space<Sampler, Verifier>>(61, 6);
}

TEST(kokkos_batch_step, steps_are_those_of_the_host) {
    expect_the_hosts_steps_on_a_space<draft::sequential, verify::recursive_rejection<law::sequential>>();
    expect_the_hosts_steps_on_a_space<draft::sequential, verify::traversal<law::sequential>>();
    expect_the_hosts_steps_on_a_space<draft::stratified, verify::nested_ranked_block<law::stratified>>();
}

TEST(kokkos_batch_step, rows_may_have_a_few_candidates) {
    using sampler = draft::stratified;
    using verifier = verify::nested_ranked_block<law::stratified>;
    expect_the_hosts_steps_by_candidates<sampler, verifier, steps_on_space<sampler, verifier>>(61, 20, 6);
}

TEST(kokkos_batch_step, throws_as_the_host_does_and_changes_nothing) {
    using steps = steps_on_space<draft::sequential, verify::recursive_rejection<law::sequential>>;
    engine_of_steps<steps, contiguous> engine(61);
    auto& step = engine.steps.step;
    auto const requests = requests_of_steps();
    engine.start(requests);
    engine.read_draft(step.next_level());
    auto const refusal = [&](auto const& q) {
        try {
            step.draw(engine.steps.policy, q);
        } catch (invalid_input const& e) {
            return std::string(e.what());
        }
        return std::string("nothing was thrown");
    };
    auto q = engine.draft_rows();
    q.data = nullptr;
    EXPECT_EQ(refusal(q), "draft.data = null: this array is read or written");
    step.draw(engine.steps.policy, engine.draft_rows());
    EXPECT_FALSE(step.next_level().empty());
}

}  // namespace
}  // namespace MULTIDRAFT_NAMESPACE::testing
