# The requirements of the components cuda, kokkos and mpi, and the properties of their targets. Used by the build of the
# library and, installed next to it, by the package's config file, so that both agree.

set(multidraft_components cuda kokkos mpi)

# multidraft_find_component(<component> <missing>): looks for what the component needs. <missing> becomes empty, or names
# what was not found. A macro, so that the caller keeps the variables that the find modules set.
macro(multidraft_find_component component missing)
    set(${missing} "")
    if("${component}" STREQUAL "cuda")
        # nvcc knows C++20 from CUDA 12 on.
        find_package(CUDAToolkit 12.0 QUIET)
        if(NOT TARGET CUDA::cudart)
            set(${missing} "the CUDA toolkit (12.0 or later) was not found")
        else()
            # The toolkit's own CCCL also where the toolkit is not on the path, but a newer one that the user names first.
            find_package(CCCL CONFIG QUIET HINTS "${CUDAToolkit_LIBRARY_ROOT}" "${CUDAToolkit_LIBRARY_DIR}"
                                                 "${CUDAToolkit_TARGET_DIR}" "${CUDAToolkit_BIN_DIR}/..")
            if(NOT TARGET CCCL::CCCL)
                find_path(multidraft_thrust_include_dir thrust/execution_policy.h
                          HINTS ${CUDAToolkit_INCLUDE_DIRS} PATH_SUFFIXES cccl)
                mark_as_advanced(multidraft_thrust_include_dir)
                if(NOT multidraft_thrust_include_dir)
                    set(${missing} "CCCL (Thrust, CUB) was not found")
                endif()
            endif()
        endif()
    elseif("${component}" STREQUAL "kokkos")
        find_package(Kokkos CONFIG QUIET)
        if(NOT TARGET Kokkos::kokkos)
            set(${missing} "Kokkos was not found")
        endif()
    elseif("${component}" STREQUAL "mpi")
        # Not whether there is a target alone: FindMPI of CMake 3.25 leaves MPI::MPI_CXX behind where it found nothing.
        # What the project that includes this one has found is used as it is.
        if(NOT TARGET MPI::MPI_CXX OR NOT MPI_CXX_FOUND)
            find_package(MPI QUIET COMPONENTS CXX)
        endif()
        if(NOT MPI_CXX_FOUND)
            set(${missing} "MPI was not found")
        endif()
    else()
        set(${missing} "there is no such component")
    endif()
endmacro()

# Debian's Kokkos (libtrilinos-kokkos-dev) names an include directory that does not hold its headers.
function(multidraft_repair_kokkos)
    # The headers belong to Kokkos::kokkos itself or, in later versions, to the libraries behind it.
    set(queue Kokkos::kokkos)
    set(seen "")
    set(directories "")
    while(queue)
        list(POP_FRONT queue target)
        if(target IN_LIST seen OR NOT TARGET "${target}")
            continue()
        endif()
        list(APPEND seen "${target}")
        get_target_property(include_directories ${target} INTERFACE_INCLUDE_DIRECTORIES)
        if(include_directories)
            list(APPEND directories ${include_directories})
        endif()
        get_target_property(libraries ${target} INTERFACE_LINK_LIBRARIES)
        if(libraries)
            list(APPEND queue ${libraries})
        endif()
    endwhile()
    foreach(directory IN LISTS directories)
        # An expression cannot be evaluated here; Debian's package does not use one.
        if(directory MATCHES "\\$<" OR EXISTS "${directory}/Kokkos_Core.hpp")
            return()
        endif()
    endforeach()
    if(EXISTS /usr/include/trilinos/Kokkos_Core.hpp)
        set_target_properties(Kokkos::kokkos PROPERTIES INTERFACE_INCLUDE_DIRECTORIES /usr/include/trilinos)
    endif()
endfunction()

# multidraft_define_component(<target> <component>): sets the component's properties on an INTERFACE target. Call after
# multidraft_find_component.
function(multidraft_define_component target component)
    target_link_libraries(${target} INTERFACE multidraft::multidraft)
    if(component STREQUAL "cuda")
        target_link_libraries(${target} INTERFACE CUDA::cudart)
        if(TARGET CCCL::CCCL)
            target_link_libraries(${target} INTERFACE CCCL::CCCL)
        else()
            target_include_directories(${target} SYSTEM INTERFACE "${multidraft_thrust_include_dir}")
        endif()
        # Device code calls constexpr functions of the standard library (std::span, std::numeric_limits).
        target_compile_options(${target} INTERFACE "$<$<COMPILE_LANG_AND_ID:CUDA,NVIDIA>:--expt-relaxed-constexpr>")
        # CMake before 3.25.2 has no CUDA C++20: it accepts CUDA_STANDARD 20 and passes no flag.
        if("cuda_std_20" IN_LIST CMAKE_CUDA_COMPILE_FEATURES)
            target_compile_features(${target} INTERFACE cuda_std_20)
        else()
            target_compile_options(${target} INTERFACE "$<$<COMPILE_LANG_AND_ID:CUDA,NVIDIA>:-std=c++20>")
        endif()
    elseif(component STREQUAL "kokkos")
        multidraft_repair_kokkos()
        target_link_libraries(${target} INTERFACE Kokkos::kokkos)
    elseif(component STREQUAL "mpi")
        target_link_libraries(${target} INTERFACE MPI::MPI_CXX)
    endif()
endfunction()
