// GoogleTest on ranks: all run the same cases in the same order; the first one speaks, and the others when they fail.
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
