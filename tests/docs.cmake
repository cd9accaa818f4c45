# Builds the reference with docs/Doxyfile, and fails on a warning or if something public has no description. Run by
# ctest with cmake -P: DOXYGEN, SOURCE, WORK.
#
# Classes, concepts, functions, enumerations and other members of namespaces must be described. Exceptions are fields,
# constants and types of a class whose names explain them, and the following:

# Members required by a concept, which describes them.
set(of_concepts
    # distribution, row_source, has_runs and the other optional members (group/optional_members.hpp)
    size rows weight may_have_mass may_have_all_mass order order_limit in_chunk on_run is_empty_run may_be_nonzero is_dense elsewhere
    is_elsewhere with_sums prefetch scratch_bytes
    # group
    sum max argmax top_k sum_chunks softmax inverse_cdf update_chunk histogram histogram_pairs leader barrier counters
    histogram_total histogram_bin_reaching count_part nth sums_of_one sum_chunks_of top_k_of_logits
    # shards::communicator, and the groups of its ranks
    all_gather all_reduce start_all_to_all test wait
    # draw_source
    bernoulli categorical uniform
    # drafter
    check reset read depth_limit grow tree tokens positions mask keep
    # observes_features
    observe feature_size
    # cuda::lane_context
    thread rank ranks sync sync_all shuffle shuffle_xor ballot add at_rank mirror accumulators add_to)
# A row, a weight or a source of rows is called with an index, a sampler with a place for tokens.
set(calls_of_concepts "operator\\(\\)\\((index_t|token_id)( [a-z]+)?\\)" "operator\\(\\)\\(G const &[a-z]*, node_id"
                      "operator\\(\\)\\(.*span< token_id > out\\)")
# `span` is `std::span`; methods of the list say what they are by their `summary`.
set(classes_apart "multidraft::span" "multidraft::methods::[a-z_0-9]+")
cmake_minimum_required(VERSION 3.25)

list(JOIN of_concepts "|" members)
list(JOIN calls_of_concepts "|" calls)
list(JOIN classes_apart "|" apart)

# Runs doxygen with docs/Doxyfile and further settings.
function(run_doxygen further)
    file(READ "${SOURCE}/docs/Doxyfile" settings)
    file(WRITE "${WORK}/Doxyfile" "${settings}\nOUTPUT_DIRECTORY = \"${WORK}\"\n${further}")
    execute_process(COMMAND "${DOXYGEN}" "${WORK}/Doxyfile" WORKING_DIRECTORY "${SOURCE}" RESULT_VARIABLE result
                    OUTPUT_VARIABLE output ERROR_VARIABLE output)
    set(result "${result}" PARENT_SCOPE)
    set(output "${output}" PARENT_SCOPE)
endfunction()

# Whether a warning is about something that is described elsewhere.
function(is_described line result)
    set(${result} FALSE PARENT_SCOPE)
    # A base that doxygen does not find, by the arguments of its template: the template itself is looked at.
    if(line MATCHES "\\) of class [a-z_:]+< " AND NOT line MATCHES "\\) of class multidraft::")
        set(${result} TRUE PARENT_SCOPE)
    elseif(line MATCHES "\\((variable|typedef|friend|enumvalue)\\) of (class|struct) ")
        set(${result} TRUE PARENT_SCOPE)
    elseif(line MATCHES "Member (${members})\\(.*\\(function\\) of (class|struct) ")
        set(${result} TRUE PARENT_SCOPE)
    elseif(line MATCHES "Member (${calls}).*\\(function\\) of (class|struct) ")
        set(${result} TRUE PARENT_SCOPE)
    elseif(line MATCHES "(Compound|of class|of struct) (${apart}) is not documented")
        set(${result} TRUE PARENT_SCOPE)
    endif()
endfunction()

file(REMOVE_RECURSE "${WORK}")
file(MAKE_DIRECTORY "${WORK}")

# What is not described is said where not everything is made a page.
run_doxygen("EXTRACT_ALL = NO\nWARN_IF_UNDOCUMENTED = YES\nWARN_AS_ERROR = NO\n")
string(REPLACE ";" "," output "${output}")
string(REPLACE "\n" ";" lines "${output}")
set(missing "")
set(seen 0)
foreach(line IN LISTS lines)
    if(NOT line MATCHES "is not documented")
        continue()
    endif()
    math(EXPR seen "${seen} + 1")
    is_described("${line}" described)
    if(NOT described)
        string(APPEND missing "${line}\n")
    endif()
endforeach()
if(missing)
    message(FATAL_ERROR "public and not described:\n${missing}")
endif()
# There are always some that a concept describes: without them doxygen was not asked.
if(seen EQUAL 0)
    message(FATAL_ERROR "doxygen said nothing of what is not described:\n${output}")
endif()

# Everything as pages, with the documents: no warning, and no dead link.
execute_process(COMMAND "${PYTHON}" "${SOURCE}/tools/site" --doxygen "${DOXYGEN}" --out "${WORK}/site" RESULT_VARIABLE result
                OUTPUT_VARIABLE output ERROR_VARIABLE output)
if(NOT result EQUAL 0)
    message(FATAL_ERROR "${output}")
endif()
message(STATUS "${output}")
