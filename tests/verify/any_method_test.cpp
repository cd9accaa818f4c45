// Methods by name at run time: every one decides as its sampler and verifier do; their properties; errors. Rows of
// other types are in any_method_rows_test.cpp and any_method_probabilities_test.cpp.
#include <cstddef>
#include <cstdint>
#include <limits>
#include <set>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "multidraft/random/source.hpp"
#include "multidraft/rows/logit_rows.hpp"
#include "reference/methods.hpp"
#include "verify/any_method_rows.hpp"

namespace any_method_test {
namespace {

using namespace multidraft;
using namespace multidraft::testing;

using of_floats = any_rows<float, false>;

TEST(any_method, decides_as_the_sampler_and_the_verifier_do) {
    expect_all_the_same<methods::for_engines, of_floats, of_floats>(60);
}

TEST(any_method, takes_other_lists) {
    expect_all_the_same<multidraft::testing::reference::methods, of_floats, of_floats>(20);
    EXPECT_EQ((any_method_of<methods::best>::count), 1U);
    EXPECT_THROW(static_cast<void>(any_method_of<methods::best>::parse("naive/iid")), invalid_input);
}

TEST(any_method, says_what_the_list_says) {
    std::size_t k = 0;
    std::set<std::string_view> names;
    methods::for_engines::for_each([&](auto listed) {
        using method = decltype(listed);
        ASSERT_LT(k, method_names().size());
        EXPECT_EQ(method_names()[k], method::name);
        any_method const m = parse_method(method::name);
        EXPECT_EQ(m.index(), k++);
        EXPECT_EQ(m.name(), method::name);
        EXPECT_EQ(m.summary(), method::summary);
        EXPECT_EQ(m.law_name(), method::law::traits.name);
        EXPECT_EQ(m.trees(), method::trees);
        EXPECT_TRUE(m.is_lossless());
        EXPECT_EQ(m.counts_certain(), counts_certain<typename method::law>);
        EXPECT_TRUE(names.insert(m.name()).second) << m.name() << " is twice in the list";
    });
    EXPECT_EQ(k, any_method::count);
    EXPECT_EQ(k, method_names().size());
    EXPECT_EQ(any_method{}, parse_method("nested_ranked_block/stratified"));
    EXPECT_NE(any_method{}, parse_method("naive/iid"));
    EXPECT_FALSE(parse_method("naive/iid").reads_draft());
    EXPECT_FALSE(parse_method("naive/independent").reads_draft());
    EXPECT_FALSE(parse_method("shared_randomness").reads_draft());
    EXPECT_TRUE(parse_method("k_seq/iid").reads_draft());
    EXPECT_TRUE(parse_method("multi_round/independent").of_several_drafts());
    EXPECT_FALSE(parse_method("k_seq/sequences").of_several_drafts());
    static_assert(std::is_trivially_copyable_v<any_method> && sizeof(any_method) <= sizeof(std::size_t));
}

/// The error of a call.
template <class F>
invalid_input refused(F const& f) {
    try {
        f();
    } catch (invalid_input const& e) {
        return e;
    }
    ADD_FAILURE() << "nothing was refused";
    return {"", 0, "", ""};
}

TEST(any_method, names_the_nearest_of_an_unknown_name) {
    auto const reason = [](std::string_view name) {
        invalid_input const e = refused([&] { static_cast<void>(parse_method(name)); });
        EXPECT_EQ(e.argument(), "name");
        EXPECT_EQ(e.index(), -1);
        EXPECT_EQ(e.value(), name.substr(0, 100));
        return e.reason();
    };
    EXPECT_NE(reason("traversal/sequental").find("the nearest are traversal/sequential,"), std::string::npos);
    EXPECT_NE(reason("nested_ranked_block").find("nested_ranked_block/iid"), std::string::npos);
    EXPECT_NE(reason("nested_ranked_block").find("nested_ranked_block/stratified"), std::string::npos);
    EXPECT_NE(reason("nested_r").find("the nearest are nested_ranked_block/stratified, nested_ranked_block/iid,"),
              std::string::npos);
    EXPECT_NE(reason("Naive/IID").find("naive/iid"), std::string::npos);
    EXPECT_NE(reason("").find("method_names()"), std::string::npos);
    EXPECT_LT(reason(std::string(100000, 'x')).size(), 300U);
    EXPECT_THROW(static_cast<void>(parse_method(std::string_view("naive/iid\0", 10))), invalid_input);
}

/// A tree of three nodes over four tokens that every method of its law accepts except those for pairs, forks and
/// chains.
struct small_problem {
    std::vector<node_id> parents{none, 0, 0};
    std::vector<token_id> tokens{0, 1, 2};
    std::vector<index_t> certain{0, 0, 0};
    std::vector<float> rows = std::vector<float>(12, 0.0F);
    std::vector<node_id> path{-7, -7, -7};

    [[nodiscard]] logit_rows<float> logits() const { return {rows_view<float>(rows.data(), 3, 4), sampling_params{}}; }
    [[nodiscard]] any_drafted tree(std::string_view law) const { return {{parents, tokens}, certain, law}; }
    verdict run(any_method m, span<std::byte> scratch) {
        return m.verify(tree(m.law_name()), target_rows(logits()), draft_rows(logits()), {}, path, scratch);
    }
    void expect_untouched() const { EXPECT_EQ(path, std::vector<node_id>(3, -7)); }
};

TEST(any_method, refuses_scratch_that_does_not_do) {
    std::size_t with_scratch = 0;
    for (std::string_view const name : method_names()) {
        any_method const m = parse_method(name);
        small_problem b;
        if (m.trees() == allowed_trees::chains) b = {{none, 0, 1}, {0, 1, 2}, {0, 0, 0}};
        if (m.law_name() == law::top_then_one::traits.name || m.law_name() == law::top_paired::traits.name)
            b.certain = {1, 0, 0};
        std::int32_t const depth = m.trees() == allowed_trees::chains ? 2 : 1;
        std::size_t const bytes = m.scratch_bytes(3, depth);
        EXPECT_EQ(bytes % 16, 0U);
        garbage memory(bytes + 16);
        if (bytes > 0) {
            ++with_scratch;
            invalid_input const small = refused([&] { b.run(m, memory.bytes().first(bytes / 2)); });
            EXPECT_EQ(small.argument(), "scratch.size") << name;
            EXPECT_EQ(small.value(), std::to_string(bytes / 2));
            EXPECT_NE(small.reason().find(" bytes are needed for a tree of 3 nodes"), std::string::npos)
                << small.what();
            invalid_input const askew = refused([&] { b.run(m, memory.bytes().subspan(1, bytes)); });
            EXPECT_EQ(askew.argument(), "scratch.data") << name;
            EXPECT_THROW(b.run(m, {}), invalid_input) << name;
            b.expect_untouched();
        }
        EXPECT_NO_THROW(b.run(m, memory.bytes().first(bytes))) << name;
    }
    EXPECT_GE(with_scratch, 8U);
    EXPECT_EQ(refused([] { static_cast<void>(any_method{}.scratch_bytes(0, 0)); }).argument(), "nodes");
    EXPECT_EQ(refused([] { static_cast<void>(any_method{}.scratch_bytes(3, 3)); }).argument(), "depth");
    EXPECT_EQ(refused([] { static_cast<void>(any_method{}.scratch_bytes(3, -1)); }).argument(), "depth");
}

TEST(any_method, refuses_trees_of_another_law_or_shape) {
    for (std::string_view const name : method_names()) {
        any_method const m = parse_method(name);
        small_problem b;
        garbage memory(m.scratch_bytes(3, 2));
        for (std::string_view const law : {"", "another"}) {
            invalid_input const e = refused([&] {
                static_cast<void>(
                    m.verify(b.tree(law), target_rows(b.logits()), draft_rows(b.logits()), {}, b.path, memory.bytes()));
            });
            EXPECT_EQ(e.argument(), "drafts.law") << name;
            EXPECT_NE(e.reason().find("'" + std::string(m.law_name()) + "'"), std::string::npos) << e.what();
        }
        method_memory<logit_rows<float>> owned;
        EXPECT_THROW(static_cast<void>(m.verify(b.tree("another"), target_rows(b.logits()), draft_rows(b.logits()), {},
                                                b.path, owned)),
                     invalid_input);
        if (m.trees() == allowed_trees::chains) {
            EXPECT_THROW(b.run(m, memory.bytes()), invalid_input) << name;
        }
        b.parents = {none, 0, 5};
        EXPECT_THROW(b.run(m, memory.bytes()), invalid_input) << name;
        EXPECT_THROW(static_cast<void>(m.verify(b.tree(m.law_name()), target_rows(b.logits()), draft_rows(b.logits()),
                                                {}, b.path, owned)),
                     invalid_input);
        b.parents = {};
        EXPECT_THROW(static_cast<void>(m.verify(b.tree(m.law_name()), target_rows(b.logits()), draft_rows(b.logits()),
                                                {}, b.path, owned)),
                     invalid_input);
        b.expect_untouched();
    }
    small_problem b;
    b.certain = {3, 0, 0};
    garbage memory(any_method{}.scratch_bytes(3, 2));
    EXPECT_EQ(refused([&] { b.run(any_method{}, memory.bytes()); }).argument(), "certain");
    b.certain = {};
    EXPECT_EQ(refused([&] { b.run(any_method{}, memory.bytes()); }).argument(), "certain.size");
    b.expect_untouched();
}

TEST(any_method, refuses_rows_that_do_not_fit) {
    small_problem b;
    any_method const one = parse_method("recursive_rejection/iid");
    any_method const several = parse_method("multi_round/independent");
    std::vector<logit_rows<float>> const two{b.logits(), b.logits()};
    std::vector<logit_rows<float>> const unequal{b.logits(),
                                                 {rows_view<float>(b.rows.data(), 3, 3), sampling_params{}}};
    using rows = span<logit_rows<float> const>;
    auto const verify = [&](any_method m, rows draft) {
        return m.verify(b.tree(m.law_name()), target_rows(b.logits()), draft_rows(draft), {}, b.path, {});
    };
    EXPECT_EQ(refused([&] { static_cast<void>(verify(one, two)); }).argument(), "draft.size");
    EXPECT_EQ(refused([&] { static_cast<void>(verify(one, {})); }).argument(), "draft.size");
    EXPECT_EQ(refused([&] { static_cast<void>(verify(several, {})); }).argument(), "draft.size");
    EXPECT_EQ(refused([&] { static_cast<void>(verify(several, unequal)); }).argument(), "draft");
    method_memory<logit_rows<float>> owned;
    auto const of_count = [&](index_t n) {
        return logit_rows<float>(rows_view<float>(b.rows.data(), n, 4), sampling_params{});
    };
    for (any_method const m : {one, parse_method("traversal/iid")}) {
        auto const argument = [&](index_t of_target, index_t of_draft) {
            return refused([&] {
                       static_cast<void>(m.verify(b.tree(m.law_name()), target_rows(of_count(of_target)),
                                                  draft_rows(of_count(of_draft)), {}, b.path, owned));
                   })
                .argument();
        };
        EXPECT_EQ(argument(2, 3), "target.rows");
        EXPECT_EQ(argument(-1, 3), "target.rows");
        EXPECT_EQ(argument(3, 0), "draft.rows");
        EXPECT_EQ(argument(3, -1), "draft.rows");
    }
    b.expect_untouched();
    EXPECT_NO_THROW(static_cast<void>(verify(several, two)));
}

TEST(any_method, refuses_draws_that_cannot_be) {
    std::vector<float> row{1, 2, 3, 4};
    std::vector<token_id> out(2, -7);
    row_view<float> const logits(row.data(), 4);
    using limits = std::numeric_limits<std::int32_t>;
    for (std::string_view const name : method_names()) {
        any_method const m = parse_method(name);
        auto const argument = [&](draw_key const& key, parent_node const& parent) {
            return refused([&] { static_cast<void>(m.draw(logits, sampling_params{}, key, parent, out)); }).argument();
        };
        EXPECT_EQ(argument({}, {.node = -1}), "parent.node");
        EXPECT_EQ(argument({}, {.node = max_nodes}), "parent.node");
        EXPECT_EQ(argument({}, {.node = 2, .depth = 3}), "parent.depth");
        EXPECT_EQ(argument({}, {.node = 2, .depth = -1}), "parent.depth");
        EXPECT_EQ(argument({.position = limits::max()}, {.node = 2, .depth = 1}), "key.position");
        EXPECT_EQ(argument({}, {.first_child = -1}), "parent.first_child");
        EXPECT_THROW(static_cast<void>(m.draw(logits, sampling_params{.temperature = -1.0F}, {}, {}, out)),
                     invalid_input);
        if (!m.of_several_drafts()) {
            EXPECT_EQ(argument({}, {.first_child = 1}), "parent.first_child") << name;
        }
        std::vector<float> none_left{0, 0, 0, 0};
        EXPECT_THROW(static_cast<void>(m.draw(probabilities<float>(none_left.data(), 4), {}, {}, out)), invalid_input);
        EXPECT_THROW(static_cast<void>(m.draw(probabilities<float>(none_left.data(), 0), {}, {}, out)), invalid_input);
        std::vector<float> const truncated{0.5F, 0.25F, 0, 0};
        EXPECT_STREQ(
            refused([&] { static_cast<void>(m.draw(probabilities<float>(truncated.data(), 4), {}, {}, out)); }).what(),
            "draft[0] = 0.75: the probabilities of a row sum to 1");
    }
    EXPECT_EQ(out, std::vector<token_id>(2, -7));
}

}  // namespace
}  // namespace any_method_test
