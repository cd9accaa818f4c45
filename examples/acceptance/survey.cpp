#include "acceptance/survey.hpp"

#include <algorithm>
#include <atomic>
#include <exception>
#include <limits>
#include <mutex>
#include <thread>
#include <vector>

#include "acceptance/progress.hpp"
#include "acceptance/rates.hpp"
#include "multidraft/analysis/ratio_rows.hpp"
#include "multidraft/core/error.hpp"

namespace multidraft::examples {
namespace {

struct task {
    measure const* what;
    index_t drafts;
};

/// Equal rows get different random numbers, and a row the same ones in every run.
std::uint64_t seed_of(std::uint64_t seed, std::int64_t row) {
    std::uint64_t x = seed + 0x9e3779b97f4a7c15U * (static_cast<std::uint64_t>(row) + 1);
    x = (x ^ (x >> 30U)) * 0xbf58476d1ce4e5b9U;
    x = (x ^ (x >> 27U)) * 0x94d049bb133111ebU;
    return x ^ (x >> 31U);
}

}  // namespace

summary survey(row_pairs const& rows, survey_options const& options) {
    if (options.drafts < 1) refuse("drafts", options.drafts, "one token or more is drafted");
    if (options.drafts > rows.vocabulary())
        refuse("drafts", options.drafts,
               "beyond the support: a row has " + std::to_string(rows.vocabulary()) + " tokens");
    std::vector<task> tasks;
    for (index_t n = options.fewer_too ? 1 : options.drafts; n <= options.drafts; ++n)
        for (measure const& m : measures())
            if (m.applies(n)) tasks.push_back({&m, n});

    auto const count = static_cast<std::size_t>(rows.rows());
    std::vector<std::vector<double>> values(tasks.size(), std::vector<double>(count));
    std::atomic<std::int64_t> next{0};
    std::int64_t failed_at = std::numeric_limits<std::int64_t>::max();
    std::exception_ptr failure;
    std::mutex mutex;
    // The mean over many rows needs fewer samples of each; their errors are part of the interval.
    std::int64_t const samples = std::clamp<std::int64_t>(262144 / rows.rows(), 1024, 16384);
    progress shown(rows.rows(), "rows");
    auto const work = [&] {
        for (;;) {
            std::int64_t const row = next++;
            if (row >= rows.rows()) return;
            try {
                row_pair const pair = rows.load(row, options.drafts);
                analysis::ratio_rows const sorted(pair.p, pair.q);
                estimation const how{samples, seed_of(options.seed, row)};
                for (std::size_t k = 0; k < tasks.size(); ++k)
                    values[k][static_cast<std::size_t>(row)] =
                        tasks[k].what->compute(pair, sorted, tasks[k].drafts, how).value;
            } catch (...) {
                // Rows are begun in order: no row before this one is left, but some may not be done yet.
                std::lock_guard const lock(mutex);
                if (row < failed_at) {
                    failed_at = row;
                    failure = std::current_exception();
                }
                next = rows.rows();
                return;
            }
            shown.step();
        }
    };
    auto const wanted = options.threads > 0 ? static_cast<std::int64_t>(options.threads)
                                            : static_cast<std::int64_t>(std::thread::hardware_concurrency());
    auto const threads = std::clamp<std::int64_t>(wanted, 1, rows.rows());
    {
        std::vector<std::jthread> team;
        for (std::int64_t t = 1; t < threads; ++t) team.emplace_back(work);
        work();
    }
    if (failure) std::rethrow_exception(failure);

    summary result;
    result.rows = rows.rows();
    result.vocabulary = rows.vocabulary();
    result.drafts = options.drafts;
    for (std::size_t k = 0; k < tasks.size(); ++k)
        result.lines.push_back({tasks[k].drafts, tasks[k].what->law, tasks[k].what->verifier, interval_of(values[k])});
    return result;
}

}  // namespace multidraft::examples
