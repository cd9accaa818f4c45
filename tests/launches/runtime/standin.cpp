// The stand-in for the CUDA runtime: see standin.hpp.
#include "standin.hpp"

#include <pthread.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <deque>
#include <exception>
#include <iterator>
#include <map>
#include <memory>
#include <semaphore>
#include <set>
#include <stdexcept>
#include <utility>

#include "../../support/fibre.hpp"
#include "cuda_runtime.h"

#if defined(__linux__)
#include <link.h>
#endif

#if defined(__linux__) && !(FIBRE_ASAN && defined(__clang__))
#define STANDIN_POISONS_SHARED 1
#else
#define STANDIN_POISONS_SHARED 0
#endif

#if FIBRE_ASAN
// Otherwise each fibre would get a second stack, for the detection of uses after return.
extern "C" char const* __asan_default_options();
extern "C" char const* __asan_default_options() { return "detect_stack_use_after_return=0"; }
#endif

namespace standin {
namespace {

[[noreturn]] void refuse(std::string const& what) { throw std::logic_error(what); }

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

// --- Blocks

constexpr int warp_size = 32;
constexpr std::size_t stack_size = std::size_t{1} << (FIBRE_ASAN ? 19 : 18);
constexpr std::uint64_t stack_mark = 0x5afe57ac5afe57acU;  ///< at the end of a stack: overwritten by an overflow

/// The exchange of a warp. Two sets of values alternate, so that one exchange needs one wait.
struct warp {
    std::uint64_t value[2][warp_size];
    int kind[2][warp_size];
    int lanes;
    std::vector<int> waiting;
};

struct worker;
thread_local worker* here = nullptr;
/// Thread-local variables have the same distance from it in every thread.
thread_local char anchor = 0;

struct place {
    worker* block;
    int lane;
};

/// A launch while it runs.
struct running_launch {
    lane_body const* body = nullptr;
    unsigned threads = 0;
    unsigned grid = 0;
    unsigned cluster = 1;
    std::vector<worker*> blocks;              ///< that run now
    std::vector<std::vector<place>> waiting;  ///< at the barrier of each cluster
    std::string fault;
    std::size_t current = 0;
    std::int64_t idle_turns = 0;
    std::binary_semaphore ended{0};

    void fail(std::string const& what) {
        if (fault.empty()) fault = what;
    }
};
running_launch* launch_now = nullptr;

struct machine {
    device is;
    order lanes = order::first_come;
    std::uint64_t numbers = 1;
    int residents = 3;
    unsigned char poison = 0xff;

    std::uint64_t draw() {  // splitmix64
        std::uint64_t z = numbers += 0x9e3779b97f4a7c15U;
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
        return z ^ (z >> 31);
    }
};
machine the_machine;

/// A thread of the operating system and the block that it runs.
struct worker {
    std::binary_semaphore baton{0};
    pthread_t thread{};
    char* anchor_at = nullptr;
    worker** here_at = nullptr;
    bool has_used_shared = true;
    std::byte* stacks = nullptr;
    std::size_t stacks_for = 0;
    fibre home;
    std::vector<fibre> lanes;
    std::vector<unsigned> turns;
    std::vector<warp> warps;

    unsigned index = 0;
    unsigned rank = 0;
    std::size_t group = 0;
    int count = 0;
    int finished = 0;
    int current = 0;
    unsigned barriers = 0;
    bool pauses = false;
    std::deque<int> ready;
    std::vector<int> spinning;
    std::vector<int> waiting;

    static void* main(void* self) {
        auto& me = *static_cast<worker*>(self);
        here = &me;
        me.here_at = &here;
        me.anchor_at = &anchor;
        launch_now->ended.release();  // the launch that created it
        for (;;) {
            me.baton.acquire();
            me.step();
        }
    }

    void assign(unsigned block, running_launch const& launch) {
        index = block;
        count = static_cast<int>(launch.threads);
        rank = block % launch.cluster;
        finished = 0;
        barriers = 0;
        pauses = false;
        ready.clear();
        spinning.clear();
        waiting.clear();
        if (stacks_for < launch.threads) {
            stacks_for = launch.threads;
            void* const memory = mmap(nullptr, stacks_for * stack_size, PROT_READ | PROT_WRITE,
                                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
            if (memory == MAP_FAILED) refuse("no memory for stacks");
            stacks = static_cast<std::byte*>(memory);
        }
        lanes.assign(launch.threads, {});
        turns.assign(launch.threads, 0);
        warps.resize((launch.threads + warp_size - 1) / warp_size);
        for (std::size_t w = 0; w < warps.size(); ++w) {
            warps[w].lanes = std::min(warp_size, count - static_cast<int>(w) * warp_size);
            warps[w].waiting.clear();
        }
        for (std::size_t k = 0; k < lanes.size(); ++k) {
            std::byte* const stack = stacks + k * stack_size;
            lanes[k].begin(stack, stack_size, &worker::enter);
            *reinterpret_cast<std::uint64_t*>(stack) = stack_mark;
            ready.push_back(static_cast<int>(k));
        }
        if (has_used_shared) poison_shared();
        has_used_shared = false;
    }

    /// Fills the zero-initialised thread-local memory of the thread: it contains the block's shared memory.
    void poison_shared() {
#if STANDIN_POISONS_SHARED
        struct range {
            std::ptrdiff_t from_anchor = 0;
            std::size_t size = 0;
        };
        static range const zeros = [] {
            range found;
            dl_iterate_phdr(
                [](dl_phdr_info* info, std::size_t, void* to) {
                    for (int k = 0; k < info->dlpi_phnum; ++k)
                        if (auto const& part = info->dlpi_phdr[k]; part.p_type == PT_TLS && info->dlpi_tls_data)
                            *static_cast<range*>(to) = {
                                static_cast<char*>(info->dlpi_tls_data) + part.p_filesz - &anchor,
                                part.p_memsz - part.p_filesz};
                    return 1;  // the program itself comes first
                },
                &found);
            return found;
        }();
        worker* const kept = *here_at;
        // By stores that are not checked: the address sanitizer would check a call of memset, variable by variable.
        auto* const begin = reinterpret_cast<unsigned char volatile*>(anchor_at + zeros.from_anchor);
        fill(begin, zeros.size);
        *here_at = kept;
#endif
    }

    __attribute__((no_sanitize("address"))) static void fill(unsigned char volatile* at_, std::size_t size) {
        std::size_t k = 0;
        std::uint64_t word = 0;
        std::memset(&word, the_machine.poison, sizeof(word));
        for (; k < size && reinterpret_cast<std::uintptr_t>(at_ + k) % 8 != 0; ++k) at_[k] = the_machine.poison;
        for (; k + 8 <= size; k += 8) *reinterpret_cast<std::uint64_t volatile*>(at_ + k) = word;
        for (; k < size; ++k) at_[k] = the_machine.poison;
    }

    // --- Called by the thread that has the baton

    /// Runs lanes until none can continue, then passes the baton on.
    void step() {
        while (true) {
            if (!ready.empty() && launch_now->fault.empty()) {
                pauses = false;
                current = take();
                home.go_to(lanes[at(current)]);
                if (std::exchange(lost_, false)) launch_now->fail("the stack of a lane overflows");
            }
            worker* const next = choose();
            if (next == this) continue;
            if (next == nullptr)
                launch_now->ended.release();
            else
                next->baton.release();
            return;
        }
    }

    /// The block that continues; null when all have ended or on a fault.
    static worker* choose() {
        running_launch& l = *launch_now;
        if (!l.fault.empty()) return nullptr;
        while (true) {
            std::size_t const n = l.blocks.size();
            std::size_t const first = the_machine.lanes == order::random ? the_machine.draw() % n : (l.current + 1) % n;
            for (std::size_t k = 0; k < n; ++k) {
                std::size_t const block = (first + k) % n;
                if (l.blocks[block]->ready.empty()) continue;
                l.current = block;
                return l.blocks[block];
            }
            bool any = false;
            for (worker* const w : l.blocks) {
                any = any || !w->spinning.empty();
                w->ready.insert(w->ready.end(), w->spinning.begin(), w->spinning.end());
                w->spinning.clear();
            }
            if (any && ++l.idle_turns > 1000) {
                l.fail("lanes ask for ever whether another one has come");
                return nullptr;
            }
            if (any) continue;
            for (worker const* const w : l.blocks)
                if (w->finished < w->count) l.fail("lanes wait for others that do not come");
            return nullptr;
        }
    }

    // --- Called by lanes

    static void enter() {
        fibre::arrived();
        worker& self = *here;
        self.resumed();
        try {
            (*launch_now->body)();
        } catch (std::exception const& e) {
            launch_now->fail(e.what());
        }
        ++self.finished;
        launch_now->idle_turns = 0;
        self.leave(true);
    }

    void resumed() const {
        threadIdx = {static_cast<unsigned>(current), 0, 0};
        blockIdx = {index, 0, 0};
        blockDim = {launch_now->threads, 1, 1};
        gridDim = {launch_now->grid, 1, 1};
    }

    int take() {
        int lane = 0;
        switch (the_machine.lanes) {
            case order::warp_by_warp:
                lane = ready.back();
                ready.pop_back();
                break;
            case order::random:
                std::swap(ready.front(), ready[the_machine.draw() % ready.size()]);
                [[fallthrough]];
            default:
                lane = ready.front();
                ready.pop_front();
        }
        return lane;
    }

    /// Switches to another lane of the block that can continue, or leaves the block.
    void leave(bool for_good = false) {
        fibre& from = lanes[at(current)];
        if (*reinterpret_cast<std::uint64_t const*>(stacks + at(current) * stack_size) != stack_mark) lost_ = true;
        if (lost_ || ready.empty() || pauses || !launch_now->fault.empty()) {
            from.go_to(home, for_good);
        } else {
            int const next = take();
            if (next == current) return;
            current = next;
            from.go_to(lanes[at(next)], for_good);
        }
        // This lane is the current one again.
        resumed();
    }

    /// Waits in `list` until `expected` lanes wait there; all of them then continue.
    void wait(std::vector<int>& list, int expected) {
        list.push_back(current);
        if (static_cast<int>(list.size()) == expected) {
            launch_now->idle_turns = 0;
            release(list);
        }
        leave();
    }

    void release(std::vector<int>& list) {
        if (the_machine.lanes == order::last_come)
            ready.insert(ready.end(), list.rbegin(), list.rend());
        else
            ready.insert(ready.end(), list.begin(), list.end());
        list.clear();
    }

    warp& meet(unsigned mask, std::uint64_t value, int kind) {
        warp& w = warps[at(current / warp_size)];
        if (mask != 0xffffffffU) refuse("a part of a warp meets");
        auto const lane = at(current % warp_size);
        unsigned const turn = turns[at(current)]++ & 1U;
        w.value[turn][lane] = value;
        w.kind[turn][lane] = kind;
        wait(w.waiting, w.lanes);
        return w;
    }
    [[nodiscard]] std::uint64_t received(warp const& w, int from, int kind) const {
        unsigned const turn = (turns[at(current)] + 1U) & 1U;
        if (from >= w.lanes) refuse("a value is taken from a lane that is not there");
        if (w.kind[turn][from] != kind) refuse("the lanes of a warp meet in different operations");
        return w.value[turn][from];
    }

private:
    bool lost_ = false;
};

std::deque<worker>& workers() {
    static auto* const all = new std::deque<worker>;  // their threads run until the program ends
    return *all;
}

worker& worker_number(std::size_t k) {
    auto& all = workers();
    while (all.size() <= k) {
        worker& w = all.emplace_back();
        pthread_attr_t attributes;
        pthread_attr_init(&attributes);
        pthread_attr_setstacksize(&attributes, std::size_t{256} << 20);  // contains the shared memory of all kernels
        if (pthread_create(&w.thread, &attributes, &worker::main, &w) != 0) refuse("no thread for a block");
        pthread_attr_destroy(&attributes);
        pthread_detach(w.thread);
        launch_now->ended.acquire();
    }
    return all[k];
}

/// Runs a launch to its end. Returns the fault, or an empty string.
std::string run(lane_body const& body, launched const& what) {
    running_launch l;
    l.body = &body;
    l.threads = what.threads;
    l.grid = what.blocks;
    l.cluster = what.cluster;
    launch_now = &l;
    unsigned together = what.blocks;
    if (!what.cooperative)
        together = std::max(what.cluster, static_cast<unsigned>(the_machine.residents) / what.cluster * what.cluster);
    for (unsigned first = 0; first < what.blocks && l.fault.empty(); first += together) {
        unsigned const last = std::min(what.blocks, first + together);
        l.blocks.clear();
        for (unsigned block = first; block < last; ++block) l.blocks.push_back(&worker_number(block - first));
        l.waiting.assign((last - first) / what.cluster, {});
        for (unsigned block = first; block < last; ++block) {
            worker& w = *l.blocks[block - first];
            w.group = (block - first) / what.cluster;
            w.assign(block, l);
        }
        l.current = l.blocks.size() - 1;
        if (worker* const begins = worker::choose()) {
            begins->baton.release();
            l.ended.acquire();
        }
    }
    launch_now = nullptr;
    return l.fault;
}

// --- Device memory

class device_memory {
public:
    void* allocate(std::size_t bytes) {
        if (base_ == nullptr) reserve();
        if (bytes == 0) return nullptr;
        std::size_t const begin = used_ + guard;
        std::size_t const next = round_up(begin + bytes) + guard;
        if (next > reserved) return nullptr;
        open();
        std::memset(base_ + used_, guard_byte, next - used_);
        std::memset(base_ + begin, the_machine.poison, bytes);
        used_ = next;
        parts_[base_ + begin] = bytes;
        close();
        return base_ + begin;
    }
    bool free(void* data) {
        auto const found = parts_.find(static_cast<char*>(data));
        if (found == parts_.end()) return false;
        open();
        std::memset(found->first, 0xdd, found->second);
        parts_.erase(found);
        if (parts_.empty()) {
#if FIBRE_ASAN
            __asan_unpoison_memory_region(base_, used_);
#endif
            used_ = 0;
        }
        close();
        return true;
    }
    [[nodiscard]] std::size_t allocated() const {
        std::size_t sum = 0;
        for (auto const& [begin, bytes] : parts_) sum += bytes;
        return sum;
    }
    /// Whether the bytes are of one allocation.
    [[nodiscard]] bool holds(void const* data, std::size_t bytes) const {
        auto const* const begin = static_cast<char const*>(data);
        auto after = parts_.upper_bound(const_cast<char*>(begin));
        if (after == parts_.begin()) return false;
        --after;
        return begin + bytes <= after->first + after->second;
    }

    /// Makes device memory accessible, until `close` has been called as often.
    void open() {
        if (open_++ > 0 || base_ == nullptr) return;
#if FIBRE_ASAN
        // Guards included, for `allocate`; `guard_all` closes them.
        __asan_unpoison_memory_region(base_, std::min(reserved, used_ + ahead));
        guard_all();
#else
        mprotect(base_, reserved, PROT_READ | PROT_WRITE);
#endif
    }
    void close() {
        if (--open_ > 0 || base_ == nullptr) return;
#if FIBRE_ASAN
        __asan_poison_memory_region(base_, std::min(reserved, used_ + ahead));
#else
        mprotect(base_, reserved, PROT_NONE);
#endif
    }

    /// A description of a write outside of an allocation; empty without one. Memory must be open.
    [[nodiscard]] std::string damage() {
#if !FIBRE_ASAN
        char* expected = base_;
        for (auto const& [begin, bytes] : parts_) {
            // The guards on both sides of an allocation; not memory that was freed.
            for (char* p = std::max(expected, begin - guard); p < begin; ++p)
                if (static_cast<unsigned char>(*p) != guard_byte) return mend(p, begin, bytes);
            expected = base_ + round_up(static_cast<std::size_t>(begin - base_) + bytes) + guard;
            for (char* p = begin + bytes; p < expected; ++p)
                if (static_cast<unsigned char>(*p) != guard_byte) return mend(p, begin, bytes);
        }
#endif
        return {};
    }

private:
    static constexpr std::size_t reserved = std::size_t{8} << 30;
    static constexpr std::size_t guard = 256;
    static constexpr std::size_t ahead = 4096;
    static constexpr unsigned char guard_byte = 0xfd;

    static std::size_t round_up(std::size_t n) { return (n + guard - 1) / guard * guard; }

    std::string mend(char* p, char* begin, std::size_t bytes) {
        *p = static_cast<char>(guard_byte);
        return "byte " + std::to_string(p - begin) + " of an allocation of " + std::to_string(bytes) + " is written";
    }

    void reserve() {
        void* const memory = mmap(nullptr, reserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (memory == MAP_FAILED) refuse("no device memory");
        base_ = static_cast<char*>(memory);
#if FIBRE_ASAN
        mprotect(base_, reserved, PROT_READ | PROT_WRITE);
#endif
    }

#if FIBRE_ASAN
    void guard_all() {
        if (!in_launch_) return;
        char* from = base_;
        for (auto const& [begin, bytes] : parts_) {
            __asan_poison_memory_region(from, static_cast<std::size_t>(begin - from));
            from = begin + bytes;
        }
        __asan_poison_memory_region(from, static_cast<std::size_t>(base_ + used_ + ahead - from));
    }

public:
    bool in_launch_ = false;

private:
#endif

    char* base_ = nullptr;
    std::size_t used_ = 0;
    int open_ = 0;
    std::map<char*, std::size_t> parts_;
};
device_memory memory;

}  // namespace
}  // namespace standin

// --- Streams

struct CUstream_st {
    std::deque<std::function<void()>> recorded;
    CUgraph_st* capture = nullptr;
    bool is_spoilt = false;  ///< the capture was invalidated
};
struct CUevent_st {
    CUstream_st* recorded_on = nullptr;
    bool is_recorded = false;
};
struct CUgraph_st {
    std::vector<std::function<void()>> work;
};
struct CUgraphExec_st {
    std::vector<std::function<void()>> work;
};

namespace standin {
namespace {

struct runtime {
    cudaError_t last = cudaSuccess;
    cudaError_t sticky = cudaSuccess;
    std::string fault;
    CUstream_st null_stream;
    std::set<CUstream_st*> streams;
    std::set<CUevent_st*> events;
    std::set<CUgraph_st*> graphs;
    std::set<CUgraphExec_st*> executables;
    std::map<std::string, cudaError_t> failures;
    std::set<void const*> large_clusters;
    std::map<char const*, std::size_t> pinned;
    std::vector<launched> launches;
};
runtime state;

cudaError_t answer(cudaError_t e) {
    if (e != cudaSuccess) state.last = e;
    return e;
}

/// The beginning of every call: a sticky error, an error set by `fail`, or no device.
cudaError_t begun(char const* call) {
    if (state.sticky != cudaSuccess) return answer(state.sticky);
    if (auto const found = state.failures.find(call); found != state.failures.end()) {
        cudaError_t const e = found->second;
        state.failures.erase(found);
        return answer(e);
    }
    if (the_machine.is.multiprocessors == 0) return answer(cudaErrorNoDevice);
    return cudaSuccess;
}

void wrong(cudaError_t e, std::string const& what) {
    state.sticky = e;
    if (state.fault.empty()) state.fault = what;
    state.null_stream.recorded.clear();
    for (CUstream_st* const s : state.streams) s->recorded.clear();
}

void do_now(std::function<void()> const& work) {
#if FIBRE_ASAN
    memory.in_launch_ = true;
#endif
    memory.open();
    work();
    if (std::string const damage = memory.damage(); !damage.empty()) wrong(cudaErrorIllegalAddress, damage);
    memory.close();
#if FIBRE_ASAN
    memory.in_launch_ = false;
#endif
}

void drain(CUstream_st& s) {
    while (!s.recorded.empty()) {
        auto const work = std::move(s.recorded.front());
        s.recorded.pop_front();
        do_now(work);
    }
}
void drain_all() {
    // The newest stream first: code that needs an order between two streams must synchronise them.
    for (auto s = state.streams.rbegin(); s != state.streams.rend(); ++s) drain(**s);
    drain(state.null_stream);
}

bool captures_anywhere() {
    return std::any_of(state.streams.begin(), state.streams.end(), [](auto const* s) { return s->capture != nullptr; });
}
cudaError_t spoil_captures(cudaError_t e) {
    for (CUstream_st* const s : state.streams) s->is_spoilt = s->is_spoilt || s->capture != nullptr;
    return answer(e);
}

CUstream_st* find(cudaStream_t stream) {
    if (stream == nullptr) return &state.null_stream;
    return state.streams.count(stream) != 0 ? stream : nullptr;
}

/// Records work in a stream, or in the graph that is captured from it.
cudaError_t record(cudaStream_t stream, std::function<void()> work) {
    CUstream_st* const s = find(stream);
    if (s == nullptr) return answer(cudaErrorInvalidResourceHandle);
    if (s->capture != nullptr) {
        if (s->is_spoilt) return answer(cudaErrorStreamCaptureInvalidated);
        s->capture->work.push_back(std::move(work));
        return cudaSuccess;
    }
    // The null stream waits for all others, and they wait for it.
    if (stream == nullptr && captures_anywhere()) return spoil_captures(cudaErrorStreamCaptureImplicit);
    if (stream == nullptr)
        for (CUstream_st* const other : state.streams) drain(*other);
    else
        drain(state.null_stream);
    if (state.sticky != cudaSuccess) return answer(state.sticky);
    s->recorded.push_back(std::move(work));
    return cudaSuccess;
}

/// For calls that wait for the whole device.
cudaError_t wait_for_all(cudaError_t when_capturing) {
    if (captures_anywhere()) return spoil_captures(when_capturing);
    drain_all();
    return answer(state.sticky);
}

void copy(void* to, void const* from, std::size_t bytes) {
    if (bytes > 0) std::memmove(to, from, bytes);
}

/// Whether the bytes are of one allocation of pinned memory.
bool is_pinned(void const* data, std::size_t bytes) {
    auto const* const begin = static_cast<char const*>(data);
    auto const after = state.pinned.upper_bound(begin);
    if (after == state.pinned.begin()) return false;
    auto const& [first, size] = *std::prev(after);
    return begin + bytes <= first + size;
}

/// Whether exactly the device's side of a copy is device memory.
bool is_copyable(void const* to, void const* from, std::size_t bytes, cudaMemcpyKind kind) {
    bool const to_device = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
    bool const from_device = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
    return bytes == 0 || (memory.holds(to, bytes) == to_device && memory.holds(from, bytes) == from_device);
}

}  // namespace

bool const has_address_sanitizer = FIBRE_ASAN != 0;
bool const poisons_shared_memory = STANDIN_POISONS_SHARED != 0;

device a100() { return {108, 80, 164 << 10, 0, 0, 80, true}; }
device h200() { return {132, 90, 228 << 10, 16, 8, 90, true}; }
device b200() { return {148, 100, 228 << 10, 18, 8, 90, true}; }
device none() { return {}; }

void reset(device const& of, order lanes, std::uint64_t seed) {
    the_machine = machine{};
    the_machine.is = of;
    set_order(lanes, seed);
    state.last = cudaSuccess;
    state.sticky = cudaSuccess;
    state.fault.clear();
    state.failures.clear();
    state.large_clusters.clear();
    state.launches.clear();
    state.null_stream.recorded.clear();
    for (CUstream_st* const s : state.streams) s->recorded.clear();
}
void set_order(order lanes, std::uint64_t seed) {
    the_machine.lanes = lanes;
    the_machine.numbers = seed;
}
void set_residents(int blocks) { the_machine.residents = blocks; }
void set_poison(unsigned char byte) { the_machine.poison = byte; }
void fail(char const* call, cudaError_t error) { state.failures[call] = error; }
std::vector<launched> const& launches() { return state.launches; }
std::string const& fault() { return state.fault; }
std::size_t allocated() { return memory.allocated(); }
std::size_t pinned() {
    std::size_t sum = 0;
    for (auto const& [begin, bytes] : state.pinned) sum += bytes;
    return sum;
}

cudaError_t enqueue(cudaStream_t stream, char const* call, std::function<void()> work) {
    if (cudaError_t const e = begun(call)) return e;
    return record(stream, std::move(work));
}

cudaError_t launch(cudaLaunchConfig_t const& configuration, void const* kernel, lane_body body) {
    if (cudaError_t const e = begun("cudaLaunchKernelEx")) return e;
    if (kernel == nullptr) return answer(cudaErrorInvalidDeviceFunction);
    device const& is = the_machine.is;
    if (is.ptx > is.compute) return answer(cudaErrorNoKernelImageForDevice);
    launched what{kernel, configuration.gridDim.x, configuration.blockDim.x, 1, false};
    for (unsigned k = 0; k < configuration.numAttrs; ++k) {
        cudaLaunchAttribute const& a = configuration.attrs[k];
        if (a.id == cudaLaunchAttributeClusterDimension) what.cluster = a.val.clusterDim.x;
        if (a.id == cudaLaunchAttributeCooperative) what.cooperative = a.val.cooperative != 0;
    }
    if (configuration.gridDim.y != 1 || configuration.gridDim.z != 1 || configuration.blockDim.y != 1 ||
        configuration.blockDim.z != 1)
        return answer(cudaErrorNotSupported);
    if (what.blocks < 1 || what.blocks > 0x7fffffffU || what.threads < 1 || what.threads > 1024 || what.cluster < 1)
        return answer(cudaErrorInvalidConfiguration);
    if (what.cluster > 1) {
        if (!is.has_clusters() || is.ptx < 90) return answer(cudaErrorNotSupported);
        if (what.blocks % what.cluster != 0) return answer(cudaErrorInvalidConfiguration);
        if (what.cluster > 16 || (what.cluster > 8 && state.large_clusters.count(kernel) == 0))
            return answer(cudaErrorInvalidClusterSize);
        if ((what.cluster > 8 ? is.clusters_of_16 : is.clusters_of_8) == 0)
            return answer(cudaErrorLaunchOutOfResources);
    }
    if (what.cooperative) {
        if (!is.is_cooperative) return answer(cudaErrorNotSupported);
        // Blocks that read rows occupy one multiprocessor each: up to 255 registers per thread.
        if (what.blocks > static_cast<unsigned>(is.multiprocessors)) return answer(cudaErrorCooperativeLaunchTooLarge);
    }
    if (cudaError_t const e = record(configuration.stream, [what, body = std::move(body)] {
            if (state.sticky != cudaSuccess) return;
            if (std::string const fault = run(body, what); !fault.empty()) wrong(cudaErrorLaunchFailure, fault);
        }))
        return e;
    state.launches.push_back(what);
    return cudaSuccess;
}

namespace {
worker& lane_of_launch() {
    if (here == nullptr) refuse("outside of a launch");
    here->has_used_shared = true;
    return *here;
}
}  // namespace

void sync_block() {
    worker& w = lane_of_launch();
    // Now and then another block continues, so that concurrent blocks interleave their writes.
    if (static_cast<int>(w.waiting.size()) + 1 == w.count) {
        bool const often = the_machine.lanes == order::random ? the_machine.draw() % 8 == 0 : ++w.barriers % 8 == 0;
        w.pauses = often && launch_now->blocks.size() > 1;
    }
    w.wait(w.waiting, w.count);
}

void sync_cluster() {
    worker& w = lane_of_launch();
    auto& list = launch_now->waiting[w.group];
    list.push_back({&w, w.current});
    if (list.size() == at(w.count) * launch_now->cluster) {
        launch_now->idle_turns = 0;
        if (the_machine.lanes == order::last_come) std::reverse(list.begin(), list.end());
        for (place const& p : list) p.block->ready.push_back(p.lane);
        list.clear();
    }
    w.leave();
}

void sync_warp(unsigned mask) {
    constexpr int kind = 66;
    worker& w = lane_of_launch();
    warp const& met = w.meet(mask, 0, kind);
    for (int l = 0; l < met.lanes; ++l) static_cast<void>(w.received(met, l, kind));
}

std::uint64_t shuffle(unsigned mask, std::uint64_t value, int from, int kind) {
    worker& w = lane_of_launch();
    return w.received(w.meet(mask, value, kind), from, kind);
}

unsigned ballot(unsigned mask, bool mine) {
    constexpr int kind = 65;
    worker& w = lane_of_launch();
    warp const& met = w.meet(mask, mine ? 1 : 0, kind);
    unsigned bits = 0;
    for (int l = 0; l < met.lanes; ++l) bits |= static_cast<unsigned>(w.received(met, l, kind)) << l;
    return bits;
}

unsigned cluster_rank() { return lane_of_launch().rank; }
unsigned cluster_size() { return launch_now->cluster; }

void* at_cluster_rank(void* shared, unsigned rank) {
    worker const& w = lane_of_launch();
    if (rank >= launch_now->cluster) refuse("the shared memory of a block that is not of the cluster");
    worker const& other = *launch_now->blocks[w.group * launch_now->cluster + rank];
    if (other.finished == other.count) refuse("the shared memory of a block that is gone");
    return other.anchor_at + (static_cast<char*>(shared) - w.anchor_at);
}

void spin() {
    worker& w = lane_of_launch();
    w.spinning.push_back(w.current);
    w.leave();
}

}  // namespace standin

// --- The calls

using namespace standin;

cudaError_t cudaGetLastError() {
    if (state.sticky != cudaSuccess) return state.sticky;
    return std::exchange(state.last, cudaSuccess);
}
cudaError_t cudaPeekAtLastError() { return state.sticky != cudaSuccess ? state.sticky : state.last; }

char const* cudaGetErrorName(cudaError_t error) {
    switch (error) {
        case cudaSuccess:
            return "cudaSuccess";
        case cudaErrorInvalidValue:
            return "cudaErrorInvalidValue";
        case cudaErrorMemoryAllocation:
            return "cudaErrorMemoryAllocation";
        case cudaErrorNoDevice:
            return "cudaErrorNoDevice";
        case cudaErrorInvalidDevice:
            return "cudaErrorInvalidDevice";
        default:
            return "an error of the stand-in";
    }
}
char const* cudaGetErrorString(cudaError_t error) {
    switch (error) {
        case cudaSuccess:
            return "no error";
        case cudaErrorInvalidValue:
            return "invalid argument";
        case cudaErrorNoDevice:
            return "no CUDA-capable device is detected";
        case cudaErrorLaunchFailure:
        case cudaErrorIllegalAddress:
            return state.fault.c_str();
        default:
            return "an error of the stand-in for the CUDA runtime";
    }
}

cudaError_t cudaGetDeviceCount(int* count) {
    *count = the_machine.is.multiprocessors == 0 ? 0 : 1;
    return begun("cudaGetDeviceCount");
}
cudaError_t cudaGetDevice(int* device) {
    *device = 0;
    return begun("cudaGetDevice");
}
cudaError_t cudaSetDevice(int device) {
    if (cudaError_t const e = begun("cudaSetDevice")) return e;
    return device == 0 ? cudaSuccess : answer(cudaErrorInvalidDevice);
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
    if (cudaError_t const e = begun("cudaDeviceGetAttribute")) return e;
    device const& is = the_machine.is;
    switch (attribute) {
        case cudaDevAttrMultiProcessorCount:
            *value = is.multiprocessors;
            return cudaSuccess;
        case cudaDevAttrComputeCapabilityMajor:
            *value = is.compute / 10;
            return cudaSuccess;
        case cudaDevAttrComputeCapabilityMinor:
            *value = is.compute % 10;
            return cudaSuccess;
        case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
            *value = is.shared_bytes;
            return cudaSuccess;
        case cudaDevAttrCooperativeLaunch:
            *value = is.is_cooperative ? 1 : 0;
            return cudaSuccess;
        case cudaDevAttrClusterLaunch:
            *value = is.has_clusters() ? 1 : 0;
            return cudaSuccess;
    }
    return answer(cudaErrorInvalidValue);
}

cudaError_t cudaDeviceSynchronize() {
    if (cudaError_t const e = begun("cudaDeviceSynchronize")) return e;
    return wait_for_all(cudaErrorStreamCaptureUnsupported);
}

cudaError_t cudaMalloc(void** data, std::size_t bytes) {
    if (cudaError_t const e = begun("cudaMalloc")) return e;
    if (captures_anywhere()) return spoil_captures(cudaErrorStreamCaptureUnsupported);
    *data = memory.allocate(bytes);
    return *data == nullptr && bytes > 0 ? answer(cudaErrorMemoryAllocation) : cudaSuccess;
}

cudaError_t cudaFree(void* data) {
    if (data == nullptr) return cudaSuccess;
    if (state.sticky == cudaSuccess && captures_anywhere()) return spoil_captures(cudaErrorStreamCaptureUnsupported);
    drain_all();
    bool const was_there = memory.free(data);  // even after an error: the tests check that nothing is left
    if (cudaError_t const e = begun("cudaFree")) return e;
    return was_there ? cudaSuccess : answer(cudaErrorInvalidValue);
}

cudaError_t cudaMallocHost(void** data, std::size_t bytes) {
    if (cudaError_t const e = begun("cudaMallocHost")) return e;
    if (captures_anywhere()) return spoil_captures(cudaErrorStreamCaptureUnsupported);
    *data = std::malloc(bytes);
    if (*data == nullptr) return answer(cudaErrorMemoryAllocation);
    std::memset(*data, the_machine.poison, bytes);
    state.pinned[static_cast<char const*>(*data)] = bytes;
    return cudaSuccess;
}
cudaError_t cudaFreeHost(void* data) {
    if (data == nullptr) return cudaSuccess;
    drain_all();
    if (state.pinned.erase(static_cast<char const*>(data)) == 0) return answer(cudaErrorInvalidValue);
    std::free(data);
    return begun("cudaFreeHost");
}

cudaError_t cudaMallocAsync(void** data, std::size_t bytes, cudaStream_t stream) {
    if (cudaError_t const e = begun("cudaMallocAsync")) return e;
    if (find(stream) == nullptr) return answer(cudaErrorInvalidResourceHandle);
    if (captures_anywhere()) return spoil_captures(cudaErrorStreamCaptureUnsupported);
    *data = memory.allocate(bytes);
    return *data == nullptr && bytes > 0 ? answer(cudaErrorMemoryAllocation) : cudaSuccess;
}
cudaError_t cudaFreeAsync(void* data, cudaStream_t stream) {
    if (data == nullptr) return cudaSuccess;
    CUstream_st* const s = find(stream);
    if (s == nullptr) return answer(cudaErrorInvalidResourceHandle);
    if (captures_anywhere()) return spoil_captures(cudaErrorStreamCaptureUnsupported);
    drain(*s);  // of this stream alone: what others have recorded finds the memory gone
    bool const was_there = memory.free(data);
    if (cudaError_t const e = begun("cudaFreeAsync")) return e;
    return was_there ? cudaSuccess : answer(cudaErrorInvalidValue);
}

cudaError_t cudaMemcpy(void* to, void const* from, std::size_t bytes, cudaMemcpyKind kind) {
    if (cudaError_t const e = begun("cudaMemcpy")) return e;
    if (cudaError_t const e = wait_for_all(cudaErrorStreamCaptureImplicit)) return e;
    if (!is_copyable(to, from, bytes, kind)) return answer(cudaErrorInvalidValue);
    do_now([&] { copy(to, from, bytes); });
    return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void* to, void const* from, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
    if (cudaError_t const e = begun("cudaMemcpyAsync")) return e;
    if (!is_copyable(to, from, bytes, kind)) return answer(cudaErrorInvalidValue);
    CUstream_st const* const s = find(stream);
    if (kind == cudaMemcpyHostToDevice && s != nullptr && s->capture == nullptr && !is_pinned(from, bytes)) {
        // Host memory that is not pinned has been read when the call returns.
        auto const* const bytes_of = static_cast<char const*>(from);
        return record(stream, [to, staged = std::vector<char>(bytes_of, bytes_of + bytes)] {
            copy(to, staged.data(), staged.size());
        });
    }
    return record(stream, [=] { copy(to, from, bytes); });
}
cudaError_t cudaMemset(void* data, int value, std::size_t bytes) {
    if (cudaError_t const e = begun("cudaMemset")) return e;
    if (cudaError_t const e = wait_for_all(cudaErrorStreamCaptureImplicit)) return e;
    if (bytes > 0 && !memory.holds(data, bytes)) return answer(cudaErrorInvalidValue);
    if (bytes > 0) do_now([&] { std::memset(data, value, bytes); });
    return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void* data, int value, std::size_t bytes, cudaStream_t stream) {
    if (cudaError_t const e = begun("cudaMemsetAsync")) return e;
    if (bytes > 0 && !memory.holds(data, bytes)) return answer(cudaErrorInvalidValue);
    return record(stream, [=] {
        if (bytes > 0) std::memset(data, value, bytes);
    });
}

cudaError_t cudaStreamCreate(cudaStream_t* stream) {
    if (cudaError_t const e = begun("cudaStreamCreate")) return e;
    *stream = new CUstream_st;
    state.streams.insert(*stream);
    return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
    CUstream_st* const s = find(stream);
    if (s == nullptr || stream == nullptr) return answer(cudaErrorInvalidResourceHandle);
    drain(*s);
    state.streams.erase(s);
    delete s->capture;
    delete s;
    return begun("cudaStreamDestroy");
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
    if (cudaError_t const e = begun("cudaStreamSynchronize")) return e;
    CUstream_st* const s = find(stream);
    if (s == nullptr) return answer(cudaErrorInvalidResourceHandle);
    if (s->capture != nullptr || (stream == nullptr && captures_anywhere()))
        return spoil_captures(cudaErrorStreamCaptureUnsupported);
    if (stream == nullptr)
        drain_all();
    else
        drain(*s);
    return answer(state.sticky);
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
    if (cudaError_t const e = begun("cudaEventCreateWithFlags")) return e;
    *event = new CUevent_st;
    state.events.insert(*event);
    return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
    if (cudaError_t const e = begun("cudaEventRecord")) return e;
    if (state.events.count(event) == 0 || find(stream) == nullptr) return answer(cudaErrorInvalidResourceHandle);
    if (captures_anywhere()) return spoil_captures(cudaErrorStreamCaptureUnsupported);
    event->recorded_on = stream;
    event->is_recorded = true;
    return cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
    if (cudaError_t const e = begun("cudaEventSynchronize")) return e;
    if (state.events.count(event) == 0) return answer(cudaErrorInvalidResourceHandle);
    if (captures_anywhere()) return spoil_captures(cudaErrorStreamCaptureUnsupported);
    CUstream_st* const earlier = find(event->recorded_on);
    if (event->is_recorded && earlier != nullptr) drain(*earlier);
    return answer(state.sticky);
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
    if (cudaError_t const e = begun("cudaStreamWaitEvent")) return e;
    if (state.events.count(event) == 0 || find(stream) == nullptr) return answer(cudaErrorInvalidResourceHandle);
    if (captures_anywhere()) return spoil_captures(cudaErrorStreamCaptureUnsupported);
    // What the event stands for runs now, before anything that this stream is given later.
    CUstream_st* const earlier = find(event->recorded_on);
    if (event->is_recorded && earlier != nullptr) drain(*earlier);
    return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
    if (state.events.erase(event) == 0) return answer(cudaErrorInvalidResourceHandle);
    delete event;
    return begun("cudaEventDestroy");
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
    if (cudaError_t const e = begun("cudaStreamBeginCapture")) return e;
    CUstream_st* const s = find(stream);
    if (s == nullptr) return answer(cudaErrorInvalidResourceHandle);
    if (stream == nullptr) return answer(cudaErrorStreamCaptureUnsupported);
    if (s->capture != nullptr) return answer(cudaErrorInvalidValue);
    s->capture = new CUgraph_st;
    s->is_spoilt = false;
    return cudaSuccess;
}
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
    if (cudaError_t const e = begun("cudaStreamIsCapturing")) return e;
    CUstream_st const* const s = find(stream);
    if (s == nullptr) return answer(cudaErrorInvalidResourceHandle);
    *status = s->capture == nullptr ? cudaStreamCaptureStatusNone
              : s->is_spoilt        ? cudaStreamCaptureStatusInvalidated
                                    : cudaStreamCaptureStatusActive;
    return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
    if (cudaError_t const e = begun("cudaStreamEndCapture")) return e;
    CUstream_st* const s = find(stream);
    if (s == nullptr || s->capture == nullptr) return answer(cudaErrorInvalidValue);
    std::unique_ptr<CUgraph_st> captured(std::exchange(s->capture, nullptr));
    *graph = nullptr;
    if (std::exchange(s->is_spoilt, false)) return answer(cudaErrorStreamCaptureInvalidated);
    *graph = captured.release();
    state.graphs.insert(*graph);
    return cudaSuccess;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph, unsigned long long) {
    if (cudaError_t const e = begun("cudaGraphInstantiate")) return e;
    if (state.graphs.count(graph) == 0) return answer(cudaErrorInvalidValue);
    *executable = new CUgraphExec_st{graph->work};
    state.executables.insert(*executable);
    return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
    if (cudaError_t const e = begun("cudaGraphLaunch")) return e;
    if (state.executables.count(executable) == 0) return answer(cudaErrorInvalidValue);
    for (auto const& work : executable->work)
        if (cudaError_t const e = record(stream, work)) return e;
    return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
    if (state.executables.erase(executable) == 0) return answer(cudaErrorInvalidValue);
    delete executable;
    return begun("cudaGraphExecDestroy");
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
    if (state.graphs.erase(graph) == 0) return answer(cudaErrorInvalidValue);
    delete graph;
    return begun("cudaGraphDestroy");
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, void const* kernel) {
    if (cudaError_t const e = begun("cudaFuncGetAttributes")) return e;
    if (kernel == nullptr) return answer(cudaErrorInvalidDeviceFunction);
    device const& is = the_machine.is;
    if (is.ptx > is.compute) return answer(cudaErrorNoKernelImageForDevice);
    *attributes = {is.ptx, is.ptx, 256};
    return cudaSuccess;
}
cudaError_t cudaFuncSetAttribute(void const* kernel, cudaFuncAttribute attribute, int value) {
    if (cudaError_t const e = begun("cudaFuncSetAttribute")) return e;
    if (kernel == nullptr) return answer(cudaErrorInvalidDeviceFunction);
    if (attribute != cudaFuncAttributeNonPortableClusterSizeAllowed || value < 0 || value > 1)
        return answer(cudaErrorInvalidValue);
    if (value == 1)
        state.large_clusters.insert(kernel);
    else
        state.large_clusters.erase(kernel);
    return cudaSuccess;
}
cudaError_t cudaOccupancyMaxActiveClusters(int* clusters, void const* kernel, cudaLaunchConfig_t const* configuration) {
    if (cudaError_t const e = begun("cudaOccupancyMaxActiveClusters")) return e;
    if (kernel == nullptr) return answer(cudaErrorInvalidDeviceFunction);
    device const& is = the_machine.is;
    unsigned ranks = 1;
    for (unsigned k = 0; k < configuration->numAttrs; ++k)
        if (configuration->attrs[k].id == cudaLaunchAttributeClusterDimension)
            ranks = configuration->attrs[k].val.clusterDim.x;
    if (ranks < 1 || ranks > 16 || !is.has_clusters() || (ranks > 8 && state.large_clusters.count(kernel) == 0))
        return answer(cudaErrorInvalidClusterSize);
    if (ranks > 8)
        *clusters = is.clusters_of_16;
    else
        *clusters = is.clusters_of_8 * 8 / static_cast<int>(ranks);
    return cudaSuccess;
}
