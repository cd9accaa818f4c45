# How the repository's own tests, examples and benchmarks are compiled. Nothing here reaches a user of the library.

include(CheckCXXCompilerFlag)
include(CheckLanguage)

# --- Warnings: link multidraft_warnings ------------------------------------------------------------------------------

add_library(multidraft_warnings INTERFACE)

set(warnings -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion -Wdouble-promotion)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
    # g++ 12 warns falsely of overlapping copies in operator+ of std::string (GCC bug 105329).
    list(APPEND warnings -Wno-restrict)
endif()
if(MULTIDRAFT_WERROR)
    list(APPEND warnings -Werror)
    if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
        # std::stable_sort of libstdc++ 12 uses a function that the library itself marks deprecated; clang blames the user.
        list(APPEND warnings -Wno-error=deprecated-declarations)
    endif()
endif()

# nvcc's own intermediate code is not pedantic.
set(host_warnings ${warnings})
list(REMOVE_ITEM host_warnings -Wpedantic)
list(JOIN host_warnings "," host_warnings)

target_compile_options(multidraft_warnings INTERFACE
    "$<$<COMPILE_LANG_AND_ID:CXX,GNU,Clang,AppleClang>:${warnings}>"
    "$<$<COMPILE_LANG_AND_ID:CUDA,NVIDIA>:-Xcompiler=${host_warnings}>")
if(MULTIDRAFT_WERROR)
    target_compile_options(multidraft_warnings INTERFACE "$<$<COMPILE_LANG_AND_ID:CUDA,NVIDIA>:--Werror=all-warnings>")
endif()

# --- Machine and sanitizers: for everything in the directories below -------------------------------------------------

if(MULTIDRAFT_NATIVE)
    check_cxx_compiler_flag(-march=native multidraft_march_native)
    if(multidraft_march_native)
        add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:-march=native>"
                            "$<$<COMPILE_LANG_AND_ID:CUDA,NVIDIA>:-Xcompiler=-march=native>")
        # Of features that clang 19 itself chose for processors with AMX.
        check_cxx_compiler_flag(-Winvalid-feature-combination multidraft_warns_of_features)
        if(multidraft_warns_of_features)
            add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:-Wno-invalid-feature-combination>")
        endif()
    endif()
endif()

if(MULTIDRAFT_SANITIZE)
    string(REPLACE ";" "," sanitizers "${MULTIDRAFT_SANITIZE}")
    add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:-fsanitize=${sanitizers};-fno-sanitize-recover=all;-fno-omit-frame-pointer>")
    add_link_options("-fsanitize=${sanitizers}")
endif()

# --- Packages that only examples and tests need ----------------------------------------------------------------------

# multidraft_find_packages(<list> <package>...): looks for the packages, which must be named below and define the target
# <package>::<package>, and appends those that are not found to the list, with their names in Debian.
function(multidraft_find_packages list)
    set(version_nlohmann_json 3)
    set(debian_nlohmann_json nlohmann-json3-dev)
    set(debian_CLI11 libcli11-dev)
    foreach(package IN LISTS ARGN)
        find_package(${package} ${version_${package}} QUIET)
        if(NOT TARGET ${package}::${package})
            list(APPEND ${list} "${package} (${debian_${package}})")
        endif()
    endforeach()
    set(${list} "${${list}}" PARENT_SCOPE)
endfunction()

# --- Linear programs: link multidraft_glpk, which is empty, with a message, without GLPK -----------------------------

add_library(multidraft_glpk INTERFACE)
find_path(GLPK_INCLUDE_DIR glpk.h)
find_library(GLPK_LIBRARY glpk)
mark_as_advanced(GLPK_INCLUDE_DIR GLPK_LIBRARY)
if(GLPK_INCLUDE_DIR AND GLPK_LIBRARY)
    target_include_directories(multidraft_glpk SYSTEM INTERFACE "${GLPK_INCLUDE_DIR}")
    target_link_libraries(multidraft_glpk INTERFACE "${GLPK_LIBRARY}")
    target_compile_definitions(multidraft_glpk INTERFACE MULTIDRAFT_HAS_GLPK=1)
else()
    message(STATUS "Limits of whole trees: off (missing: GLPK (libglpk-dev))")
endif()

# --- CUDA as a language: only the repository's .cu files need it, users of multidraft::cuda enable it themselves -----

set(multidraft_compiles_cuda OFF)
if(multidraft_has_cuda AND (MULTIDRAFT_BUILD_TESTS OR MULTIDRAFT_BUILD_BENCH OR MULTIDRAFT_BUILD_EXAMPLES))
    if(MULTIDRAFT_SANITIZE AND MULTIDRAFT_CUDA STREQUAL "AUTO")
        # The CUDA driver and the address sanitizer use the same addresses.
        message(STATUS "CUDA tests and benchmarks: off (sanitizers)")
    else()
        include("${CMAKE_CURRENT_LIST_DIR}/multidraft-cuda-language.cmake")
    endif()
endif()
