# Builds and runs the project tests/consumers/<CASE> as a user would. ctest runs it with cmake -P.
#
# SOURCE and BINARY are those of multidraft, WORK is a directory that is emptied first; GENERATOR and COMPILER are the
# build's own; VERSION is multidraft's; COMPONENTS are those of its build, with commas; LIBRARY are the objects of the
# compiled library, with commas, if the packages that contain it are tested.

cmake_minimum_required(VERSION 3.25)

function(run)
    execute_process(COMMAND ${ARGN} RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
    if(NOT result EQUAL 0)
        list(JOIN ARGN " " command)
        message(FATAL_ERROR "${command}\n${output}")
    endif()
endfunction()

# refused(<regex> <command>...): the command must fail with output that matches the expression.
function(refused expression)
    execute_process(COMMAND ${ARGN} RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
    list(JOIN ARGN " " command)
    if(result EQUAL 0)
        message(FATAL_ERROR "This should have failed: ${command}\n${output}")
    endif()
    string(REGEX REPLACE "[ \n]+" " " flat "${output}")
    if(NOT flat MATCHES "${expression}")
        message(FATAL_ERROR "${command}\nfailed without saying '${expression}':\n${output}")
    endif()
endfunction()

file(REMOVE_RECURSE "${WORK}")
file(MAKE_DIRECTORY "${WORK}")
string(REPLACE "," ";" COMPONENTS "${COMPONENTS}")
string(REGEX REPLACE "\\.[0-9]+$" "" minor_version "${VERSION}")

# use_built_objects(): packages reuse the objects of the compiled library.
function(use_built_objects)
    string(REGEX REPLACE ",.*" "" object "${LIBRARY}")
    cmake_path(GET object PARENT_PATH directory)
    set(ENV{MULTIDRAFT_BUILT_OBJECTS} "${directory}")
    set(ENV{CMAKE_CXX_COMPILER_LAUNCHER} "${SOURCE}/tests/consumers/built_objects")
endfunction()

set(configure "${CMAKE_COMMAND}" -S "${SOURCE}/tests/consumers/${CASE}" -G "${GENERATOR}"
              "-DCMAKE_CXX_COMPILER=${COMPILER}")

# build_and_run(<dir> <argument>...)
function(build_and_run name)
    run(${configure} -B "${WORK}/${name}" ${ARGN})
    run("${CMAKE_COMMAND}" --build "${WORK}/${name}")
    run("${CMAKE_CTEST_COMMAND}" --test-dir "${WORK}/${name}" --output-on-failure --no-tests=error)
endfunction()

if(CASE STREQUAL "find_package")
    set(prefix "${WORK}/prefix")
    run("${CMAKE_COMMAND}" --install "${BINARY}" --prefix "${WORK}/first")
    # The installation is moved, so that no file in it can depend on its original location.
    file(RENAME "${WORK}/first" "${prefix}")
    list(APPEND configure "-DCMAKE_PREFIX_PATH=${prefix}" -DCMAKE_FIND_USE_PACKAGE_REGISTRY=OFF)

    # All headers are installed, and no other files with them.
    file(GLOB_RECURSE expected RELATIVE "${SOURCE}/include" "${SOURCE}/include/*")
    file(GLOB_RECURSE installed RELATIVE "${prefix}/include" "${prefix}/include/*")
    list(REMOVE_ITEM installed multidraft.h)  # of the compiled library, if it was built
    if(NOT "${installed}" STREQUAL "${expected}")
        message(FATAL_ERROR "installed headers: ${installed}\nexpected: ${expected}")
    endif()

    build_and_run(plain "-DWANTED_VERSION=${minor_version}")
    foreach(component IN LISTS COMPONENTS)
        build_and_run(${component} "-DWANTED_VERSION=${minor_version}" "-DWANTED_COMPONENTS=${component}")
    endforeach()

    refused("compatible with requested version" ${configure} -B "${WORK}/refused" -DWANTED_VERSION=9.0)
    if(minor_version VERSION_GREATER 0.0)
        refused("compatible with requested version" ${configure} -B "${WORK}/refused" -DWANTED_VERSION=0.0)
    endif()
    refused("no component telepathy here: there is no such component"
            ${configure} -B "${WORK}/refused_component" "-DWANTED_VERSION=${minor_version}" -DWANTED_COMPONENTS=telepathy)

    find_program(pkg_config NAMES pkg-config pkgconf)
    if(pkg_config)
        set(ENV{PKG_CONFIG_PATH} "${prefix}/share/pkgconfig")
        run("${pkg_config}" --exact-version=${VERSION} multidraft)
        execute_process(COMMAND "${pkg_config}" --cflags multidraft OUTPUT_VARIABLE flags
                        OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
        separate_arguments(flags UNIX_COMMAND "${flags}")
        run("${COMPILER}" -std=c++20 ${flags} "${SOURCE}/tests/consumers/${CASE}/main.cpp" -o "${WORK}/with_pkg_config")
        run("${WORK}/with_pkg_config")
    endif()
    if(NOT EXISTS "${prefix}/share/cmake/multidraft/multidraft-c-targets.cmake")
        refused("no component c here: the package was built without the compiled library"
                ${configure} -B "${WORK}/refused_compiled" "-DWANTED_VERSION=${minor_version}" -DWANTED_COMPONENTS=c)
    endif()
elseif(CASE STREQUAL "compiled")
    set(prefix "${WORK}/prefix")
    run("${CMAKE_COMMAND}" --install "${BINARY}" --prefix "${WORK}/first")
    file(RENAME "${WORK}/first" "${prefix}")
    set(consumer "${SOURCE}/tests/c/consumer.c")
    list(APPEND configure "-DCMAKE_PREFIX_PATH=${prefix}" -DCMAKE_FIND_USE_PACKAGE_REGISTRY=OFF "-DCONSUMER=${consumer}")
    build_and_run(build "-DWANTED_VERSION=${minor_version}")

    find_program(pkg_config NAMES pkg-config pkgconf)
    find_program(c_compiler NAMES cc gcc clang)
    file(GLOB_RECURSE description "${prefix}/*/multidraft-c.pc")
    if(pkg_config AND c_compiler)
        cmake_path(GET description PARENT_PATH directory)
        cmake_path(GET directory PARENT_PATH libraries)
        set(ENV{PKG_CONFIG_PATH} "${directory}")
        run("${pkg_config}" --exact-version=${VERSION} multidraft-c)
        execute_process(COMMAND "${pkg_config}" --cflags --libs multidraft-c OUTPUT_VARIABLE flags
                        OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
        separate_arguments(flags UNIX_COMMAND "${flags}")
        run("${c_compiler}" -std=c11 "${consumer}" ${flags} -lm "-Wl,-rpath,${libraries}" -o "${WORK}/with_pkg_config")
        run("${WORK}/with_pkg_config")
    endif()
elseif(CASE STREQUAL "strict")
    set(prefix "${WORK}/prefix")
    run("${CMAKE_COMMAND}" --install "${BINARY}" --prefix "${prefix}")
    list(APPEND configure "-DCMAKE_PREFIX_PATH=${prefix}" -DCMAKE_FIND_USE_PACKAGE_REGISTRY=OFF)
    build_and_run(cxx20)
    build_and_run(cxx23_unity -DCMAKE_CXX_STANDARD=23 -DCMAKE_UNITY_BUILD=ON)
    # Also with the other compiler and the oldest supported one, if available.
    find_program(other NAMES clang++-21 clang++-20 clang++-19 clang++-18 clang++-17 clang++-16 clang++-15 clang++-14)
    if(COMPILER MATCHES "clang")
        unset(other CACHE)
        find_program(other NAMES g++)
    endif()
    if(other)
        build_and_run(other_cxx20_unity "-DCMAKE_CXX_COMPILER=${other}" -DCMAKE_UNITY_BUILD=ON)
        build_and_run(other_cxx23 "-DCMAKE_CXX_COMPILER=${other}" -DCMAKE_CXX_STANDARD=23)
    endif()
    find_program(oldest NAMES clang++-14)
    if(oldest)
        build_and_run(oldest_cxx20 "-DCMAKE_CXX_COMPILER=${oldest}")
    endif()
elseif(CASE STREQUAL "amalgamation")
    run("${SOURCE}/tools/amalgamate" --output "${WORK}/multidraft.hpp")
    set(compile "${COMPILER}" -std=c++20 -O1 -Wall -Wextra -Wconversion -Werror "${SOURCE}/tests/consumers/${CASE}/main.cpp")
    run(${compile} "-I${SOURCE}/include" -o "${WORK}/headers")
    run(${compile} "-I${WORK}" -DMULTIDRAFT_SINGLE_HEADER -o "${WORK}/single")
    foreach(program IN ITEMS headers single)
        execute_process(COMMAND "${WORK}/${program}" OUTPUT_VARIABLE ${program} COMMAND_ERROR_IS_FATAL ANY)
    endforeach()
    if(NOT single STREQUAL headers OR headers STREQUAL "")
        message(FATAL_ERROR "with the headers:\n${headers}\nwith the single one:\n${single}")
    endif()
elseif(CASE STREQUAL "nvcc")
    # Headers added by hand, with the standard but without the other flags of multidraft::cuda.
    find_program(nvcc NAMES nvcc HINTS /usr/local/cuda/bin "$ENV{CUDA_PATH}/bin")
    if(NOT nvcc)
        message("consumers.nvcc: skipped, there is no nvcc")
        return()
    endif()
    set(compile "${nvcc}" -std=c++20 -arch=sm_90 "-I${SOURCE}/include" -Werror all-warnings -ptx)
    run(${compile} "${SOURCE}/tests/consumers/${CASE}/float16_rows.cu" -o "${WORK}/float16_rows.ptx")
    file(READ "${WORK}/float16_rows.ptx" ptx)
    foreach(instruction IN ITEMS "ld.global" "cvt.f32.f16" "st.global")
        string(FIND "${ptx}" "${instruction}" found)
        if(found EQUAL -1)
            message(FATAL_ERROR "a kernel over rows of float16 has no ${instruction}:\n${ptx}")
        endif()
    endforeach()
    # Not optimised: this checks warnings, and that results stay exact with a flag for approximate arithmetic.
    run(${compile} -G -use_fast_math "${SOURCE}/tests/consumers/${CASE}/launches.cu" -o "${WORK}/launches.ptx")
    file(STRINGS "${WORK}/launches.ptx" approximate REGEX "\\.approx|div\\.full")
    if(NOT approximate STREQUAL "")
        message(FATAL_ERROR "approximate operations in device code:\n${approximate}")
    endif()
elseif(CASE STREQUAL "compiled_cuda")
    # The compiled library with CUDA, one method, as unoptimised PTX: checks that it links, and what it refuses without a
    # device.
    set(quick -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_FLAGS_RELEASE=-O0 -DCMAKE_CUDA_FLAGS_RELEASE=-O0
              "-DCMAKE_CUDA_FLAGS=-Xcicc -O0" -DCMAKE_CUDA_ARCHITECTURES=90-virtual)
    set(parts "")
    foreach(part IN ITEMS BUILD_TESTS BUILD_EXAMPLES BUILD_BENCH KOKKOS MPI)
        list(APPEND parts -DMULTIDRAFT_${part}=OFF)
    endforeach()
    run("${CMAKE_COMMAND}" -S "${SOURCE}" -B "${WORK}/build" -G "${GENERATOR}" "-DCMAKE_CXX_COMPILER=${COMPILER}" ${quick}
        ${parts} -DMULTIDRAFT_CUDA=ON -DMULTIDRAFT_BUILD_LIBRARY=ON -DMULTIDRAFT_LIBRARY_CUDA=ON
        -DMULTIDRAFT_LIBRARY_METHODS=traversal/iid)
    run("${CMAKE_COMMAND}" --build "${WORK}/build" --target multidraft_c)
    find_program(c_compiler NAMES cc gcc clang REQUIRED)
    run("${c_compiler}" -std=c11 "-I${SOURCE}/bindings/c/include" "${SOURCE}/tests/c/consumer.c" "-L${WORK}/build/bindings/c"
        -lmultidraft -lm "-Wl,-rpath,${WORK}/build/bindings/c" -o "${WORK}/consumer")
    run("${WORK}/consumer" cuda)
elseif(CASE STREQUAL "compiled_types")
    # The compiled library for logits of one type, and what it says of others.
    set(quick -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_FLAGS_RELEASE=-O0 -DMULTIDRAFT_LIBRARY_METHODS=traversal/iid)
    foreach(component IN ITEMS CUDA KOKKOS MPI BUILD_TESTS BUILD_EXAMPLES BUILD_BENCH)
        list(APPEND quick -DMULTIDRAFT_${component}=OFF)
    endforeach()
    set(configure "${CMAKE_COMMAND}" -S "${SOURCE}" -B "${WORK}/build" -G "${GENERATOR}" "-DCMAKE_CXX_COMPILER=${COMPILER}"
                  ${quick} -DMULTIDRAFT_BUILD_LIBRARY=ON)
    foreach(types IN ITEMS float16 float32,float64)
        refused("MULTIDRAFT_LIBRARY_TYPES" ${configure} -DMULTIDRAFT_LIBRARY_TYPES=${types})
    endforeach()
    run(${configure} -DMULTIDRAFT_LIBRARY_TYPES=float32)
    run("${CMAKE_COMMAND}" --build "${WORK}/build" --target multidraft_c)
    find_program(c_compiler NAMES cc gcc clang REQUIRED)
    run("${c_compiler}" -std=c11 "-I${SOURCE}/bindings/c/include" "${SOURCE}/tests/c/consumer.c" "-L${WORK}/build/bindings/c"
        -lmultidraft -lm "-Wl,-rpath,${WORK}/build/bindings/c" -o "${WORK}/consumer")
    run("${WORK}/consumer" float32)
elseif(CASE STREQUAL "vcpkg")
    foreach(manifest IN ITEMS vcpkg.json ports/multidraft/vcpkg.json)
        file(READ "${SOURCE}/${manifest}" text)
        string(JSON version GET "${text}" version)
        string(JSON name GET "${text}" name)
        if(NOT version STREQUAL VERSION OR NOT name STREQUAL "multidraft")
            message(FATAL_ERROR "${manifest}: ${name} ${version}, and this is multidraft ${VERSION}")
        endif()
    endforeach()
    run("${CMAKE_COMMAND}" "-DPORTFILE=${SOURCE}/ports/multidraft/portfile.cmake" "-DINSTALLED=${WORK}/installed"
        "-DBUILD=${WORK}/port" "-DCOMPILER=${COMPILER}" -P "${SOURCE}/tests/consumers/vcpkg/functions.cmake")
    set(configure "${CMAKE_COMMAND}" -S "${SOURCE}/tests/consumers/find_package" -G "${GENERATOR}"
                  "-DCMAKE_CXX_COMPILER=${COMPILER}" "-DCMAKE_PREFIX_PATH=${WORK}/installed"
                  -DCMAKE_FIND_USE_PACKAGE_REGISTRY=OFF)
    build_and_run(build "-DWANTED_VERSION=${minor_version}")

    # The feature library, with the linkage of the triplet.
    set(linkages "")
    if(LIBRARY)
        set(linkages dynamic static)
        use_built_objects()
    endif()
    foreach(linkage IN LISTS linkages)
        run("${CMAKE_COMMAND}" "-DPORTFILE=${SOURCE}/ports/multidraft/portfile.cmake"
            "-DINSTALLED=${WORK}/installed_${linkage}" "-DBUILD=${WORK}/port_library" "-DCOMPILER=${COMPILER}"
            -DFEATURES=library "-DVCPKG_LIBRARY_LINKAGE=${linkage}" -P "${SOURCE}/tests/consumers/vcpkg/functions.cmake")
        set(configure "${CMAKE_COMMAND}" -S "${SOURCE}/tests/consumers/vcpkg" -G "${GENERATOR}"
                      "-DCMAKE_CXX_COMPILER=${COMPILER}" "-DCMAKE_PREFIX_PATH=${WORK}/installed_${linkage}"
                      "-DEXAMPLE=${SOURCE}/test_package/example.c" -DCMAKE_FIND_USE_PACKAGE_REGISTRY=OFF)
        build_and_run(build_${linkage} "-DWANTED_VERSION=${minor_version}")
    endforeach()
elseif(CASE STREQUAL "conan")
    find_program(conan NAMES conan HINTS "${SOURCE}/build/tools/bin")
    if(NOT conan)
        message("consumers.conan: skipped, there is no conan")
        return()
    endif()
    # A separate home without remotes: nothing is downloaded.
    set(ENV{CONAN_HOME} "${WORK}/home")
    set(ENV{CXX} "${COMPILER}")
    run("${conan}" profile detect)
    # The test package is built here too, not in its source directory.
    set(create "${conan}" create "${SOURCE}" --build=missing --no-remote -c "tools.cmake.cmake_layout:test_folder=${WORK}/test")
    foreach(build_type IN ITEMS Release Debug)
        run(${create} -s compiler.cppstd=20 -s build_type=${build_type})
    endforeach()
    foreach(component IN ITEMS cuda kokkos mpi)
        if(component IN_LIST COMPONENTS)
            run(${create} -s compiler.cppstd=20 -o "multidraft/*:${component}=True")
        endif()
    endforeach()
    # All settings and options except the compiled library share one package.
    execute_process(COMMAND "${conan}" list "multidraft/${VERSION}:*" --format=json OUTPUT_VARIABLE listed
                    ERROR_QUIET COMMAND_ERROR_IS_FATAL ANY)
    string(REGEX MATCHALL "\"package_folder\"|\"info\":" packages "${listed}")
    list(LENGTH packages count)
    if(NOT count EQUAL 1)
        message(FATAL_ERROR "there should be one package:\n${listed}")
    endif()
    # The compiled library has its own.
    if(LIBRARY)
        use_built_objects()
        run(${create} -s compiler.cppstd=20 -s build_type=Debug -o "multidraft/*:library=True"
            -o "multidraft/*:methods=recursive_rejection/iid")
        refused("no method is named 'luck'" ${create} -s compiler.cppstd=20 -s build_type=Debug -o "multidraft/*:library=True"
                -o "multidraft/*:methods=luck")
    endif()
    refused("too old|C\\+\\+ standard|cppstd" ${create} -s compiler.cppstd=17)
    refused("not resolved|Unable to find" "${conan}" install "--requires=multidraft/[>=9]" --no-remote)
else()
    build_and_run(build "-DMULTIDRAFT_SOURCE=${SOURCE}")
endif()
