// Trees, masks, positions and compaction from hostile parents, shapes and entries: refused with nothing changed, or
// right.
#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include "fuzz/bytes.hpp"
#include "multidraft/base/error.hpp"
#include "multidraft/tree/compaction.hpp"
#include "multidraft/tree/mask.hpp"
#include "multidraft/tree/shapes.hpp"
#include "multidraft/tree/topology.hpp"

namespace {

using namespace multidraft;

/// Whether `node` is `other` or below it.
bool attends(std::vector<node_id> const& parents, node_id node, node_id other) {
    for (; node >= 0; node = parents[static_cast<std::size_t>(node)])
        if (node == other) return true;
    return false;
}

void masks(fuzz::bytes& in) {
    std::vector<node_id> parents;
    auto const nodes = in.below(140);
    for (std::int32_t i = 0; i < nodes; ++i)
        parents.push_back(i == 0 && in.byte() < 250 ? none : in.index(std::max(i, 1)));
    bool is_tree = false;
    try {
        auto const shape = topology::from_parents(parents);
        is_tree = true;
        std::vector<std::int32_t> positions(parents.size(), -7);
        write_positions(in.index(1000), shape.depths(), positions);
        for (node_id v = 1; v < shape.size(); ++v)
            fuzz::require(
                positions[static_cast<std::size_t>(v)] == positions[static_cast<std::size_t>(shape.parent(v))] + 1,
                "a child stands one position further");
    } catch (invalid_input const&) {  // no tree, or positions past the last one
    }
    ancestor_mask mask;
    try {
        mask.reset(in.below(200));
        auto const cut = parents.empty() ? 0U : in.byte() % parents.size();
        mask.append(span<node_id const>(parents).first(cut));
        mask.append(span<node_id const>(parents).subspan(cut));
    } catch (invalid_input const&) {
        fuzz::require(!is_tree, "a tree in level order has a mask");
        return;
    }
    for (node_id i = 0; i < mask.size(); ++i)
        for (node_id j = 0; j < mask.size(); ++j)
            fuzz::require(mask.view()(i, j) == attends(parents, i, j), "a node attends to its ancestors");
    // A dense corner, with context columns, and memory that must not change.
    std::int64_t const context = in.index(5);
    std::int64_t const columns = in.index(mask.size() + 5);
    std::int64_t const stride = std::clamp<std::int64_t>(columns + in.below(3) - 1, 0, 300);
    std::vector<std::uint8_t> dense(static_cast<std::size_t>(mask.size() * std::max<std::int64_t>(stride, 1)) + 1, 9);
    dense_mask<std::uint8_t> const out{dense.data(), mask.size(), columns, stride};
    try {
        if (columns - context <= mask.size()) write_bytes(mask.view(), context, out);
    } catch (invalid_input const&) {
        fuzz::require(std::all_of(dense.begin(), dense.end(), [](auto b) { return b == 9; }), "nothing was written");
    }
    fuzz::require(dense.back() == 9, "nothing is written beyond the mask");
    try {
        static_cast<void>(sliced(mask.view(), mask.size(), in.index(200)));
        static_cast<void>(out.sliced(in.index(200), in.index(200)));
    } catch (invalid_input const&) {
        return;
    }
}

void caches(fuzz::bytes& in) {
    std::vector<std::int32_t> cache(static_cast<std::size_t>(in.below(64)));
    std::iota(cache.begin(), cache.end(), 0);
    auto const before = cache;
    std::vector<std::int32_t> entries(static_cast<std::size_t>(in.below(8)));
    std::int32_t next = 0;
    for (auto& e : entries) e = next = in.byte() < 200 ? std::min(next, 1 << 20) + in.below(4) : in.index(64);
    std::int64_t const size = in.index(4);
    std::int64_t const context = in.index(32);
    try {
        auto const length = compact(std::span<std::int32_t>(cache), size, context, entries);
        for (std::int64_t t = 0; t < length; ++t) {
            auto const from = t < context ? t : context + entries[static_cast<std::size_t>(t - context)];
            for (std::int64_t e = 0; e < size; ++e)
                fuzz::require(cache[static_cast<std::size_t>(t * size + e)] == from * size + e, "entries moved");
        }
    } catch (invalid_input const&) {
        fuzz::require(cache == before, "nothing was moved");
    }
    cache_axis const axes[] = {{in.index(3), in.index(100)}, {in.index(3), in.index(100)}};
    cache_layout const layout{axes, in.index(40), in.index(5), in.index(5)};
    if (axes[0].count > 100 || axes[1].count > 100) return;  // valid, and as long as that
    try {
        compact(layout, context, entries, [&](std::int64_t to, std::int64_t from, std::int64_t count) {
            fuzz::require(count == layout.entry_size && to < from, "entries move down");
        });
    } catch (invalid_input const&) {
        return;
    }
}

void choices(fuzz::bytes& in) {
    std::vector<std::vector<std::int32_t>> list(static_cast<std::size_t>(in.below(12)));
    for (auto& path : list) {
        path.resize(static_cast<std::size_t>(in.below(5)));
        for (auto& rank : path) rank = in.byte() < 240 ? in.below(3) : in.index(3);
    }
    try {
        auto const shape = from_choices(list);
        fuzz::require(static_cast<std::size_t>(shape.size()) == list.size() + 1, "a node a path, and the root");
    } catch (invalid_input const&) {
        return;
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
    multidraft::fuzz::bytes in(data, size);
    switch (in.below(3)) {
        case 0:
            masks(in);
            break;
        case 1:
            caches(in);
            break;
        default:
            choices(in);
            break;
    }
    return 0;
}
