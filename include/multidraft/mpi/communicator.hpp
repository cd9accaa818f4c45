// MPI as the communicator of ranks that share rows.
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Excludes the C++ bindings, which MPI 3 removed.
#if !defined(OMPI_SKIP_MPICXX)
#define OMPI_SKIP_MPICXX 1
#endif
#if !defined(MPICH_SKIP_MPICXX)
#define MPICH_SKIP_MPICXX 1
#endif
#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "multidraft/base/config.hpp"
#include "multidraft/base/error.hpp"
#include "multidraft/base/span.hpp"
#include "multidraft/shards/communicator.hpp"

namespace MULTIDRAFT_NAMESPACE::mpi {

/// The ranks of an MPI communicator, for `shards::rank_team`.
///
/// It uses a duplicate (`MPI_Comm_dup`), so that its messages do not match those of others. Constructed and destroyed
/// by all ranks, between `MPI_Init` and `MPI_Finalize`; used by one thread at a time (`MPI_THREAD_SERIALIZED`, or
/// `MPI_THREAD_SINGLE` in a program of one thread). Errors of MPI go to the communicator's error handler, which by
/// default ends the program; if it returns, `invalid_input` is thrown. So it is if a call is to move 2^31 bytes or more
/// (in `all_reduce`, numbers).
class communicator {
public:
    /// Duplicates `ranks`. Collective.
    explicit communicator(MPI_Comm ranks = MPI_COMM_WORLD) {
        check(MPI_Comm_dup(ranks, &ranks_), "MPI_Comm_dup");
        check(MPI_Comm_rank(ranks_, &rank_), "MPI_Comm_rank");
        check(MPI_Comm_size(ranks_, &size_), "MPI_Comm_size");
        for (auto* numbers : {&sent_, &sent_at_, &received_, &received_at_})
            numbers->resize(static_cast<std::size_t>(size_));
    }
    communicator(communicator const&) = delete;
    communicator& operator=(communicator const&) = delete;
    ~communicator() { MPI_Comm_free(&ranks_); }

    [[nodiscard]] int rank() const noexcept { return rank_; }
    [[nodiscard]] int size() const noexcept { return size_; }

    void all_gather(void const* from, std::size_t bytes, void* to) {
        int const count = counted(bytes);
        check(MPI_Allgather(from, count, MPI_BYTE, to, count, MPI_BYTE, ranks_), "MPI_Allgather");
    }
    void all_reduce(span<std::uint64_t> numbers) {
        check(MPI_Allreduce(MPI_IN_PLACE, numbers.data(), counted(numbers.size()), MPI_UINT64_T, MPI_SUM, ranks_),
              "MPI_Allreduce");
    }
    /// What a call moves at most: see `shards::has_all_to_all`.
    [[nodiscard]] static constexpr std::size_t most_bytes() noexcept {
        return static_cast<std::size_t>(std::numeric_limits<int>::max());
    }
    /// See `shards::has_all_to_all`.
    void start_all_to_all(void const* from, span<std::size_t const> sent, void* to, span<std::size_t const> received) {
        place(sent, sent_, sent_at_);
        place(received, received_, received_at_);
        check(MPI_Ialltoallv(from, sent_.data(), sent_at_.data(), MPI_BYTE, to, received_.data(), received_at_.data(),
                             MPI_BYTE, ranks_, &started_),
              "MPI_Ialltoallv");
    }
    /// Whether the call that was started has completed; true if there is none.
    [[nodiscard]] bool test() {
        int done = 0;
        check(MPI_Test(&started_, &done, MPI_STATUS_IGNORE), "MPI_Test");
        return done != 0;
    }
    /// Returns when that call has completed.
    void wait() { check(MPI_Wait(&started_, MPI_STATUS_IGNORE), "MPI_Wait"); }

private:
    [[nodiscard]] static int counted(std::size_t bytes) {
        if (bytes > most_bytes())
            refuse("count", bytes,
                   "a call of MPI moves less than 2^31 bytes or numbers: verify fewer requests at a time");
        return static_cast<int>(bytes);
    }
    static void check(int result, char const* call) {
        if (result != MPI_SUCCESS) refuse(call, result, "this call of MPI failed");
    }
    static void place(span<std::size_t const> bytes, std::vector<int>& counts, std::vector<int>& places) {
        std::size_t at = 0;
        for (std::size_t r = 0; r < bytes.size(); ++r) {
            counts[r] = counted(bytes[r]);
            places[r] = counted(at);
            at += bytes[r];
        }
    }

    MPI_Comm ranks_ = MPI_COMM_NULL;
    MPI_Request started_ = MPI_REQUEST_NULL;
    int rank_ = 0;
    int size_ = 1;
    std::vector<int> sent_, sent_at_, received_, received_at_;
};

static_assert(shards::has_all_to_all<communicator>);

}  // namespace MULTIDRAFT_NAMESPACE::mpi
