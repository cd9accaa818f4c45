# Makes the reference with docs/Doxyfile and fails with a warning. Run by ctest with cmake -P: DOXYGEN, SOURCE, WORK.
cmake_minimum_required(VERSION 3.25)

file(READ "${SOURCE}/docs/Doxyfile" settings)
file(REMOVE_RECURSE "${WORK}")
file(MAKE_DIRECTORY "${WORK}")
file(WRITE "${WORK}/Doxyfile" "${settings}\nOUTPUT_DIRECTORY = \"${WORK}\"\n")
execute_process(COMMAND "${DOXYGEN}" "${WORK}/Doxyfile" WORKING_DIRECTORY "${SOURCE}" RESULT_VARIABLE result
                OUTPUT_VARIABLE output ERROR_VARIABLE output)
if(NOT result EQUAL 0 OR output MATCHES "(warning|error):")
    message(FATAL_ERROR "${output}")
endif()
if(NOT EXISTS "${WORK}/html/index.html")
    message(FATAL_ERROR "no page was written")
endif()
