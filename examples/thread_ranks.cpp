// A communicator of your own for rows in shards. Here the ranks are threads of one process, each with some columns of
// every row, which verify a tree without gathering a row. An engine writes the class below for NCCL, Gloo or UCX.
#include <barrier>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <thread>
#include <vector>

#include "multidraft/batch/host_threads.hpp"
#include "multidraft/batch/verify.hpp"
#include "multidraft/draft/sequential.hpp"
#include "multidraft/random/source.hpp"
#include "multidraft/shards.hpp"
#include "multidraft/verify/recursive_rejection.hpp"

namespace md = multidraft;
using verifier = md::verify::recursive_rejection<md::draft::sequential::law>;

// Synchronises the ranks: each publishes its data, and all read it between two barriers.
struct meeting {
    explicit meeting(int ranks) : shown(static_cast<std::size_t>(ranks)), all_here(ranks) {}
    std::vector<void const*> shown;
    std::barrier<> all_here;
};

// A communicator: `all_gather` and `all_reduce`, called by all ranks in the same order.
class thread_rank {
public:
    thread_rank(meeting& at, int rank) : at_(at), rank_(rank) {}

    int rank() const { return rank_; }
    int size() const { return static_cast<int>(at_.shown.size()); }
    void all_gather(void const* from, std::size_t bytes, void* to) {
        at_.shown[static_cast<std::size_t>(rank_)] = from;
        at_.all_here.arrive_and_wait();
        for (std::size_t r = 0; r < at_.shown.size(); ++r)
            std::memcpy(static_cast<std::byte*>(to) + r * bytes, at_.shown[r], bytes);
        at_.all_here.arrive_and_wait();
    }
    void all_reduce(md::span<std::uint64_t> numbers) {
        std::vector<std::uint64_t> const mine(numbers.begin(), numbers.end());
        at_.shown[static_cast<std::size_t>(rank_)] = mine.data();
        at_.all_here.arrive_and_wait();
        for (std::size_t k = 0; k < numbers.size(); ++k) {
            numbers[k] = 0;
            for (void const* const theirs : at_.shown) numbers[k] += static_cast<std::uint64_t const*>(theirs)[k];
        }
        at_.all_here.arrive_and_wait();
    }

private:
    meeting& at_;
    int rank_;
};

// Logits that any thread can compute. An engine's rank computes them with its part of the output matrix.
float logit(int model, std::int64_t row, std::int32_t column) {
    md::addressed_uniforms const uniforms(7);
    float const base = uniforms.uniform<float>({static_cast<std::int32_t>(row), 0, md::purpose::test, column});
    float const other = uniforms.uniform<float>({static_cast<std::int32_t>(row), 1, md::purpose::test, column});
    return 12 * base + (model == 0 ? 0.0F : 2 * other);
}

std::vector<float> columns_of(int model, int rows, std::int32_t begin, std::int32_t end) {
    std::vector<float> result;
    for (int r = 0; r < rows; ++r)
        for (std::int32_t i = begin; i < end; ++i) result.push_back(logit(model, r, i));
    return result;
}

int main() {
    constexpr std::int32_t vocabulary = 50257;
    std::vector<md::node_id> const parents{-1, 0, 0, 1, 1, 2};
    std::vector<std::int64_t> const offsets{0, 6};
    std::vector<md::token_id> tokens(6);
    std::uint64_t const seed = 3;
    std::int32_t const position = 11;
    md::request_batch const requests{&seed, &position};

    // The tree is drawn from the draft's rows, which every rank has.
    std::vector<float> const draft = columns_of(1, 6, 0, vocabulary);
    md::logit_batch<float> const q{draft.data(), vocabulary, vocabulary};
    for (md::node_id const v : {0, 1, 2}) {
        md::node_range const children = md::tree_view{parents, tokens}.children(v);
        auto row = md::process_logits(md::host_group{}, q.view(v), {});
        md::addressed_source source{requests.uniforms(0)};
        auto const drawn =
            md::draft::sequential{}(md::host_group{}, row.row, row.sums, source, {position, v},
                                    md::span<md::token_id>(tokens).subspan(static_cast<std::size_t>(children.first),
                                                                           static_cast<std::size_t>(children.count)));
        if (drawn.count < children.count) return 1;
    }
    md::tree_batch const trees{1, 6, offsets.data(), parents.data(), tokens.data()};

    struct verdict {
        md::node_id path[6] = {};
        std::int32_t accepted = 0;
        md::token_id next = md::none;
        md::verdict_batch view() { return {path, 6, &accepted, &next}; }
    };
    constexpr int ranks = 3;
    meeting at(ranks);
    std::vector<verdict> made(ranks);
    std::vector<md::shards::traffic> sent(ranks);
    std::vector<std::thread> threads;
    for (int r = 0; r < ranks; ++r)
        threads.emplace_back([&, r] {
            thread_rank rank(at, r);
            auto const mine = md::shards::even_columns(vocabulary, ranks, r);
            md::shards::rank_team team(rank, mine);
            std::vector<float> const target = columns_of(0, 6, mine.begin, mine.end);
            md::shards::shard_batch<float> const p{target.data(), mine.size(), vocabulary};
            md::verify_batch(team, verifier{}, md::drawn_by<verifier::law>(trees), md::target_rows(p),
                             md::draft_rows(q), requests, made[static_cast<std::size_t>(r)].view());
            sent[static_cast<std::size_t>(r)] = team.sent();
        });
    for (std::thread& t : threads) t.join();

    verdict whole;
    std::vector<float> const target = columns_of(0, 6, 0, vocabulary);
    md::verify_batch(md::host_threads(1), verifier{}, md::drawn_by<verifier::law>(trees),
                     md::target_rows(md::logit_batch<float>{target.data(), vocabulary, vocabulary}), md::draft_rows(q),
                     requests, whole.view());
    bool same = true;
    for (verdict const& v : made) same = same && v.accepted == whole.accepted && v.next == whole.next;
    std::printf("%d accepted, then token %d\n", whole.accepted, whole.next);
    std::printf("all %d ranks agree: %s\n", ranks, same ? "yes" : "no");
    std::printf("%d calls; a rank received %.1f KiB, whole rows have %.1f KiB\n", static_cast<int>(sent[1].calls),
                static_cast<double>(sent[1].received) / 1024, 6 * sizeof(float) * vocabulary / 1024.0);
    return same ? 0 : 1;
}

// Output (... depends on the machine):
// ... accepted, then token ...
// all 3 ranks agree: yes
// ... calls; a rank received ... KiB, whole rows have 1177.9 KiB
