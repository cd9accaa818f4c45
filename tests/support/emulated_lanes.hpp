// The threads of a CUDA block or cluster on one CPU thread: every thread is a fibre that runs until it must wait.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <exception>
#include <memory>
#include <stdexcept>
#include <type_traits>
#include <utility>
#include <vector>

#include "multidraft/base/abi.hpp"
#include "multidraft/cuda/lane_context.hpp"
#include "support/fibre.hpp"

namespace MULTIDRAFT_NAMESPACE::testing {

/// Runs a function once for each thread of `ranks` blocks of `threads` threads.
///
/// Threads run one after another, each until it waits at a barrier or in a shuffle; `order` decides which one
/// continues, so that a missing barrier shows as a wrong result under some order. A thread that waits for others that
/// never arrive is an error, as is a warp whose threads are in different operations.
class simt_emulator {
public:
    enum class order { first_come, last_come, warp_by_warp };

    simt_emulator(int ranks, int threads, order o = order::first_come)
        : order_(o), ranks_(ranks), threads_(threads), lanes_(static_cast<std::size_t>(ranks * threads)) {
        for (auto& f : lanes_) f.stack = std::make_unique_for_overwrite<std::byte[]>(stack_size);
    }

    /// Calls `body(rank, thread)` in every thread. Rethrows the first exception; throws on a deadlock.
    template <class Body>
    void run(Body const& body) {
        body_ = [](void const* b, int rank, int thread) { (*static_cast<Body const*>(b))(rank, thread); };
        argument_ = &body;
        block_.assign(static_cast<std::size_t>(ranks_), barrier{threads_, {}});
        warp_.assign(static_cast<std::size_t>(ranks_ * threads_ / 32), warp_state{});
        all_ = barrier{ranks_ * threads_, {}};
        ready_.clear();
        failure_ = nullptr;
        finished_ = 0;
        for (std::size_t k = 0; k < lanes_.size(); ++k) {
            prepare(lanes_[k]);
            ready_.push_back(static_cast<int>(k));
        }
        while (!ready_.empty()) resume(take());
        if (failure_) std::rethrow_exception(failure_);
        if (finished_ != ranks_ * threads_) throw std::logic_error("threads wait for others that do not come");
    }

    void sync(int rank) { wait(block_[static_cast<std::size_t>(rank)]); }
    void sync_all() { wait(all_); }

    /// Gives `value` to the warp and takes that of lane `from`. `kind` must be that of all the lanes.
    template <class T>
    T exchange(T value, int from, int kind) {
        warp_state const& w = meet(value, kind);
        return received<T>(w, from, kind);
    }

    /// The ballot of the lanes of a warp.
    std::uint32_t ballot(bool mine) {
        constexpr int kind = 65;
        warp_state const& w = meet(mine, kind);
        std::uint32_t bits = 0;
        for (int l = 0; l < 32; ++l) bits |= std::uint32_t{received<bool>(w, l, kind)} << l;
        return bits;
    }

    [[nodiscard]] int ranks() const noexcept { return ranks_; }

private:
    static constexpr std::size_t stack_size = std::size_t{1} << (FIBRE_ASAN ? 19 : 17);

    struct thread_state {
        std::unique_ptr<std::byte[]> stack;
        fibre at;  ///< where it waits
        unsigned turn = 0;
        bool done = false;
    };
    struct barrier {
        int expected = 0;
        std::vector<int> waiting;
    };
    struct warp_state {
        barrier meeting{32, {}};
        std::uint64_t slot[2][32] = {};
        int kind[2][32] = {};
    };

    template <class T>
    warp_state const& meet(T value, int kind) {
        static_assert(sizeof(T) <= sizeof(std::uint64_t) && std::is_trivially_copyable_v<T>);
        warp_state& w = warp_[static_cast<std::size_t>(running_ / 32)];
        thread_state& self = lanes_[static_cast<std::size_t>(running_)];
        unsigned const turn = self.turn++ & 1U;
        auto const lane = static_cast<std::size_t>(running_ % 32);
        std::memcpy(&w.slot[turn][lane], &value, sizeof(T));
        w.kind[turn][lane] = kind;
        wait(w.meeting);
        return w;
    }

    template <class T>
    [[nodiscard]] T received(warp_state const& w, int from, int kind) const {
        unsigned const turn = (lanes_[static_cast<std::size_t>(running_)].turn + 1U) & 1U;
        if (w.kind[turn][static_cast<std::size_t>(from)] != kind)
            throw std::logic_error("the threads of a warp meet in different operations");
        T result;
        std::memcpy(&result, &w.slot[turn][static_cast<std::size_t>(from)], sizeof(T));
        return result;
    }

    void wait(barrier& b) {
        b.waiting.push_back(running_);
        if (static_cast<int>(b.waiting.size()) == b.expected) {
            std::vector<int> released;
            released.swap(b.waiting);
            if (order_ == order::last_come)
                for (std::size_t k = released.size(); k-- > 0;) ready_.push_back(released[k]);
            else
                for (int const k : released) ready_.push_back(k);
        }
        leave();
    }

    int take() {
        int k = 0;
        if (order_ == order::warp_by_warp) {  // the last one to arrive continues: one warp runs far ahead of the others
            k = ready_.back();
            ready_.pop_back();
        } else {
            k = ready_.front();
            ready_.pop_front();
        }
        return k;
    }

    static void enter() {
        fibre::arrived();
        simt_emulator& self = *current_;
        int const k = self.running_;
        try {
            self.body_(self.argument_, k / self.threads_, k % self.threads_);
            ++self.finished_;
        } catch (...) {
            if (!self.failure_) self.failure_ = std::current_exception();
        }
        self.lanes_[static_cast<std::size_t>(k)].done = true;
        self.leave();
    }

    static void prepare(thread_state& f) {
        f.at.begin(f.stack.get(), stack_size, &simt_emulator::enter);
        f.turn = 0;
        f.done = false;
    }

    void resume(int k) {
        current_ = this;
        running_ = k;
        main_.go_to(lanes_[static_cast<std::size_t>(k)].at);
    }

    void leave() {
        thread_state& f = lanes_[static_cast<std::size_t>(running_)];
        f.at.go_to(main_, f.done);
    }

    inline static thread_local simt_emulator* current_ = nullptr;

    order order_;
    int ranks_;
    int threads_;
    std::vector<thread_state> lanes_;
    std::vector<barrier> block_;
    std::vector<warp_state> warp_;
    barrier all_;
    std::deque<int> ready_;
    std::exception_ptr failure_;
    int finished_ = 0;
    int running_ = 0;
    fibre main_;
    void (*body_)(void const*, int, int) = nullptr;
    void const* argument_ = nullptr;
};

/// The operations of an emulated thread: the `lane_context` of groups under test. The shared memory of rank r is
/// `shared[r]`; ranks are `stride` bytes apart.
template <int Threads>
class emulated_lanes {
public:
    static constexpr int threads = Threads;
    static constexpr cuda::rank_exchange exchange = cuda::rank_exchange::shared_memory;

    emulated_lanes(simt_emulator& emulator, int rank, int thread, std::size_t stride) noexcept
        : emulator_(&emulator), stride_(stride), rank_(rank), thread_(thread) {}

    [[nodiscard]] int thread() const noexcept { return thread_; }
    [[nodiscard]] int rank() const noexcept { return rank_; }
    [[nodiscard]] int ranks() const noexcept { return emulator_->ranks(); }
    void sync() const { emulator_->sync(rank_); }
    void sync_all() const { emulator_->sync_all(); }
    template <class T>
    [[nodiscard]] T shuffle_xor(T x, int mask) const {
        return emulator_->exchange(x, (thread_ % 32) ^ mask, mask);
    }
    template <class T>
    [[nodiscard]] T shuffle(T x, int from) const {
        return emulator_->exchange(x, from, 64);
    }
    [[nodiscard]] std::uint32_t ballot(bool b) const { return emulator_->ballot(b); }
    template <class T>
    [[nodiscard]] T* at_rank(T* p, int r) const noexcept {
        return reinterpret_cast<T*>(reinterpret_cast<std::uintptr_t>(p) +
                                    static_cast<std::uintptr_t>(static_cast<std::intptr_t>(stride_) * (r - rank_)));
    }
    std::uint32_t add(std::uint32_t* p, std::uint32_t x) const noexcept {
        std::uint32_t const old = *p;
        *p += x;
        return old;
    }

private:
    simt_emulator* emulator_;
    std::size_t stride_;
    int rank_;
    int thread_;
};

/// The global memory of the blocks of an emulated grid for one group: a mirror of the shared storage, and counters.
template <class Storage>
struct emulated_grid_memory {
    alignas(16) unsigned char mirror[sizeof(Storage)];
    std::uint64_t accumulators[2][Storage::count_capacity] = {};
};

/// The `lane_context` of groups whose ranks communicate through memory. `Storage` is the group's.
template <int Threads>
class emulated_grid_lanes : public emulated_lanes<Threads> {
public:
    static constexpr cuda::rank_exchange exchange = cuda::rank_exchange::global_memory;
    static constexpr int max_grid_ranks = Threads / 2;  // the limit of the storage of such a block

    template <class Storage>
    emulated_grid_lanes(simt_emulator& emulator, int rank, int thread, Storage& shared,
                        emulated_grid_memory<Storage>& memory) noexcept
        : emulated_lanes<Threads>(emulator, rank, thread, 0),
          shared_(reinterpret_cast<unsigned char*>(&shared)),
          mirror_(memory.mirror),
          accumulators_{memory.accumulators[0], memory.accumulators[1]} {}

    template <class T>
    [[nodiscard]] T* at_rank(T*, int) const = delete;
    template <class T>
    [[nodiscard]] T* mirror(T* p) const noexcept {
        return reinterpret_cast<T*>(mirror_ + (reinterpret_cast<unsigned char*>(p) - shared_));
    }
    [[nodiscard]] std::uint64_t* accumulators(unsigned turn) const noexcept { return accumulators_[turn]; }
    void add_to(std::uint64_t* p, std::uint64_t x) const noexcept { *p += x; }

private:
    unsigned char* shared_;
    unsigned char* mirror_;
    std::uint64_t* accumulators_[2];
};

}  // namespace MULTIDRAFT_NAMESPACE::testing
