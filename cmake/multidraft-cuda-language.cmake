# CUDA as a language, for our own .cu files: sets multidraft_compiles_cuda. Included where multidraft::cuda is there.

include(CheckLanguage)
# nvcc is found also where it is not on the path, and uses the same host compiler as the rest.
if(NOT DEFINED CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX} AND CUDAToolkit_NVCC_EXECUTABLE)
    set(ENV{CUDACXX} "${CUDAToolkit_NVCC_EXECUTABLE}")
endif()
if(NOT DEFINED CMAKE_CUDA_HOST_COMPILER AND NOT DEFINED ENV{CUDAHOSTCXX})
    set(CMAKE_CUDA_HOST_COMPILER "${CMAKE_CXX_COMPILER}" CACHE FILEPATH "The host compiler of nvcc")
endif()
# Named, because there may be no device here to query.
if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES AND NOT DEFINED ENV{CUDAARCHS})
    set(CMAKE_CUDA_ARCHITECTURES "80;90" CACHE STRING "CUDA architectures")
endif()
check_language(CUDA)
if(CMAKE_CUDA_COMPILER)
    enable_language(CUDA)
    set(multidraft_compiles_cuda ON)
elseif(MULTIDRAFT_CUDA STREQUAL "AUTO")
    message(STATUS "CUDA tests and benchmarks: off (nvcc does not work with ${CMAKE_CXX_COMPILER})")
else()
    message(FATAL_ERROR "MULTIDRAFT_CUDA is ${MULTIDRAFT_CUDA}, but nvcc does not work with ${CMAKE_CXX_COMPILER}")
endif()
