# Builds and runs the project tests/consumers/<CASE> as a user would. Run by ctest with cmake -P.
#
# SOURCE and BINARY are those of multidraft, WORK is a directory that is emptied first; GENERATOR and COMPILER are the
# build's own; VERSION is multidraft's; COMPONENTS are those of its build, with commas.

cmake_minimum_required(VERSION 3.25)

function(run)
    execute_process(COMMAND ${ARGN} RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
    if(NOT result EQUAL 0)
        list(JOIN ARGN " " command)
        message(FATAL_ERROR "${command}\n${output}")
    endif()
endfunction()

# refused(<regex> <command>...): the command fails and says what the expression matches.
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
    # The tree is moved, so that no file in it can rely on where it was installed.
    file(RENAME "${WORK}/first" "${prefix}")
    list(APPEND configure "-DCMAKE_PREFIX_PATH=${prefix}" -DCMAKE_FIND_USE_PACKAGE_REGISTRY=OFF)

    # All headers are there, and nothing else is beside them.
    file(GLOB_RECURSE expected RELATIVE "${SOURCE}/include" "${SOURCE}/include/*")
    file(GLOB_RECURSE installed RELATIVE "${prefix}/include" "${prefix}/include/*")
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
else()
    build_and_run(build "-DMULTIDRAFT_SOURCE=${SOURCE}")
endif()
