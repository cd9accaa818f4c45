// A step of a batch whose logits lie in device memory: its small arrays are copied there and back.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "multidraft/base/config.hpp"
#include "multidraft/batch/arguments.hpp"
#include "multidraft/batch/batch_step.hpp"
#include "multidraft/batch/compact_caches.hpp"
#include "multidraft/batch/detail/check_batch.hpp"
#include "multidraft/batch/detail/refusals.hpp"
#include "multidraft/batch/draft.hpp"
#include "multidraft/batch/execution_policy.hpp"
#include "multidraft/batch/host_threads.hpp"
#include "multidraft/batch/level_batch.hpp"
#include "multidraft/batch/row_batch.hpp"
#include "multidraft/batch/step_inputs.hpp"
#include "multidraft/batch/validation.hpp"
#include "multidraft/batch/verify.hpp"
#include "multidraft/draft/sampler.hpp"
#include "multidraft/law/law.hpp"
#include "multidraft/tree/topology.hpp"
#include "multidraft/verify/traits.hpp"
#include "multidraft/verify/verifier.hpp"

namespace MULTIDRAFT_NAMESPACE {

/// The mask of inputs in a device's memory: as `step_inputs::write_mask` writes it, so many words for each input. Null
/// without.
struct device_mask {
    std::uint64_t const* words = nullptr;
    std::int64_t per_input = 0;
};

/// Which inputs are scored, in a device's memory.
struct device_scored {
    std::int64_t const* inputs = nullptr;
    std::int64_t size = 0;
};

/// The arrays of `step_inputs` in a device's memory, for an engine's kernels.
struct device_inputs {
    std::int64_t size = 0;  ///< inputs
    token_id const* tokens = nullptr;
    std::int32_t const* positions = nullptr;
    std::int32_t const* requests = nullptr;
    index_t const* entries = nullptr;
    std::int64_t const* offsets = nullptr;
    index_t const* first_entries = nullptr;
    device_scored scored{};
    std::int64_t first_row = 0;
    device_mask mask{};
};

namespace detail {

/// Arrays one after another in a device's memory, and in its mirror in host memory: those that are sent to the device,
/// then those that come back. Without memory it only counts the bytes.
class array_places {
public:
    array_places() = default;
    array_places(std::byte* here, std::byte* there) noexcept : here_(here), there_(there) {}

    /// Makes `array` its copy in the device's memory; null stays null.
    template <class T>
    void send(T const*& array, std::int64_t count) {
        static_assert(std::is_trivially_copyable_v<T>);
        if (array == nullptr) return;
        T* here = nullptr;
        T* there = nullptr;
        room(there, here, count);
        if (here == nullptr) return;
        if (count > 0) std::memcpy(here, array, static_cast<std::size_t>(count) * sizeof(T));
        array = there;
    }
    /// Room for an array, and for its mirror.
    template <class T>
    void room(T*& there, T*& here, std::int64_t count) {
        if (here_ != nullptr) {
            there = reinterpret_cast<T*>(there_ + size_);
            here = reinterpret_cast<T*>(here_ + size_);
        }
        size_ += (static_cast<std::size_t>(count) * sizeof(T) + alignment - 1) / alignment * alignment;
    }
    /// The arrays that follow come back.
    void begin_results() noexcept {
        sent_ = size_;
        has_results_ = true;
    }

    [[nodiscard]] std::size_t size() const noexcept { return size_; }
    /// Bytes that are sent.
    [[nodiscard]] std::size_t sent() const noexcept { return has_results_ ? sent_ : size_; }

private:
    static constexpr std::size_t alignment = 256;

    std::byte* here_ = nullptr;
    std::byte* there_ = nullptr;
    std::size_t size_ = 0;
    std::size_t sent_ = 0;
    bool has_results_ = false;
};

/// Sends what `place(places)` places; `sizes` becomes the sizes.
template <class Memory, class Place>
typename Memory::error send_arrays(Memory& memory, typename Memory::policy const& on, std::size_t scratch,
                                   array_places& sizes, Place const& place) {
    sizes = array_places();
    place(sizes);
    return in_order<typename Memory::error>([&] { return memory.reserve(on, sizes.size(), scratch); },
                                            [&] {
                                                array_places places(memory.here(), memory.there());
                                                place(places);
                                                return memory.send(on, places.sent());
                                            });
}

/// What of rows is in host memory: their indices and sampling parameters, and how many masks there are. Biases are not
/// looked up.
template <class Rows>
[[nodiscard]] Rows known_on_host(Rows rows) noexcept {
    if constexpr (has_adjustments<Rows>) rows.adjustments.bias = {};
    return rows;
}

/// One method whose calls run on a device, for `basic_batch_step`: all arrays but those with an entry for each token
/// are in host memory, where they are checked as a call on the host checks them.
template <sampler Sampler, verify::verifier Verifier, class Memory>
class method_on_device {
    using method = one_method<Sampler, Verifier>;
    using error = typename Memory::error;

public:
    using choice = typename method::choice;
    using policy = typename Memory::policy;

    method_on_device() = default;
    explicit method_on_device(method of) : method_(std::move(of)) {}

    [[nodiscard]] static constexpr bool counts_certain(choice which) noexcept { return method::counts_certain(which); }
    [[nodiscard]] static constexpr bool reads_draft(choice which) noexcept { return method::reads_draft(which); }
    [[nodiscard]] static constexpr allowed_trees trees(choice which) noexcept { return method::trees(which); }
    /// None of the step's: it is the device's.
    [[nodiscard]] static constexpr std::size_t workspace_size(choice, policy const&, std::int32_t, node_id,
                                                              std::int32_t) noexcept {
        return 0;
    }

    template <class Rows>
    error draw(choice, policy const& on, level_batch const& level, Rows const& q, request_batch const& requests,
               children_batch const& out) {
        return checked(
            on,
            [&] {
                refuse_bad_level<Sampler>(level, q, requests, out);
                check_entries_of_level(method_.sampler, level, known_on_host(q), requests, out);
            },
            [&] { return draw_there(on, level, q, requests, out); });
    }

    template <class Target, class Draft>
    error verify(choice, policy const& on, tree_batch const& trees, Target const& p, Draft const& q,
                 request_batch const& requests, verdict_batch const& out, workspace const& /*of_host*/) {
        return checked(
            on,
            [&] {
                if constexpr (multidraft::verify::reads_draft<Verifier>)
                    check(drawn_by<typename Sampler::law>(trees), p, q, requests);
                else
                    check(drawn_by<typename Sampler::law>(trees), p, multidraft::verify::no_draft_rows{}, requests);
            },
            [&] { return verify_there(on, trees, p, q, requests, out); });
    }

private:
    /// Throws as `verify_batch` does on a host.
    template <class Target, class Draft>
    static void check(drafted_batch<typename Sampler::law> const& drafts, Target const& p, Draft const& q,
                      request_batch const& requests) {
        refuse_bad_arguments(drafts, p, q, requests);
        auto const of_target = known_on_host(p);
        auto const of_draft = [&] {
            if constexpr (multidraft::verify::reads_draft<Verifier>)
                return known_on_host(q);
            else
                return q;
        }();
        fault_key first = no_fault;
        for (std::int32_t b = 0; b < drafts.trees.requests; ++b)
            first = std::min(first, fault_of_request(drafts, rules_of<Verifier>(), of_target, of_draft, requests, b));
        refuse_reported(
            report_of(host_batch_group{}, drafts, rules_of<Verifier>(), of_target, of_draft, requests, first));
    }

    template <class Rows>
    static void send_rows(array_places& places, Rows& rows, std::int64_t nodes, std::int64_t requests) {
        places.send(rows.row_of, nodes);
        places.send(rows.sampling, requests);
        if constexpr (has_adjustments<Rows>) {
            places.send(rows.adjustments.allowed_of, nodes);
            places.send(rows.adjustments.bias_of, nodes);
        }
    }
    static void send_requests(array_places& places, request_batch& requests, std::int64_t count) {
        places.send(requests.seeds, count);
        places.send(requests.positions, count);
        places.send(requests.ids, count);
    }

    /// Draws a level. Its children are next to one another there, so that they are one copy.
    template <class Rows>
    error draw_there(policy const& on, level_batch level, Rows q, request_batch requests, children_batch const& out) {
        std::int64_t const entries = level.entries;
        std::int32_t const* const wanted = level.wanted;
        std::int64_t const of_requests = std::int64_t{level.requests[entries - 1]} + 1;
        first_.assign(1, 0);
        for (std::int64_t e = 0; e < entries; ++e) first_.push_back(first_.back() + wanted[e]);
        children_batch there, here;
        there.first = first_.data();
        array_places sizes;
        auto const place = [&](array_places& places) {
            for (auto* const array : {&level.requests, &level.nodes, &level.wanted, &level.depths})
                places.send(*array, entries);
            places.send(there.first, entries);
            send_rows(places, q, entries, of_requests);
            send_requests(places, requests, of_requests);
            places.begin_results();
            places.room(there.tokens, here.tokens, first_.back());
            if (out.certain != nullptr) places.room(there.certain, here.certain, entries);
        };
        return in_order<error>(
            [&] { return send_arrays(memory_, on, draft_workspace_size(on, level.entries), sizes, place); },
            [&] { return method_.draw({}, on, level, q, requests, there, memory_.scratch()); },
            [&] { return memory_.fetch(on, sizes.sent(), sizes.size()); },
            [&] {
                for (std::int64_t e = 0; e < entries; ++e) {
                    std::copy_n(here.tokens + first_[static_cast<std::size_t>(e)], wanted[e],
                                out.tokens + out.first[e]);
                    if (out.certain != nullptr) out.certain[out.node_index[e]] = here.certain[e];
                }
            });
    }

    template <class Target, class Draft>
    error verify_there(policy const& on, tree_batch trees, Target p, Draft q, request_batch requests,
                       verdict_batch const& out) {
        tree_batch const trees_here = trees;
        std::int32_t deepest = 1;
        for (std::int32_t b = 0; b < trees.requests; ++b) {
            trees.largest = std::max(trees.largest, trees.size(b));
            deepest = std::max(deepest, trees(b).depth(trees.size(b) - 1));
        }
        verdict_batch there, here;
        there.path_stride = deepest;
        array_places sizes;
        auto const place = [&](array_places& places) {
            places.send(trees.offsets, std::int64_t{trees.requests} + 1);
            places.send(trees.parents, trees.nodes);
            places.send(trees.tokens, trees.nodes);
            places.send(trees.certain, trees.nodes);
            send_rows(places, p, trees.nodes, trees.requests);
            if constexpr (multidraft::verify::reads_draft<Verifier>) send_rows(places, q, trees.nodes, trees.requests);
            send_requests(places, requests, trees.requests);
            places.begin_results();
            places.room(there.path, here.path, std::int64_t{trees.requests} * deepest);
            places.room(there.accepted, here.accepted, trees.requests);
            places.room(there.next, here.next, trees.requests);
        };
        auto const scratch =
            Memory::template verify_workspace_size<Verifier>(on, trees.requests, trees.largest, deepest);
        return in_order<error>([&] { return send_arrays(memory_, on, scratch, sizes, place); },
                               [&] { return method_.verify({}, on, trees, p, q, requests, there, memory_.scratch()); },
                               [&] { return memory_.fetch(on, sizes.sent(), sizes.size()); },
                               [&] {
                                   for (std::int32_t b = 0; b < trees.requests; ++b) {
                                       out.accepted[b] = here.accepted[b];
                                       out.next[b] = here.next[b];
                                       std::copy_n(here.path + std::int64_t{b} * deepest, here.accepted[b],
                                                   out.path_of(trees_here, b).data());
                                   }
                               });
    }

    method method_{};
    Memory memory_;
    std::vector<std::int64_t> first_;
};

}  // namespace detail

/// A `batch_step` whose models run on a device: `cuda::batch_step` (cuda/batch_step.cuh). `q` and `p` are logits in the
/// device's memory, and masks and biases are there too; indices of rows, masks and biases (`row_of`, `allowed_of`,
/// `bias_of`) are in host memory, as all that the step returns.
///
///     for (auto in = step.next_level(); !in.empty(); in = step.next_level()) {
///         step.copy_inputs(policy, in, there);   .. the draft's kernels read `there` ..
///         step.draw(policy, q);
///     }
///
/// A call takes one copy to the device, one launch, and one copy back, for which `draw` and `verify` wait; so an engine
/// sees the tokens of a level before the next one, and its own kernels on the stream may still run when it calls.
/// Neither can be captured in a graph. The step's memory on the device and its mirror in host memory are kept: nothing
/// is allocated after the largest step. Draws and verdicts are those of the host, bit for bit.
///
/// On a CUDA stream errors are returned. `cudaErrorInvalidValue` comes with the text that the step on the host throws
/// (`cuda::last_refusal`); the calls without a policy throw it. After an error nothing has changed.
template <sampler Sampler, verify::verifier Verifier, class Memory>
class device_batch_step : public basic_batch_step<detail::method_on_device<Sampler, Verifier, Memory>> {
    using methods = detail::method_on_device<Sampler, Verifier, Memory>;
    using error = typename Memory::error;

public:
    using policy = typename Memory::policy;  ///< where it runs

    device_batch_step() = default;
    /// A step with a sampler and a verifier that are not the default ones.
    explicit device_batch_step(Sampler sampler, Verifier verifier = {})
        : basic_batch_step<methods>(
              methods(detail::one_method<Sampler, Verifier>{std::move(sampler), std::move(verifier)})) {}

    /// Copies the inputs of a model to the device, in the order of the policy's work: with the mask, or without where
    /// `with_mask` is false, for long texts that are read under a causal mask. Does not wait. `out` is valid until the
    /// next `copy_inputs` of this step.
    error copy_inputs(policy const& on, step_inputs const& in, device_inputs& out, bool with_mask = true) {
        device_inputs there;
        there.size = static_cast<std::int64_t>(in.size());
        there.tokens = in.tokens.data();
        there.positions = in.positions.data();
        there.requests = in.requests.data();
        there.entries = in.entries.data();
        there.offsets = in.offsets.data();
        there.first_entries = in.first_entries.data();
        there.scored = {in.scored.data(), static_cast<std::int64_t>(in.scored.size())};
        there.first_row = in.first_row;
        there.mask.per_input = with_mask ? in.mask_words() : 0;
        detail::array_places sizes;
        auto const place = [&](detail::array_places& places) {
            for (auto* const array : {&there.tokens, &there.positions, &there.requests, &there.entries})
                places.send(*array, there.size);
            places.send(there.offsets, static_cast<std::int64_t>(in.offsets.size()));
            places.send(there.first_entries, static_cast<std::int64_t>(in.first_entries.size()));
            places.send(there.scored.inputs, there.scored.size);
            if (std::int64_t const words = there.size * there.mask.per_input; words > 0) {
                std::uint64_t* mask_there = nullptr;
                std::uint64_t* mask_here = nullptr;
                places.room(mask_there, mask_here, words);
                if (mask_here != nullptr) in.write_mask({mask_here, static_cast<std::size_t>(words)});
                there.mask.words = mask_there;
            }
        };
        return detail::in_order<error>([&] { return detail::send_arrays(inputs_, on, 0, sizes, place); },
                                       [&] { out = there; });
    }

    /// Copies the entries of a verified step that the caches keep (`kept_in_target`, `kept_in_draft`) to the device,
    /// where `compact_caches` reads them. Does not wait. Valid until the next `copy_kept` of this step.
    error copy_kept(policy const& on, kept_batch& of_target, kept_batch& of_draft) {
        kept_batch target, draft;
        return detail::checked(
            on,
            [&] {
                target = this->kept_in_target();
                draft = this->kept_in_draft();
            },
            [&] {
                detail::array_places sizes;
                std::int64_t const nodes = this->trees().nodes;
                auto const place = [&](detail::array_places& places) {
                    for (kept_batch* const kept : {&target, &draft}) {
                        places.send(kept->nodes, nodes);
                        places.send(kept->counts, kept->requests);
                        places.send(kept->bases, kept->requests);
                        places.send(kept->offsets, std::int64_t{kept->requests} + 1);
                    }
                };
                return detail::in_order<error>([&] { return detail::send_arrays(kept_, on, 0, sizes, place); },
                                               [&] {
                                                   of_target = target;
                                                   of_draft = draft;
                                               });
            });
    }

private:
    Memory inputs_, kept_;
};

}  // namespace MULTIDRAFT_NAMESPACE
