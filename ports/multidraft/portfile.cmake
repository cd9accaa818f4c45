# An overlay port: vcpkg install multidraft --overlay-ports=<this repository>/ports. It packages the checkout it lies in.
set(SOURCE_PATH "${CMAKE_CURRENT_LIST_DIR}/../..")
set(VCPKG_BUILD_TYPE release) # header-only

vcpkg_check_features(OUT_FEATURE_OPTIONS FEATURE_OPTIONS FEATURES cuda MULTIDRAFT_CUDA kokkos MULTIDRAFT_KOKKOS
                                                      mpi MULTIDRAFT_MPI)

vcpkg_cmake_configure(
    SOURCE_PATH "${SOURCE_PATH}"
    OPTIONS -DMULTIDRAFT_BUILD_TESTS=OFF -DMULTIDRAFT_BUILD_EXAMPLES=OFF -DMULTIDRAFT_BUILD_BENCH=OFF
            ${FEATURE_OPTIONS}
)
vcpkg_cmake_install()
vcpkg_cmake_config_fixup(CONFIG_PATH share/cmake/multidraft)
vcpkg_fixup_pkgconfig()

file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/share/licenses")
file(INSTALL "${CMAKE_CURRENT_LIST_DIR}/usage" DESTINATION "${CURRENT_PACKAGES_DIR}/share/${PORT}")
vcpkg_install_copyright(FILE_LIST "${SOURCE_PATH}/LICENSE")
