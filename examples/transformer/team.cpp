#include "transformer/team.hpp"

#include <algorithm>
#include <chrono>

namespace multidraft::examples {
namespace {

using clock = std::chrono::steady_clock;

/// How long a thread looks for work, or for the end of work, before it sleeps. Longer than the gaps between the
/// products of a model, shorter than what another program's thread on this core would notice.
constexpr std::chrono::microseconds patience{20};

// What is left of a share: the job's number, then the first and the end of its units.
constexpr unsigned unit_bits = 18;
constexpr std::uint64_t unit_mask = (std::uint64_t{1} << unit_bits) - 1;

constexpr std::uint64_t state_of(std::uint64_t number, std::uint64_t first, std::uint64_t last) {
    return number << (2 * unit_bits) | first << unit_bits | last;
}
constexpr std::uint64_t first_of(std::uint64_t state) { return state >> unit_bits & unit_mask; }
constexpr std::uint64_t last_of(std::uint64_t state) { return state & unit_mask; }
/// Numbers that differ by a multiple of 2^28 are the same: no helper is late by as many jobs.
constexpr bool is_of(std::uint64_t state, std::uint64_t number) {
    return (state ^ state_of(number, 0, 0)) >> (2 * unit_bits) == 0;
}

/// A unit is what is taken at least: one of the count, unless these are too many.
constexpr std::int32_t unit_of(std::int32_t count) { return 1 + (count - 1) / static_cast<std::int32_t>(unit_mask); }
constexpr std::int32_t units_of(std::int32_t count) {
    std::int32_t const unit = unit_of(count);
    return count / unit + (count % unit != 0 ? 1 : 0);
}

void relax() noexcept {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
}

/// Looks for `done()` for as long as `patience` lasts.
template <class F>
bool comes_soon(F const& done) {
    auto const end = clock::now() + patience;
    do {
        for (int i = 0; i < 32; ++i) {
            if (done()) return true;
            relax();
        }
    } while (clock::now() < end);
    return done();
}

}  // namespace

team::team(int threads) : left_(static_cast<std::size_t>(std::max(1, threads))) {
    for (int i = 1; i < threads; ++i) helpers_.emplace_back([this, i] { help(i); });
}

team::~team() {
    ends_.store(true);
    active_.store(0);
    active_.notify_all();
    calls_.fetch_add(1);
    calls_.notify_all();
    for (std::thread& helper : helpers_) helper.join();
}

void team::share(job const& work) {
    // No share has anything left, and every piece of the job before is done.
    call_.store(work.call, std::memory_order_release);
    object_.store(work.object, std::memory_order_release);
    count_.store(work.count, std::memory_order_release);
    if (active_.load(std::memory_order_relaxed) != work.active) {
        active_.store(work.active);
        active_.notify_all();
    }
    std::int32_t const units = units_of(work.count);
    unfinished_.store(units, std::memory_order_relaxed);
    std::uint64_t const number = number_.load(std::memory_order_relaxed) + 1;
    auto const active = static_cast<std::uint64_t>(work.active);
    for (std::uint64_t t = 0; t < active; ++t) {
        auto const all = static_cast<std::uint64_t>(units);
        left_[t].state.store(state_of(number, all * t / active, all * (t + 1) / active), std::memory_order_release);
    }
    number_.store(number);
    if (asleep_.load() > 0) {
        calls_.fetch_add(1);
        calls_.notify_all();
    }
    work_on(work, number, 0);
    // Sleeping instead of spinning leaves this core to a helper that was interrupted on its own core.
    if (!comes_soon([this] { return unfinished_.load(std::memory_order_acquire) == 0; })) {
        for (std::int32_t left = unfinished_.load(std::memory_order_acquire); left != 0;
             left = unfinished_.load(std::memory_order_acquire))
            unfinished_.wait(left, std::memory_order_acquire);
    }
}

std::int32_t team::take_from(int of, job const& work, std::uint64_t number, int thread) {
    std::atomic<std::uint64_t>& state = left_[static_cast<std::size_t>(of)].state;
    std::int32_t const unit = unit_of(work.count);
    std::int32_t taken = 0;
    std::uint64_t seen = state.load(std::memory_order_acquire);
    while (is_of(seen, number) && first_of(seen) < last_of(seen)) {
        std::uint64_t first = first_of(seen);
        std::uint64_t const last = last_of(seen);
        std::uint64_t const piece = (last - first + 1) / 2;
        std::uint64_t const rest =
            of == thread ? state_of(number, first + piece, last) : state_of(number, first, last - piece);
        if (!state.compare_exchange_weak(seen, rest, std::memory_order_acq_rel, std::memory_order_acquire)) continue;
        if (of != thread) first = last - piece;
        auto const begin = static_cast<std::int64_t>(first) * unit;
        auto const end = std::min<std::int64_t>(begin + static_cast<std::int64_t>(piece) * unit, work.count);
        work.call(work.object, static_cast<std::int32_t>(begin), static_cast<std::int32_t>(end), thread);
        taken += static_cast<std::int32_t>(piece);
        seen = state.load(std::memory_order_acquire);
    }
    return taken;
}

void team::work_on(job const& work, std::uint64_t number, int thread) {
    for (int k = 0; k < work.active; ++k) {
        std::int32_t const taken = take_from((thread + k) % work.active, work, number, thread);
        if (taken != 0 && unfinished_.fetch_sub(taken, std::memory_order_acq_rel) == taken) unfinished_.notify_one();
    }
}

void team::help(int thread) {
    std::uint64_t done = 0;  // the last job that this thread knows of
    while (!ends_.load()) {
        if (int const active = active_.load(); thread >= active) {
            if (!ends_.load()) active_.wait(active);
            continue;
        }
        auto const there_is_more = [&] { return number_.load() != done || ends_.load(); };
        if (!comes_soon(there_is_more)) {
            std::int32_t const call = calls_.load();
            asleep_.fetch_add(1);
            // Later callers read `asleep_`; earlier ones have changed the number.
            if (!there_is_more()) calls_.wait(call);
            asleep_.fetch_sub(1);
            continue;
        }
        std::uint64_t const number = number_.load(std::memory_order_acquire);
        job const work{call_.load(std::memory_order_acquire), object_.load(std::memory_order_acquire),
                       count_.load(std::memory_order_acquire), active_.load(std::memory_order_acquire)};
        // If these belong to a later job, shares have another number or nothing left, and nothing is taken.
        if (thread < work.active) work_on(work, number, thread);
        done = number;
    }
}

thread_choice::thread_choice(int most) : levels_(1), most_(std::max(1, most)) {
    while ((1 << levels_) < 2 * most_) ++levels_;
    for (record& r : records_) {
        r.seconds.resize(static_cast<std::size_t>(levels_));
        r.now = r.tried = levels_ - 1;
    }
}

void thread_choice::begin(std::size_t kind) {
    for (std::size_t distance = 1; distance < records_.size(); ++distance)
        for (std::size_t const other : {kind - distance, kind + distance}) {
            if (other >= records_.size() || records_[other].last_trial < 0) continue;
            records_[kind].now = records_[other].now;
            return;
        }
}

int thread_choice::next(int kind) {
    record& r = records_[static_cast<std::size_t>(kind)];
    if (r.seconds[static_cast<std::size_t>(r.now)] == 0) begin(static_cast<std::size_t>(kind));  // its first call
    r.tried = r.now;
    if (levels_ > 1 && --r.until_trial < 0) {
        r.last_trial = (r.last_trial + 1) % levels_;
        if (r.last_trial == r.now) r.last_trial = (r.last_trial + 1) % levels_;
        r.tried = r.last_trial;
    }
    return std::min(most_, 1 << r.tried);
}

void thread_choice::took(int kind, double seconds) {
    record& r = records_[static_cast<std::size_t>(kind)];
    auto const at = [&](int level) -> double& { return r.seconds[static_cast<std::size_t>(level)]; };
    double& known = at(r.tried);
    bool const trial = r.tried != r.now;
    constexpr double far = 1.5;
    if (trial) {
        // Less often while nothing changes, and seldom what would have to change much.
        r.interval = std::min(256, (seconds > far * at(r.now) ? 8 : 2) * r.interval);
        r.until_trial = r.interval;
    } else if (known != 0 && seconds > far * known) {
        // One call may have been disturbed.
        if (++r.slow == 2) r.until_trial = 0;
    } else {
        r.slow = 0;
    }
    // A trial counts fully, since it is rare; the calls in between are averaged.
    known = known == 0 || trial ? seconds : known + (seconds - known) / 4;
    int best = r.now;
    for (int level = 0; level < levels_; ++level)
        if (at(level) != 0 && at(level) < at(best)) best = level;
    if (best != r.now) {
        r.now = best;
        r.interval = 8;
        r.until_trial = r.interval;
        r.slow = 0;
    }
}

}  // namespace multidraft::examples
