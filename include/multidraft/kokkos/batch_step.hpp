// A step of a batch with Kokkos: logits in a space's memory, small arrays copied there and back.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Kokkos_Core.hpp>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "multidraft/base/config.hpp"
#include "multidraft/batch/arguments.hpp"
#include "multidraft/batch/device_step.hpp"
#include "multidraft/draft/sampler.hpp"
#include "multidraft/kokkos/on.hpp"
#include "multidraft/kokkos/team_group.hpp"
#include "multidraft/kokkos/verify.hpp"
#include "multidraft/tree/topology.hpp"
#include "multidraft/verify/verifier.hpp"

namespace MULTIDRAFT_NAMESPACE::kokkos {

namespace detail {

/// What a step of a batch keeps in the memory of a space: arrays with a mirror in host memory, and scratch.
template <class Space, template <class> class Group>
class step_memory {
    using bytes = Kokkos::View<std::byte*, typename Space::memory_space>;

public:
    using policy = space_policy<Space, Group>;
    using error = void;

    /// Bytes of scratch for `verify_batch`.
    template <verify::verifier Verifier>
    [[nodiscard]] static constexpr std::size_t verify_workspace_size(policy const& on, std::int32_t requests,
                                                                     node_id nodes, std::int32_t depth) {
        return multidraft::verify_workspace_size<Verifier>(on, requests, nodes, depth);
    }

    /// Memory of these sizes. Waits until the last `send` has read the mirror.
    void reserve(policy const& on, std::size_t mirrored, std::size_t scratch) {
        if (is_sending_) on.space.fence();
        is_sending_ = false;
        if (mirrored > there_.extent(0)) {
            there_ = allocated(std::bit_ceil(mirrored));  // later steps may need a little more
            here_ = Kokkos::create_mirror_view(there_);
        }
        if (scratch > scratch_.extent(0)) scratch_ = allocated(scratch);
    }
    [[nodiscard]] std::byte* here() const { return here_.data(); }
    [[nodiscard]] std::byte* there() const { return there_.data(); }
    [[nodiscard]] workspace scratch() const { return {scratch_.data(), scratch_.extent(0)}; }

    /// Copies the first `size` bytes of the mirror to the space's memory.
    void send(policy const& on, std::size_t size) {
        auto const sent = std::pair(std::size_t{0}, size);
        Kokkos::deep_copy(on.space, Kokkos::subview(there_, sent), Kokkos::subview(here_, sent));
        is_sending_ = true;
    }
    /// Copies bytes `begin` to `end` to the mirror, and waits for the space.
    void fetch(policy const& on, std::size_t begin, std::size_t end) {
        auto const results = std::pair(begin, end);
        Kokkos::deep_copy(on.space, Kokkos::subview(here_, results), Kokkos::subview(there_, results));
        on.space.fence();
    }

private:
    [[nodiscard]] static bytes allocated(std::size_t size) {
        return bytes(Kokkos::view_alloc(Kokkos::WithoutInitializing, "multidraft::batch_step"), size);
    }

    bytes there_, scratch_;
    typename bytes::HostMirror here_;
    bool is_sending_ = false;
};

}  // namespace detail

/// A `batch_step` on a Kokkos execution space: `kokkos::batch_step<Sampler, Verifier, Space>`, with `kokkos::on(space)`
/// as the policy of its calls. See `device_batch_step`. A step belongs to one instance of the space at a time.
template <sampler Sampler, verify::verifier Verifier, class Space, template <class> class Group = team_group>
using batch_step = device_batch_step<Sampler, Verifier, detail::step_memory<Space, Group>>;

}  // namespace MULTIDRAFT_NAMESPACE::kokkos
