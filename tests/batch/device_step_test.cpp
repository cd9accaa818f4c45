// A step on a device, with a device whose launches read nothing but its memory: every array of a call is there.
#include "multidraft/batch/device_step.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "multidraft/base/config.hpp"
#include "multidraft/batch/arguments.hpp"
#include "multidraft/batch/draft.hpp"
#include "multidraft/batch/host_threads.hpp"
#include "multidraft/batch/row_batch.hpp"
#include "multidraft/batch/verify.hpp"
#include "multidraft/draft/stratified.hpp"
#include "multidraft/law/law.hpp"
#include "multidraft/rows/adjusted_view.hpp"
#include "multidraft/tree/shapes.hpp"
#include "multidraft/verify/nested_ranked_block.hpp"
#include "multidraft/verify/verifier.hpp"

namespace MULTIDRAFT_NAMESPACE::pretended {

/// A device in host memory, which remembers where its memory is.
struct device {
    std::vector<std::uint64_t> memory;
    int launches = 0;

    void expect_there(void const* data, char const* name) const {
        auto const* const at = static_cast<std::uint64_t const*>(data);
        EXPECT_TRUE(at >= memory.data() && at < memory.data() + memory.size()) << name;
    }
    template <class Rows>
    void expect_rows_there(Rows const& rows) const {
        expect_there(rows.row_of, "row_of");
        expect_there(rows.sampling, "sampling");
        expect_there(rows.adjustments.allowed_of, "allowed_of");
        expect_there(rows.adjustments.bias_of, "bias_of");
    }
    void expect_requests_there(request_batch const& requests) const {
        expect_there(requests.seeds, "seeds");
        expect_there(requests.positions, "positions");
        expect_there(requests.ids, "ids");
    }
};

struct policy {
    device* on;
};

template <class Body>
void for_each(policy const&, std::int64_t count, Body const& body) {
    for (std::int64_t k = 0; k < count; ++k) body(k);
}
inline std::size_t row_workspace_size(policy const&, std::int64_t) { return 0; }

template <class Rows, class Make>
void for_each_row(policy const& where, std::int64_t count, Rows const& rows, Make const& make, workspace const& = {}) {
    auto const body = make(rows);
    if constexpr (requires { body.level; }) {
        ++where.on->launches;
        for (auto const* const array : {body.level.requests, body.level.nodes, body.level.wanted, body.level.depths})
            where.on->expect_there(array, "level");
        where.on->expect_there(body.out.tokens, "tokens");
        where.on->expect_there(body.out.first, "first");
        where.on->expect_there(body.out.certain, "certain");
        where.on->expect_rows_there(body.rows);
        where.on->expect_requests_there(body.requests);
    }
    for (std::int64_t k = 0; k < count; ++k) body(detail::host_batch_group{}, k);
}

template <class Verifier, class Law, class Target, class Draft>
void verify_batch(policy const& where, Verifier const& verifier, drafted_batch<Law> const& drafts,
                  target_rows<Target> const& p, draft_rows<Draft> const& q, request_batch const& requests,
                  verdict_batch const& out, workspace const& scratch) {
    ++where.on->launches;
    where.on->expect_there(drafts.trees.offsets, "offsets");
    where.on->expect_there(drafts.trees.parents, "parents");
    where.on->expect_there(drafts.trees.tokens, "tokens");
    where.on->expect_there(drafts.trees.certain, "certain");
    where.on->expect_rows_there(p.rows);
    where.on->expect_rows_there(q.rows);
    where.on->expect_requests_there(requests);
    where.on->expect_there(out.path, "path");
    where.on->expect_there(out.accepted, "accepted");
    where.on->expect_there(out.next, "next");
    verify_batch(host_threads(1), verifier, drafts, p, q, requests, out, scratch);
}

/// The step's memory on that device.
struct memory {
    using policy = pretended::policy;
    using error = void;

    std::vector<std::uint64_t> mirror, for_verifier;

    template <verify::verifier Verifier>
    static std::size_t verify_workspace_size(policy const&, std::int32_t requests, node_id nodes, std::int32_t depth) {
        return multidraft::verify_workspace_size<Verifier>(host_threads(1), requests, nodes, depth);
    }
    void reserve(policy const& on, std::size_t mirrored, std::size_t scratch) {
        on.on->memory.assign(mirrored / 8, 0x5a5a5a5a5a5a5a5aU);
        mirror.assign(mirrored / 8, 0xa5a5a5a5a5a5a5a5U);
        for_verifier.assign(2 * (scratch / 16 + 1), 0);
        there_ = on.on->memory.data();
    }
    std::byte* here() { return reinterpret_cast<std::byte*>(mirror.data()); }
    std::byte* there() { return reinterpret_cast<std::byte*>(there_); }
    workspace scratch() { return {for_verifier.data(), for_verifier.size() * 8}; }
    void send(policy const&, std::size_t size) { std::memcpy(there(), here(), size); }
    void fetch(policy const&, std::size_t begin, std::size_t end) {
        std::memcpy(here() + begin, there() + begin, end - begin);
    }

private:
    std::uint64_t* there_ = nullptr;
};

}  // namespace MULTIDRAFT_NAMESPACE::pretended

namespace MULTIDRAFT_NAMESPACE {
namespace {

TEST(device_batch_step, all_arrays_of_a_call_are_on_the_device) {
    using verifier = verify::nested_ranked_block<law::stratified>;
    device_batch_step<draft::stratified, verifier, pretended::memory> step;
    pretended::device device;
    pretended::policy const policy{&device};
    constexpr index_t vocabulary = 40;
    std::vector<float> logits(64 * static_cast<std::size_t>(vocabulary));
    for (std::size_t k = 0; k < logits.size(); ++k) logits[k] = static_cast<float>(k * 7919 % 31) / 8;
    rows_of_batch<float> const rows{logits.data(), 0, vocabulary};
    std::vector<std::uint32_t> const words{~0U, ~0U};
    std::vector<std::int64_t> const first_of_all(64, 0);
    logit_adjustments adjustments;
    adjustments.allowed = {words.data(), 1, 2};
    adjustments.allowed_of = first_of_all.data();
    adjustments.bias_of = first_of_all.data();

    std::vector<token_id> const texts[] = {{1, 2}, {3}, {4, 5, 6}};
    topology const shape = branching({2, 2});
    step.start();
    for (std::uint32_t b = 0; b < 3; ++b) step.add({.text = texts[b], .shape = &shape, .seed = 9, .id = b});
    device_inputs there;
    int calls = 0;
    for (auto in = step.next_level(); !in.empty(); in = step.next_level()) {
        step.copy_inputs(policy, in, there);
        for (auto const* const array : {there.tokens, there.positions, there.requests, there.entries})
            device.expect_there(array, "inputs");
        for (auto const* const array : {there.offsets, there.scored.inputs}) device.expect_there(array, "places");
        device.expect_there(there.first_entries, "first_entries");
        device.expect_there(there.mask.words, "mask");
        EXPECT_EQ(there.size, static_cast<std::int64_t>(in.size()));
        EXPECT_EQ(std::vector<token_id>(there.tokens, there.tokens + there.size),
                  std::vector<token_id>(in.tokens.begin(), in.tokens.end()));
        step.draw(policy, rows, adjustments);
        ++calls;
    }
    EXPECT_FALSE(step.target_inputs().empty());
    step.verify(policy, rows, adjustments, rows, adjustments);
    EXPECT_EQ(device.launches, calls + 1);
    kept_batch of_target, of_draft;
    step.copy_kept(policy, of_target, of_draft);
    for (kept_batch const& kept : {of_target, of_draft}) {
        device.expect_there(kept.nodes, "kept");
        device.expect_there(kept.counts, "counts");
        device.expect_there(kept.bases, "bases");
        device.expect_there(kept.offsets, "offsets");
    }
    for (std::int32_t b = 0; b < step.requests(); ++b) EXPECT_FALSE(step.tokens(b).empty());
}

}  // namespace
}  // namespace MULTIDRAFT_NAMESPACE
