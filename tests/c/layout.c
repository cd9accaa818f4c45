// The layout of structs in compiled programs. A struct may grow at its end. If a line here has to change, older
// programs no longer work with the library. Valid C11 and C++17.
#include <stddef.h>

#include "multidraft.h"

#ifdef __cplusplus
#define HOLDS(condition) static_assert(condition, #condition)
#else
#define HOLDS(condition) _Static_assert(condition, #condition)
#endif
#define AT(type, field, offset) HOLDS(offsetof(type, field) == (offset))
// No padding after the last field: a field added later must not be read from an older caller's padding.
#define ENDS(type, field, bytes) \
    HOLDS(sizeof(type) == (bytes) && offsetof(type, field) + sizeof(((type*)NULL)->field) == (bytes))

HOLDS(MD_OK == 0);
HOLDS(MD_INVALID_INPUT == 1);
HOLDS(MD_OUT_OF_MEMORY == 2);
HOLDS(MD_SYSTEM == 3);
HOLDS(MD_INTERNAL == 4);
HOLDS(MD_UNAVAILABLE == 5);

HOLDS(MD_ANY_SHAPE == 0);
HOLDS(MD_PAIRS == 1);
HOLDS(MD_FORKS == 2);
HOLDS(MD_CHAINS == 3);

HOLDS(MD_FLOAT32 == 1);
HOLDS(MD_FLOAT16 == 2);
HOLDS(MD_BFLOAT16 == 3);

HOLDS(MD_SUPPORT_ENDED == -2);
HOLDS(MD_PADDING == -3);

HOLDS(MD_LOGITS == 1);
HOLDS(MD_PROBABILITIES == 2);

// For machines with pointers of 8 bytes.
#if UINTPTR_MAX == 0xFFFFFFFFFFFFFFFF
AT(md_error, size, 0);
AT(md_error, status, 8);
AT(md_error, node, 12);
AT(md_error, index, 16);
AT(md_error, message, 24);
AT(md_error, argument, 32);
AT(md_error, value, 40);
AT(md_error, reason, 48);
ENDS(md_error, reason, 56);

AT(md_method_info, size, 0);
AT(md_method_info, name, 8);
AT(md_method_info, summary, 16);
AT(md_method_info, law, 24);
AT(md_method_info, shapes, 32);
AT(md_method_info, lossless, 36);
AT(md_method_info, reads_draft, 40);
AT(md_method_info, counts_certain, 44);
AT(md_method_info, drawn_by_text, 48);
AT(md_method_info, decides_by_node, 52);
AT(md_method_info, lists_may_be_shared, 56);
AT(md_method_info, children_may_be_left_out, 60);
ENDS(md_method_info, children_may_be_left_out, 64);

AT(md_sampling, temperature, 0);
AT(md_sampling, top_k, 4);
AT(md_sampling, top_p, 8);
AT(md_sampling, min_p, 12);
ENDS(md_sampling, min_p, 16);

AT(md_trees, size, 0);
AT(md_trees, requests, 8);
AT(md_trees, nodes, 16);
AT(md_trees, offsets, 24);
AT(md_trees, parents, 32);
AT(md_trees, tokens, 40);
AT(md_trees, certain, 48);
AT(md_trees, law, 56);
AT(md_trees, largest, 64);
ENDS(md_trees, largest, 72);

AT(md_adjustments, size, 0);
AT(md_adjustments, allowed, 8);
AT(md_adjustments, allowed_stride, 16);
AT(md_adjustments, allowed_of, 24);
AT(md_adjustments, bias_tokens, 32);
AT(md_adjustments, bias_values, 40);
AT(md_adjustments, bias_entries, 48);
AT(md_adjustments, bias_offsets, 56);
AT(md_adjustments, bias_count, 64);
AT(md_adjustments, bias_of, 72);
AT(md_adjustments, allowed_count, 80);
ENDS(md_adjustments, allowed_count, 88);

AT(md_rows, size, 0);
AT(md_rows, kind, 8);
AT(md_rows, dtype, 12);
AT(md_rows, data, 16);
AT(md_rows, row_stride, 24);
AT(md_rows, vocabulary, 32);
AT(md_rows, row_of, 40);
AT(md_rows, sampling, 48);
AT(md_rows, default_sampling, 56);
AT(md_rows, adjustments, 72);
ENDS(md_rows, adjustments, 80);

AT(md_requests, size, 0);
AT(md_requests, seeds, 8);
AT(md_requests, positions, 16);
AT(md_requests, ids, 24);
ENDS(md_requests, ids, 32);

AT(md_level, size, 0);
AT(md_level, entries, 8);
AT(md_level, requests, 16);
AT(md_level, nodes, 24);
AT(md_level, wanted, 32);
AT(md_level, depths, 40);
ENDS(md_level, depths, 48);

AT(md_children, size, 0);
AT(md_children, tokens, 8);
AT(md_children, first, 16);
AT(md_children, stride, 24);
AT(md_children, counts, 32);
AT(md_children, certain, 40);
AT(md_children, node_index, 48);
ENDS(md_children, node_index, 56);

AT(md_verdicts, size, 0);
AT(md_verdicts, path, 8);
AT(md_verdicts, path_stride, 16);
AT(md_verdicts, accepted, 24);
AT(md_verdicts, next, 32);
ENDS(md_verdicts, next, 40);

AT(md_axis, count, 0);
AT(md_axis, stride, 8);
ENDS(md_axis, stride, 16);

AT(md_cache, size, 0);
AT(md_cache, data, 8);
AT(md_cache, element_size, 16);
AT(md_cache, axes, 24);
AT(md_cache, axis_count, 32);
AT(md_cache, entries, 40);
AT(md_cache, entry_stride, 48);
AT(md_cache, entry_size, 56);
ENDS(md_cache, entry_size, 64);

AT(md_dense_masks, size, 0);
AT(md_dense_masks, data, 8);
AT(md_dense_masks, columns, 16);
AT(md_dense_masks, row_stride, 24);
AT(md_dense_masks, contexts, 32);
ENDS(md_dense_masks, contexts, 40);

AT(md_cuda_cache, size, 0);
AT(md_cuda_cache, data, 8);
AT(md_cuda_cache, request_stride, 16);
AT(md_cuda_cache, entry_stride, 24);
AT(md_cuda_cache, entry_bytes, 32);
AT(md_cuda_cache, axes, 40);
AT(md_cuda_cache, axis_count, 48);
AT(md_cuda_cache, pages, 56);
AT(md_cuda_cache, pages_stride, 64);
AT(md_cuda_cache, page_entries, 72);
AT(md_cuda_cache, page_stride, 80);
AT(md_cuda_cache, list, 88);
AT(md_cuda_cache, listed, 96);
AT(md_cuda_cache, list_alignment, 104);
ENDS(md_cuda_cache, list_alignment, 112);

AT(md_step_times, size, 0);
AT(md_step_times, target_rows, 8);
AT(md_step_times, target_seconds, 16);
AT(md_step_times, target_points, 24);
AT(md_step_times, draft_rows, 32);
AT(md_step_times, draft_seconds, 40);
AT(md_step_times, draft_points, 48);
AT(md_step_times, step, 56);
AT(md_step_times, inner, 64);
ENDS(md_step_times, inner, 72);

AT(md_controller_options, size, 0);
AT(md_controller_options, nodes, 8);
AT(md_controller_options, depth, 12);
AT(md_controller_options, children, 16);
AT(md_controller_options, explore_every, 20);
AT(md_controller_options, search_every, 24);
AT(md_controller_options, learns_times, 28);
AT(md_controller_options, memory, 32);
AT(md_controller_options, prior, 40);
AT(md_controller_options, slack, 48);
AT(md_controller_options, credit, 56);
ENDS(md_controller_options, credit, 64);

AT(md_estimation, size, 0);
AT(md_estimation, samples, 8);
AT(md_estimation, seed, 16);
ENDS(md_estimation, seed, 24);

AT(md_linear_program, size, 0);
AT(md_linear_program, columns, 8);
AT(md_linear_program, rows, 16);
AT(md_linear_program, entries, 24);
AT(md_linear_program, gain, 32);
AT(md_linear_program, bound, 40);
AT(md_linear_program, entry_rows, 48);
AT(md_linear_program, entry_columns, 56);
AT(md_linear_program, entry_values, 64);
ENDS(md_linear_program, entry_values, 72);

AT(md_step_request, size, 0);
AT(md_step_request, text, 8);
AT(md_step_request, text_size, 16);
AT(md_step_request, parents, 24);
AT(md_step_request, nodes, 32);
AT(md_step_request, id, 36);
AT(md_step_request, seed, 40);
AT(md_step_request, sampling, 48);
AT(md_step_request, draft_sampling, 64);
AT(md_step_request, in_target, 72);
AT(md_step_request, in_draft, 76);
ENDS(md_step_request, in_draft, 80);

AT(md_step_inputs, size, 0);
AT(md_step_inputs, count, 8);
AT(md_step_inputs, tokens, 16);
AT(md_step_inputs, positions, 24);
AT(md_step_inputs, requests, 32);
AT(md_step_inputs, entries, 40);
AT(md_step_inputs, offsets, 48);
AT(md_step_inputs, first_row, 56);
AT(md_step_inputs, scored, 64);
AT(md_step_inputs, scored_count, 72);
AT(md_step_inputs, mask_words, 80);
ENDS(md_step_inputs, mask_words, 88);

AT(md_step_result, size, 0);
AT(md_step_result, tokens, 8);
AT(md_step_result, token_count, 16);
AT(md_step_result, path, 24);
AT(md_step_result, accepted, 32);
AT(md_step_result, in_target, 40);
AT(md_step_result, in_draft, 44);
AT(md_step_result, target_context, 48);
AT(md_step_result, kept_in_target, 56);
AT(md_step_result, kept_in_target_count, 64);
AT(md_step_result, draft_context, 72);
AT(md_step_result, kept_in_draft, 80);
AT(md_step_result, kept_in_draft_count, 88);
ENDS(md_step_result, kept_in_draft_count, 96);

#endif

int main(void) { return 0; }
