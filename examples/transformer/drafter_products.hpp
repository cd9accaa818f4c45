// The matrix products of a drafter's calls: the threads that they run in, and their workspace.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>

#include "transformer/aligned_array.hpp"
#include "transformer/linear.hpp"
#include "transformer/team.hpp"
#include "transformer/weights.hpp"

namespace multidraft::examples {

/// What one sequence of a drafter multiplies with. For one thread at a time.
class drafter_products {
public:
    /// `of`: all of its matrices, null where there is none, for up to `block_rows` rows. `chooses`: calls have as many
    /// of the threads as have been fastest lately.
    drafter_products(std::initializer_list<linear const*> of, int threads, bool chooses)
        : workspace_(largest_workspace(of)), threads_(threads), choice_(threads), chooses_(chooses) {}

    /// Buffers for that many numbers in each row.
    [[nodiscard]] static std::size_t rows_of(std::int32_t width) noexcept {
        return static_cast<std::size_t>(block_rows) * static_cast<std::size_t>(width);
    }

    /// Calls `work`, whose products run in as many threads as have been fastest lately for that kind of call.
    template <class Work>
    void timed(int kind, Work const& work) {
        auto const in = [&](int count) {
            active_ = count;
            work();
        };
        if (chooses_)
            choice_.run(kind, in);
        else
            in(threads_.threads());
    }
    /// The same in that many threads, at most all.
    template <class Work>
    void in_threads(int count, Work const& work) {
        active_ = count;
        work();
    }

    void multiply(linear const& by, float const* from, std::int32_t count, float* to) {
        by.multiply(threads_, active_, from, count, to, workspace_.data());
    }
    /// `team::run`, in other threads too only for long work.
    template <class F>
    void run(std::int32_t count, bool long_work, F const& f) {
        threads_.run(count, long_work ? active_ : 1, f);
    }
    [[nodiscard]] int threads() const noexcept { return threads_.threads(); }

private:
    static std::size_t largest_workspace(std::initializer_list<linear const*> of) {
        std::size_t most = 0;
        for (linear const* const l : of)
            for (std::int32_t rows = 1; l != nullptr && rows <= block_rows; ++rows)
                most = std::max(most, l->workspace_bytes(rows));
        return most;
    }

    aligned_array<std::byte> workspace_;
    team threads_;
    thread_choice choice_;
    bool chooses_;
    int active_ = 1;
};

}  // namespace multidraft::examples
