# Every header compiles alone, may be included twice, and may be included in two translation units of one program.
#
# Two files that include every header, in opposite orders, are linked into one program: a function that lacks `inline` is
# then defined twice. With MULTIDRAFT_TEST_ALL there is also a file for each header, which includes it twice and nothing
# else.

file(GLOB_RECURSE headers CONFIGURE_DEPENDS RELATIVE "${PROJECT_SOURCE_DIR}/include"
     "${PROJECT_SOURCE_DIR}/include/multidraft/*.hpp" "${PROJECT_SOURCE_DIR}/include/multidraft/*.cuh")
list(SORT headers)

# multidraft_check_headers(<name> <extension> <libraries> <header>...): the program multidraft_headers_<name>, a test.
function(multidraft_check_headers name extension libraries)
    if(NOT ARGN)
        return()
    endif()
    set(directory "${CMAKE_CURRENT_BINARY_DIR}/headers/${name}")
    set(sources "")
    set(all "")
    set(reversed "")
    foreach(header IN LISTS ARGN)
        string(APPEND all "#include \"${header}\"\n")
        string(PREPEND reversed "#include \"${header}\"\n")
        if(NOT MULTIDRAFT_TEST_ALL)
            continue()
        endif()
        string(MAKE_C_IDENTIFIER "${header}" identifier)
        set(source "${directory}/${identifier}.${extension}")
        file(CONFIGURE OUTPUT "${source}" CONTENT "#include \"${header}\"\n#include \"${header}\"\n" @ONLY)
        list(APPEND sources "${source}")
    endforeach()
    file(CONFIGURE OUTPUT "${directory}/all.${extension}" CONTENT "${all}\nint main() { return 0; }\n" @ONLY)
    file(CONFIGURE OUTPUT "${directory}/reversed.${extension}" CONTENT "${reversed}" @ONLY)
    set(target multidraft_headers_${name})
    add_executable(${target} ${sources} "${directory}/all.${extension}" "${directory}/reversed.${extension}")
    target_link_libraries(${target} PRIVATE ${libraries} multidraft_warnings)
    # Nothing of it runs: not optimised, it compiles in half the time.
    target_compile_options(${target} PRIVATE "$<$<COMPILE_LANGUAGE:CXX>:-O0>")
    add_test(NAME headers.${name} COMMAND ${target})
endfunction()

set(host ${headers})
list(FILTER host INCLUDE REGEX "\\.hpp$")
list(FILTER host EXCLUDE REGEX "^multidraft/((cuda|kokkos|mpi)/|(kokkos|mpi)\\.hpp$)")
multidraft_check_headers(host cpp multidraft::multidraft ${host})

foreach(component IN ITEMS cuda kokkos mpi)
    if(multidraft_has_${component})
        set(of_component ${headers})
        list(FILTER of_component INCLUDE REGEX "^multidraft/(${component}/.*|${component})\\.hpp$")
        multidraft_check_headers(${component} cpp multidraft::${component} ${of_component})
    endif()
endforeach()

# The oldest clang that is promised, Debian 12's: all headers that need nothing but a C++ compiler, and not a warning.
find_program(MULTIDRAFT_CLANG_14 clang++-14 DOC "Compiles all headers")
mark_as_advanced(MULTIDRAFT_CLANG_14)
if(MULTIDRAFT_CLANG_14 AND MULTIDRAFT_TEST_ALL)
    set(plain ${headers})
    list(FILTER plain INCLUDE REGEX "\\.hpp$")
    list(FILTER plain EXCLUDE REGEX "^multidraft/((kokkos|mpi)/|(kokkos|mpi)\\.hpp$)|^multidraft/cuda/host_trees\\.hpp$")
    set(all "")
    foreach(header IN LISTS plain)
        string(APPEND all "#include \"${header}\"\n")
    endforeach()
    set(source "${CMAKE_CURRENT_BINARY_DIR}/headers/clang_14/all.cpp")
    file(CONFIGURE OUTPUT "${source}" CONTENT "${all}" @ONLY)
    add_test(NAME headers.clang_14
             COMMAND "${MULTIDRAFT_CLANG_14}" -std=c++20 -fsyntax-only -Wall -Wextra -Wpedantic -Wshadow -Wconversion
                     -Wsign-conversion -Wdouble-promotion -Werror "-I${PROJECT_SOURCE_DIR}/include"
                     "${source}")
endif()

# nvcc is slow, so it sees the host headers in one file; only its own headers get a file each.
if(multidraft_compiles_cuda)
    set(directory "${CMAKE_CURRENT_BINARY_DIR}/headers/nvcc")
    set(seen ${headers})
    list(FILTER seen INCLUDE REGEX "^multidraft/(version\\.hpp|(base|group|random|rows|tree|law|draft|verify|cuda)/|cuda\\.cuh$)")
    set(all "")
    set(sources "${directory}/all.cu")
    foreach(header IN LISTS seen)
        string(APPEND all "#include \"${header}\"\n")
        if(header MATCHES "\\.cuh$" AND MULTIDRAFT_TEST_ALL)
            string(MAKE_C_IDENTIFIER "${header}" identifier)
            set(source "${directory}/${identifier}.cu")
            file(CONFIGURE OUTPUT "${source}" CONTENT "#include \"${header}\"\n#include \"${header}\"\n" @ONLY)
            list(APPEND sources "${source}")
        endif()
    endforeach()
    file(CONFIGURE OUTPUT "${directory}/all.cu" CONTENT "${all}\nint main() { return 0; }\n" @ONLY)
    add_executable(multidraft_headers_nvcc ${sources})
    target_link_libraries(multidraft_headers_nvcc PRIVATE multidraft::cuda multidraft_warnings)
    add_test(NAME headers.nvcc COMMAND multidraft_headers_nvcc)
endif()
