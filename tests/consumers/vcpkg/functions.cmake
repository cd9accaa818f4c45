# Runs a portfile without vcpkg: cmake -DPORTFILE=.. -DINSTALLED=.. -DBUILD=.. -P functions.cmake. The functions follow
# vcpkg's documentation as far as this port uses them. FEATURES and VCPKG_LIBRARY_LINKAGE are vcpkg's; the compiled
# library is built as Release only.

cmake_minimum_required(VERSION 3.25)
set(PORT multidraft)
set(CURRENT_PACKAGES_DIR "${INSTALLED}")

function(must)
    execute_process(COMMAND ${ARGN} OUTPUT_VARIABLE output ERROR_VARIABLE output RESULT_VARIABLE result)
    if(NOT result EQUAL 0)
        message(FATAL_ERROR "${output}")
    endif()
endfunction()

function(vcpkg_check_features)
    cmake_parse_arguments(PARSE_ARGV 0 arg "" "OUT_FEATURE_OPTIONS" "FEATURES")
    set(options "")
    while(arg_FEATURES)
        list(POP_FRONT arg_FEATURES feature variable)
        if(feature IN_LIST FEATURES)
            list(APPEND options -D${variable}=ON)
        else()
            list(APPEND options -D${variable}=OFF)
        endif()
    endwhile()
    set(${arg_OUT_FEATURE_OPTIONS} "${options}" PARENT_SCOPE)
endfunction()

function(vcpkg_cmake_configure)
    cmake_parse_arguments(PARSE_ARGV 0 arg "" "SOURCE_PATH" "OPTIONS")
    must("${CMAKE_COMMAND}" -S "${arg_SOURCE_PATH}" -B "${BUILD}" "-DCMAKE_INSTALL_PREFIX=${CURRENT_PACKAGES_DIR}"
         -DCMAKE_BUILD_TYPE=Release "-DCMAKE_CXX_COMPILER=${COMPILER}" -DCMAKE_INSTALL_LIBDIR=lib ${arg_OPTIONS})
endfunction()

function(vcpkg_cmake_install)
    must("${CMAKE_COMMAND}" --build "${BUILD}" --target install)
endfunction()

# Moves the config files to share/<port>, one level up, and adjusts the paths in them.
function(vcpkg_cmake_config_fixup)
    cmake_parse_arguments(PARSE_ARGV 0 arg "" "CONFIG_PATH" "")
    file(GLOB files "${CURRENT_PACKAGES_DIR}/${arg_CONFIG_PATH}/*")
    foreach(file IN LISTS files)
        file(READ "${file}" text)
        string(REPLACE "\${CMAKE_CURRENT_LIST_DIR}/../../../" "\${CMAKE_CURRENT_LIST_DIR}/../../" text "${text}")
        string(REGEX REPLACE "get_filename_component\\(_IMPORT_PREFIX \"\\\${CMAKE_CURRENT_LIST_FILE}\" PATH\\)(\nget_filename_component\\(_IMPORT_PREFIX \"\\\${_IMPORT_PREFIX}\" PATH\\))*"
               "get_filename_component(_IMPORT_PREFIX \"\${CMAKE_CURRENT_LIST_DIR}/../..\" ABSOLUTE)" text "${text}")
        get_filename_component(name "${file}" NAME)
        file(WRITE "${CURRENT_PACKAGES_DIR}/share/${PORT}/${name}" "${text}")
    endforeach()
    file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/share/cmake")
endfunction()

function(vcpkg_fixup_pkgconfig)
endfunction()

function(vcpkg_copy_pdbs)
endfunction()

function(vcpkg_install_copyright)
    cmake_parse_arguments(PARSE_ARGV 0 arg "" "" "FILE_LIST")
    file(INSTALL DESTINATION "${CURRENT_PACKAGES_DIR}/share/${PORT}" TYPE FILE RENAME copyright FILES ${arg_FILE_LIST})
endfunction()

get_filename_component(CMAKE_CURRENT_LIST_DIR "${PORTFILE}" DIRECTORY)
include("${PORTFILE}")

# The requirements of vcpkg's own checks of a port.
foreach(file IN ITEMS share/multidraft/copyright share/multidraft/usage share/multidraft/multidraft-config.cmake
                      include/multidraft/version.hpp)
    if(NOT EXISTS "${CURRENT_PACKAGES_DIR}/${file}")
        message(FATAL_ERROR "the port does not install ${file}")
    endif()
endforeach()
set(unwanted debug bin share/licenses)
if("library" IN_LIST FEATURES)
    set(suffix .so)
    set(other .a)
    if(VCPKG_LIBRARY_LINKAGE STREQUAL "static")
        set(suffix .a)
        set(other .so)
    endif()
    foreach(file IN ITEMS include/multidraft.h lib/libmultidraft${suffix} share/multidraft/multidraft-c-targets.cmake)
        if(NOT EXISTS "${CURRENT_PACKAGES_DIR}/${file}")
            message(FATAL_ERROR "the port does not install ${file}")
        endif()
    endforeach()
    list(APPEND unwanted lib/libmultidraft${other})
else()
    list(APPEND unwanted lib)
endif()
foreach(directory IN LISTS unwanted)
    if(EXISTS "${CURRENT_PACKAGES_DIR}/${directory}")
        message(FATAL_ERROR "the port installs ${directory}")
    endif()
endforeach()
