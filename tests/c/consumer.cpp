// A C++17 program that uses multidraft.h like an engine with its own flags: owning handles, errors as exceptions, one
// step of a batch of one request.
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "multidraft.h"

static_assert(__cplusplus < 202002L, "this is to be compiled as C++17");

namespace {

void check(md_status status) {
    if (status != MD_OK) throw std::runtime_error(md_last_message());
}

struct free_pool {
    void operator()(md_pool* pool) const { md_free_pool(pool); }
};

struct step {
    std::vector<std::int32_t> path;
    std::int32_t next = -1;
};

/// Verifies one tree.
step verify(std::string const& name, md_pool* pool, std::vector<std::int32_t> const& parents,
            std::vector<std::int32_t> const& tokens, std::vector<float> const& target, std::vector<float> const& draft,
            std::int32_t vocabulary, std::uint64_t seed) {
    md_method const* method = nullptr;
    check(md_find_method(name.c_str(), &method));
    md_method_info info = MD_METHOD_INFO_INIT;
    check(md_describe_method(method, &info));
    std::array<std::int64_t, 2> const offsets{0, static_cast<std::int64_t>(parents.size())};
    md_trees trees = MD_TREES_INIT;
    trees.requests = 1;
    trees.nodes = offsets[1];
    trees.offsets = offsets.data();
    trees.parents = parents.data();
    trees.tokens = tokens.data();
    trees.law = info.law;
    md_rows p = MD_ROWS_INIT;
    p.data = target.data();
    p.row_stride = vocabulary;
    p.vocabulary = vocabulary;
    md_rows q = p;
    q.data = draft.data();
    std::int32_t const position = 3;
    md_requests requests = MD_REQUESTS_INIT;
    requests.seeds = &seed;
    requests.positions = &position;
    step result;
    result.path.resize(parents.size());
    std::int32_t accepted = 0;
    md_verdicts verdicts = MD_VERDICTS_INIT;
    verdicts.path = result.path.data();
    verdicts.accepted = &accepted;
    verdicts.next = &result.next;
    check(md_verify(method, pool, &trees, &p, &q, &requests, &verdicts, nullptr, 0));
    result.path.resize(static_cast<std::size_t>(accepted));
    return result;
}

/// Each thread has its own last error.
bool errors_are_apart() {
    md_method const* method = nullptr;
    bool other_is_clean = false;
    if (md_find_method("no such method", &method) != MD_INVALID_INPUT) return false;
    std::thread([&] { other_is_clean = std::string(md_last_message()).empty(); }).join();
    return other_is_clean && std::string(md_last_message()).find("no method has this name") != std::string::npos;
}

int run() {
    md_pool* made = nullptr;
    check(md_make_pool(2, &made));
    std::unique_ptr<md_pool, free_pool> const pool(made);
    std::int32_t const vocabulary = 4;
    // The target's tokens are 2, 1 and 3 with probability 1: two are accepted, and 3 follows.
    std::vector<float> target(12, 0.0F), draft(12, 0.0F);
    target[2] = target[5] = target[11] = 100.0F;
    step const s =
        verify("recursive_rejection/sequential", pool.get(), {-1, 0, 1}, {0, 2, 1}, target, draft, vocabulary, 42);
    if (s.path != std::vector<std::int32_t>{1, 2} || s.next != 3) return 1;
    try {
        verify("recursive_rejection/sequential", nullptr, {-1, 0, 0}, {0, 2, 2}, target, draft, vocabulary, 42);
        return 2;
    } catch (std::runtime_error const& e) {
        if (std::string(e.what()).find("tokens[2] = 2") == std::string::npos) return 3;
    }
    return errors_are_apart() ? 0 : 4;
}

}  // namespace

int main() {
    int const result = run();
    std::printf("C++17 over multidraft.h: %d\n", result);
    return result;
}
