#include "acceptance/survey.hpp"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>
#include <limits>
#include <mutex>
#include <numeric>
#include <thread>

#include "acceptance/progress.hpp"
#include "multidraft/analysis/ratio_rows.hpp"
#include "multidraft/base/error.hpp"

namespace multidraft::examples {
namespace {

struct task {
    measure const* what;
    index_t drafts;
};

/// The library's measures, and one's own with those of their law.
std::vector<measure> all_measures(std::vector<own_verifier> const& own) {
    auto all = measures();
    for (own_verifier const& one : own) {
        auto const same = [&](measure const& m) { return m.law == one.at_a_node.law; };
        auto const last = std::find_if(all.rbegin(), all.rend(), same);
        all.insert(last == all.rend() ? all.end() : last.base(), one.at_a_node);
    }
    return all;
}

}  // namespace

std::uint64_t seed_of(std::uint64_t seed, std::int64_t row) {
    std::uint64_t x = seed + 0x9e3779b97f4a7c15U * (static_cast<std::uint64_t>(row) + 1);
    x = (x ^ (x >> 30U)) * 0xbf58476d1ce4e5b9U;
    x = (x ^ (x >> 27U)) * 0x94d049bb133111ebU;
    return x ^ (x >> 31U);
}

int threads_for(int wanted, std::int64_t pieces) {
    auto const threads =
        wanted > 0 ? static_cast<std::int64_t>(wanted) : static_cast<std::int64_t>(std::thread::hardware_concurrency());
    return static_cast<int>(std::clamp<std::int64_t>(threads, 1, pieces));
}

void for_all(std::int64_t count, int threads, char const* what, std::function<void(std::int64_t)> const& work) {
    std::atomic<std::int64_t> next{0};
    std::int64_t failed_at = std::numeric_limits<std::int64_t>::max();
    std::exception_ptr failure;
    std::mutex mutex;
    progress shown(count, what);
    auto const loop = [&] {
        for (;;) {
            std::int64_t const k = next++;
            if (k >= count) return;
            try {
                work(k);
            } catch (...) {
                // They are begun in order: none before this one is left, but some may not be done yet.
                std::lock_guard const lock(mutex);
                if (k < failed_at) {
                    failed_at = k;
                    failure = std::current_exception();
                }
                next = count;
                return;
            }
            shown.step();
        }
    };
    {
        std::vector<std::jthread> team;
        for (int t = 1; t < threads_for(threads, count); ++t) team.emplace_back(loop);
        loop();
    }
    if (failure) std::rethrow_exception(failure);
}

summary survey(row_pairs const& rows, sampling_units const& units, std::vector<own_verifier> const& own,
               survey_options const& options) {
    for (index_t const n : options.drafts) {
        if (n < 1) refuse("drafts", n, "one token or more is drafted");
        if (n > rows.vocabulary())
            refuse("drafts", n, "beyond the support: a row has " + std::to_string(rows.vocabulary()) + " tokens");
    }
    summary result;
    result.drafts = options.drafts;
    std::sort(result.drafts.begin(), result.drafts.end());
    result.drafts.erase(std::unique(result.drafts.begin(), result.drafts.end()), result.drafts.end());
    index_t const most = result.drafts.back();
    auto computed = result.drafts;
    if (options.fewer_too && computed.size() == 1) {
        computed.resize(static_cast<std::size_t>(most));
        std::iota(computed.begin(), computed.end(), 1);
    }
    auto const all = all_measures(own);
    std::vector<task> tasks;
    for (index_t const n : computed)
        for (measure const& m : all)
            if (m.applies(n)) tasks.push_back({&m, n});

    auto const count = static_cast<std::size_t>(rows.rows());
    for (task const& t : tasks) {
        summary_line line;
        line.drafts = t.drafts;
        line.law = t.what->law;
        line.verifier = t.what->verifier;
        line.lossless = t.what->lossless;
        line.values.resize(count);
        line.errors.resize(count);
        if (options.by_rank && !t.what->is_bound())
            line.values_by_rank.assign(static_cast<std::size_t>(t.drafts), std::vector<double>(count));
        result.lines.push_back(std::move(line));
    }
    result.rows = rows.rows();
    result.vocabulary = rows.vocabulary();
    result.baseline = options.baseline;
    result.units = units;
    require_baseline(result);

    // The mean over many rows needs fewer samples of each; their errors are part of the interval.
    std::int64_t const samples = std::clamp<std::int64_t>(262144 / rows.rows(), 1024, 16384);
    std::int64_t const trials =
        options.trials > 0 ? options.trials : std::clamp<std::int64_t>(65536 / rows.rows(), 256, 16384);
    for_all(rows.rows(), options.threads, "rows", [&](std::int64_t row) {
        row_pair const pair = rows.load(row, most);
        analysis::ratio_rows const sorted(pair.p, pair.q);
        estimation const how{samples, trials, seed_of(options.seed, row), options.by_rank};
        auto const at = static_cast<std::size_t>(row);
        for (std::size_t k = 0; k < tasks.size(); ++k) {
            rate const found = tasks[k].what->compute(pair, sorted, tasks[k].drafts, how);
            summary_line& line = result.lines[k];
            line.values[at] = found.value;
            line.errors[at] = found.standard_error;
            for (std::size_t r = 0; r < line.values_by_rank.size(); ++r)
                line.values_by_rank[r][at] = found.by_rank.at(r);
        }
    });
    summarise(result);
    return result;
}

}  // namespace multidraft::examples
