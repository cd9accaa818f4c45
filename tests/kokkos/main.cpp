// The main program of the Kokkos tests: Kokkos is initialised once for all of them.
#include <gtest/gtest.h>

#include <Kokkos_Core.hpp>

int main(int argc, char** argv) {
    testing::InitGoogleTest(&argc, argv);
    Kokkos::initialize(argc, argv);
    int const result = RUN_ALL_TESTS();
    Kokkos::finalize();
    return result;
}
