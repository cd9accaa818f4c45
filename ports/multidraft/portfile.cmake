# An overlay port: vcpkg install multidraft --overlay-ports=<this repository>/ports. It packages the checkout it lies in, or the
# archive whose address and hash stand beside it (tools/release writes that port).
if(EXISTS "${CMAKE_CURRENT_LIST_DIR}/archive.cmake")
    include("${CMAKE_CURRENT_LIST_DIR}/archive.cmake")
    vcpkg_download_distfile(archive URLS "${url}" FILENAME "multidraft-${VERSION}.tar.gz" SHA512 "${sha512}")
    vcpkg_extract_source_archive(SOURCE_PATH ARCHIVE "${archive}")
else()
    set(SOURCE_PATH "${CMAKE_CURRENT_LIST_DIR}/../..")
endif()
if(NOT "library" IN_LIST FEATURES)
    set(VCPKG_BUILD_TYPE release) # header-only
endif()

vcpkg_check_features(OUT_FEATURE_OPTIONS FEATURE_OPTIONS FEATURES cuda MULTIDRAFT_CUDA kokkos MULTIDRAFT_KOKKOS
                                                      mpi MULTIDRAFT_MPI library MULTIDRAFT_BUILD_LIBRARY)
if("library" IN_LIST FEATURES)
    string(REPLACE "dynamic" "shared" linkage "${VCPKG_LIBRARY_LINKAGE}")
    list(APPEND FEATURE_OPTIONS "-DMULTIDRAFT_LIBRARY_LINKAGE=${linkage}")
endif()

vcpkg_cmake_configure(
    SOURCE_PATH "${SOURCE_PATH}"
    OPTIONS -DMULTIDRAFT_BUILD_TESTS=OFF -DMULTIDRAFT_BUILD_EXAMPLES=OFF -DMULTIDRAFT_BUILD_BENCH=OFF
            ${FEATURE_OPTIONS}
)
vcpkg_cmake_install()
vcpkg_cmake_config_fixup(CONFIG_PATH share/cmake/multidraft)
vcpkg_fixup_pkgconfig()

if("library" IN_LIST FEATURES)
    vcpkg_copy_pdbs()
endif()

file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/share/licenses" "${CURRENT_PACKAGES_DIR}/debug/include"
                    "${CURRENT_PACKAGES_DIR}/debug/share")
file(INSTALL "${CMAKE_CURRENT_LIST_DIR}/usage" DESTINATION "${CURRENT_PACKAGES_DIR}/share/${PORT}")
vcpkg_install_copyright(FILE_LIST "${SOURCE_PATH}/LICENSE")
