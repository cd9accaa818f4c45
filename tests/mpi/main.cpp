// GoogleTest on ranks: all run the same tests in the same order. Rank 0 prints everything, the others only failures.
#include <gtest/gtest.h>
#include <mpi.h>

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank != 0) ::testing::GTEST_FLAG(brief) = true;
    ::testing::InitGoogleTest(&argc, argv);
    int const status = RUN_ALL_TESTS();
    MPI_Finalize();
    return status;
}
