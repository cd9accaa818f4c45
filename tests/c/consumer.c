// A program that uses multidraft.h alone, valid C11 and C++17: linked to the library, or with MULTIDRAFT_DLOPEN loading
// the file named by its argument with dlopen. With "cuda" as its last argument it tests the calls on streams
// only.
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "multidraft.h"

static int failures = 0;
#define CHECK(condition)                                                                                  \
    do {                                                                                                  \
        if (!(condition)) {                                                                               \
            fprintf(stderr, "%s:%d: %s (last error: %s)\n", __FILE__, __LINE__, #condition, last_text()); \
            ++failures;                                                                                   \
        }                                                                                                 \
    } while (0)

static char const* last_text(void);

#ifdef MULTIDRAFT_DLOPEN
#include <dlfcn.h>

static void* library = NULL;

// ISO C has no conversion from void* to a function pointer; POSIX requires one.
static void find_symbol(char const* name, void* function, size_t size) {
    void* const found = dlsym(library, name);
    if (found == NULL) {
        fprintf(stderr, "no symbol %s\n", name);
        exit(1);
    }
    memcpy(function, &found, size);
}

// clang-format off
#define EACH_FUNCTION(USE) \
    USE(md_last_error) USE(md_last_message) USE(md_version) USE(md_method_count) USE(md_method_name) \
    USE(md_find_method) USE(md_describe_method) USE(md_make_pool) USE(md_make_pool_over) USE(md_free_pool) \
    USE(md_draft) USE(md_verify_workspace_size) USE(md_verify) USE(md_validate) USE(md_distributions) \
    USE(md_parse_shape) USE(md_tree_depths) USE(md_level_order) USE(md_write_mask) USE(md_write_mask_bytes) \
    USE(md_write_mask_bias) USE(md_write_positions) USE(md_compact) USE(md_alpha_star) USE(md_acceptance) \
    USE(md_estimate_acceptance) USE(md_tree_limit) USE(md_block_efficiency) USE(md_improvement_factor) \
    USE(md_best_depth) USE(md_memory_bound_speed_up) USE(md_optimal_tree) USE(md_expected_accepted) \
    USE(md_make_controller) USE(md_free_controller) USE(md_start_text) USE(md_choose_tree) USE(md_learn_step) \
    USE(md_current_times) USE(md_make_step) USE(md_free_step) USE(md_start_step) USE(md_add_request) \
    USE(md_add_reading) USE(md_next_level) USE(md_draw_level) USE(md_target_inputs) USE(md_write_step_mask) \
    USE(md_verify_step) USE(md_finish_request) \
    USE(md_has_dtype) USE(md_has_cuda) USE(md_cuda_draft_workspace_size) USE(md_cuda_draft) USE(md_cuda_verify_workspace_size) \
    USE(md_cuda_verify) USE(md_cuda_validate_workspace_size) USE(md_cuda_validate) USE(md_cuda_write_masks) \
    USE(md_cuda_write_mask_bytes) USE(md_cuda_write_mask_bias) USE(md_cuda_write_positions) \
    USE(md_cuda_level_order_workspace_size) USE(md_cuda_level_order) USE(md_cuda_compact)
// clang-format on
#ifdef __cplusplus
#define TYPE_OF(name) decltype(&name)
#else
#define TYPE_OF(name) __typeof__(&(name))
#endif
#define DECLARE(name) static TYPE_OF(name) p_##name;
EACH_FUNCTION(DECLARE)
#define FIND(name) find_symbol(#name, &p_##name, sizeof p_##name);
static void open_library(char const* path) {
    library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        exit(1);
    }
    EACH_FUNCTION(FIND)
}
#define CALL(name) p_##name
#else
static void open_library(char const* path) { (void)path; }
#define CALL(name) name
#endif

static char const* last_text(void) { return CALL(md_last_message)(); }

static int fails_with(md_status status, char const* argument, char const* part_of_reason) {
    md_error error = MD_ERROR_INIT;
    if (status != MD_INVALID_INPUT || CALL(md_last_error)(&error) != status) return 0;
    if (strcmp(error.argument, argument) != 0 || strstr(error.reason, part_of_reason) == NULL ||
        strstr(error.message, error.argument) == NULL) {
        fprintf(stderr, "argument '%s', value '%s', reason '%s'\n", error.argument, error.value, error.reason);
        return 0;
    }
    return 1;
}

static uint32_t state = 1;
static uint32_t next_number(void) {
    state = state * 1664525U + 1013904223U;
    return state >> 8;
}

#define REQUESTS 3
#define VOCABULARY 50
#define MASK_WORDS 2
#define MASKS 4
#define CANDIDATES 20
#define MOST_NODES 64

// Numbers that float, half and bfloat16 represent exactly: multiples of 1/8 below 8.
static void fill_logits(float* out, int count) {
    for (int i = 0; i < count; ++i) out[i] = ((float)(next_number() % 128) - 64.0F) / 8.0F;
}

static uint16_t as_half(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    if (x == 0.0F) return 0;
    if (x < -1000.0F) return 0xFC00U;  // minus infinity
    uint32_t const exponent = ((bits >> 23) & 0xFFU) - 112U;
    return (uint16_t)(((bits >> 16) & 0x8000U) | (exponent << 10) | ((bits >> 13) & 0x3FFU));
}

static uint16_t as_bfloat16(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return (uint16_t)(bits >> 16);
}

static void convert(float const* from, int count, int32_t dtype, void* to) {
    for (int i = 0; i < count; ++i) {
        if (dtype == MD_FLOAT32)
            memcpy((float*)to + i, from + i, sizeof(float));
        else if (dtype == MD_FLOAT16)
            ((uint16_t*)to)[i] = as_half(from[i]);
        else
            ((uint16_t*)to)[i] = as_bfloat16(from[i]);
    }
}

// An engine's pool: its tasks run one after another, the last first.
static void run_backwards(void* engine, int32_t count, md_task task, void* call) {
    ++*(int*)engine;
    while (count > 0) task(call, --count);
}

struct batch {
    int32_t parents[REQUESTS * MOST_NODES];
    int32_t depths[REQUESTS * MOST_NODES];
    int32_t tokens[REQUESTS * MOST_NODES];
    int32_t certain[REQUESTS * MOST_NODES];
    int64_t offsets[REQUESTS + 1];
    uint64_t seeds[REQUESTS];
    int32_t positions[REQUESTS];
    md_sampling sampling[REQUESTS];
    float target[REQUESTS * MOST_NODES * VOCABULARY];
    float draft[REQUESTS * MOST_NODES * VOCABULARY];
    float converted[2][REQUESTS * MOST_NODES * VOCABULARY];
    // Masks of both models and biases of the target, if `adjusted`.
    int adjusted;
    uint32_t masks[MASKS * MASK_WORDS];
    int64_t mask_of[REQUESTS * MOST_NODES];
    int64_t bias_of[REQUESTS * MOST_NODES];
    int64_t of_entry[REQUESTS * MOST_NODES];
    md_adjustments adjustments[2];
    // The tokens of the draft's rows that have mass, and whether they are given as candidates.
    int few;
    int32_t candidates[REQUESTS * MOST_NODES * CANDIDATES];
};

struct outcome {
    int32_t tokens[REQUESTS * MOST_NODES];
    int32_t path[REQUESTS * MOST_NODES];
    int32_t accepted[REQUESTS];
    int32_t next[REQUESTS];
};

static void make_batch(struct batch* b, char const* const* shapes) {
    b->offsets[0] = 0;
    for (int r = 0; r < REQUESTS; ++r) {
        int64_t nodes = 0;
        CHECK(CALL(md_parse_shape)(shapes[r], b->parents + b->offsets[r], MOST_NODES, &nodes) == MD_OK);
        CHECK(CALL(md_tree_depths)(b->parents + b->offsets[r], nodes, b->depths + b->offsets[r]) == MD_OK);
        b->offsets[r + 1] = b->offsets[r] + nodes;
        b->seeds[r] = 7U + (uint64_t)r;
        b->positions[r] = 11 * r;
        md_sampling const sampling = {r == 1 ? 0.8F : 1.0F, r == 2 ? 20 : 0, 1.0F, 0.0F};
        b->sampling[r] = sampling;
    }
    fill_logits(b->target, (int)b->offsets[REQUESTS] * VOCABULARY);
    fill_logits(b->draft, (int)b->offsets[REQUESTS] * VOCABULARY);
}

// Bias r has entries first_entry[r] to first_entry[r + 1]. Multiples of 1/8, so that sums are exact in all types.
static int32_t const biased[5] = {0, 7, 33, 7, 49};
static float const added[5] = {1.5F, -2.0F, 4.125F, 3.0F, -1.0F};
static int64_t const first_entry[3] = {0, 3, 5};

static void make_adjustments(struct batch* b) {
    for (int m = 0; m < MASKS * MASK_WORDS; ++m) b->masks[m] = 0;
    for (int m = 0; m < MASKS; ++m)
        for (int x = 0; x < VOCABULARY; ++x)
            if (x % MASKS == m || next_number() % 3 == 0) b->masks[m * MASK_WORDS + x / 32] |= (uint32_t)1 << (x % 32);
    for (int i = 0; i < REQUESTS * MOST_NODES; ++i) {
        b->mask_of[i] = i % 5 == 4 ? -1 : i % MASKS;
        b->bias_of[i] = i % 3 - 1;
    }
    for (int which = 0; which < 2; ++which) {
        md_adjustments const empty = MD_ADJUSTMENTS_INIT;
        md_adjustments* const a = &b->adjustments[which];
        *a = empty;
        a->allowed = b->masks;
        a->allowed_stride = MASK_WORDS;
        a->allowed_count = MASKS;
        a->allowed_of = b->mask_of;
        if (which == 1) continue;
        a->bias_tokens = biased;
        a->bias_values = added;
        a->bias_entries = 5;
        a->bias_offsets = first_entry;
        a->bias_count = 2;
        a->bias_of = b->bias_of;
    }
}

// Changes the rows as an engine without masks and biases would.
static void change_rows(struct batch* b) {
    for (int64_t i = 0; i < b->offsets[REQUESTS]; ++i) {
        float* const p = b->target + i * VOCABULARY;
        float* const q = b->draft + i * VOCABULARY;
        if (b->bias_of[i] >= 0)
            for (int64_t k = first_entry[b->bias_of[i]]; k < first_entry[b->bias_of[i] + 1]; ++k)
                p[biased[k]] += added[k];
        if (b->mask_of[i] < 0) continue;
        for (int x = 0; x < VOCABULARY; ++x)
            if (((b->masks[b->mask_of[i] * MASK_WORDS + x / 32] >> (x % 32)) & 1U) == 0) p[x] = q[x] = -INFINITY;
    }
}

// Leaves CANDIDATES tokens of each of the draft's rows.
static void keep_candidates(struct batch* b) {
    for (int i = 0; i < (int)b->offsets[REQUESTS]; ++i) {
        int32_t* kept = b->candidates + i * CANDIDATES;
        for (int x = 0; x < VOCABULARY; ++x) {
            if ((x + i) % 5 < 2)
                *kept++ = x;
            else
                b->draft[i * VOCABULARY + x] = -INFINITY;
        }
        CHECK(kept == b->candidates + (i + 1) * CANDIDATES);
    }
}

static md_rows candidates_of(struct batch const* b) {
    float* const logits = (float*)b->converted[1];
    int32_t const entries = (int32_t)b->offsets[REQUESTS] * CANDIDATES;
    for (int32_t e = 0; e < entries; ++e) logits[e] = b->draft[e / CANDIDATES * VOCABULARY + b->candidates[e]];
    md_rows rows = MD_ROWS_INIT;
    rows.data = logits;
    rows.vocabulary = VOCABULARY;
    rows.sampling = b->sampling;
    rows.candidates = b->candidates;
    rows.candidate_count = CANDIDATES;
    return rows;
}

static md_rows rows_of(struct batch const* b, float const* matrix, int32_t dtype, int which) {
    if (b->few && which == 1) return candidates_of(b);
    md_rows rows = MD_ROWS_INIT;
    if (b->adjusted) rows.adjustments = &b->adjustments[which];
    convert(matrix, (int)b->offsets[REQUESTS] * VOCABULARY, dtype, (void*)b->converted[which]);
    rows.dtype = dtype;
    rows.data = b->converted[which];
    rows.row_stride = VOCABULARY;
    rows.vocabulary = VOCABULARY;
    rows.sampling = b->sampling;
    return rows;
}

static md_requests requests_of(struct batch const* b) {
    md_requests requests = MD_REQUESTS_INIT;
    requests.seeds = b->seeds;
    requests.positions = b->positions;
    return requests;
}

// Draws the trees level by level.
static void draw(struct batch* b, md_method const* method, md_pool* pool, int32_t dtype) {
    for (int32_t depth = 0;; ++depth) {
        int32_t request[MOST_NODES * REQUESTS], node[MOST_NODES * REQUESTS], wanted[MOST_NODES * REQUESTS],
            depths[MOST_NODES * REQUESTS];
        int64_t first[MOST_NODES * REQUESTS], index[MOST_NODES * REQUESTS];
        int32_t entries = 0;
        for (int32_t r = 0; r < REQUESTS; ++r)
            for (int64_t i = b->offsets[r]; i < b->offsets[r + 1]; ++i) {
                int32_t const v = (int32_t)(i - b->offsets[r]);
                if (b->depths[i] != depth) continue;
                int64_t begin = i;
                while (begin < b->offsets[r + 1] && b->parents[begin] != v) ++begin;
                int64_t end = begin;
                while (end < b->offsets[r + 1] && b->parents[end] == v) ++end;
                if (begin == end) continue;
                request[entries] = r;
                node[entries] = v;
                wanted[entries] = (int32_t)(end - begin);
                depths[entries] = depth;
                first[entries] = begin;
                index[entries++] = i;
            }
        if (entries == 0) return;
        md_level level = MD_LEVEL_INIT;
        level.entries = entries;
        level.requests = request;
        level.nodes = node;
        level.wanted = wanted;
        level.depths = depths;
        md_children children = MD_CHILDREN_INIT;
        children.tokens = b->tokens;
        children.first = first;
        children.certain = b->certain;
        children.node_index = index;
        md_rows rows = rows_of(b, b->draft, dtype, 1);
        rows.row_of = index;
        md_adjustments of_level = b->adjustments[1];
        for (int32_t e = 0; e < entries; ++e) b->of_entry[e] = b->mask_of[index[e]];
        of_level.allowed_of = b->of_entry;
        if (b->adjusted) rows.adjustments = &of_level;
        md_requests const requests = requests_of(b);
        CHECK(CALL(md_draft)(method, pool, &level, &rows, &requests, &children) == MD_OK);
    }
}

static md_trees trees_of(struct batch const* b, char const* law) {
    md_trees trees = MD_TREES_INIT;
    trees.requests = REQUESTS;
    trees.nodes = b->offsets[REQUESTS];
    trees.offsets = b->offsets;
    trees.parents = b->parents;
    trees.tokens = b->tokens;
    trees.certain = b->certain;
    trees.law = law;
    return trees;
}

static void decide(struct batch* b, md_method const* method, md_pool* pool, int32_t dtype, int own_workspace,
                   struct outcome* out) {
    md_method_info info = MD_METHOD_INFO_INIT;
    CHECK(CALL(md_describe_method)(method, &info) == MD_OK);
    memset(b->tokens, 0, sizeof b->tokens);
    memset(b->certain, 0, sizeof b->certain);
    memset(out, 0, sizeof *out);
    draw(b, method, pool, dtype);
    memcpy(out->tokens, b->tokens, sizeof out->tokens);
    md_rows const target = rows_of(b, b->target, dtype, 0);
    md_rows const draft = rows_of(b, b->draft, dtype, 1);
    md_trees const trees = trees_of(b, info.law);
    md_requests const requests = requests_of(b);
    md_verdicts verdicts = MD_VERDICTS_INIT;
    verdicts.path = out->path;
    verdicts.accepted = out->accepted;
    verdicts.next = out->next;
    void* workspace = NULL;
    size_t bytes = 0;
    if (own_workspace) {
        CHECK(CALL(md_verify_workspace_size)(method, pool, REQUESTS, MOST_NODES, 8, &bytes) == MD_OK);
        workspace = aligned_alloc(16, bytes == 0 ? 16 : bytes);
    }
    CHECK(CALL(md_validate)(method, pool, &trees, &target, &draft, &requests) == MD_OK);
    CHECK(CALL(md_verify)(method, pool, &trees, &target, info.reads_draft ? &draft : NULL, &requests, &verdicts,
                          workspace, bytes) == MD_OK);
    free(workspace);
    for (int r = 0; r < REQUESTS; ++r) {
        CHECK(out->next[r] >= 0 && out->next[r] < VOCABULARY);
        int32_t above = 0;
        for (int k = 0; k < out->accepted[r]; ++k) {
            int32_t const v = out->path[b->offsets[r] + k];
            CHECK(b->parents[b->offsets[r] + v] == above);
            above = v;
        }
    }
}

static struct batch the_batch;

static void test_methods(void) {
    static char const* const any[REQUESTS] = {"3x2", "[[0], [1], [0, 0]]", "2x1x2"};
    static char const* const pairs[REQUESTS] = {"2x2", "chain:2", "2x1x1"};
    static char const* const forks[REQUESTS] = {"fork:3x2", "fork:2x4", "fork:1x3"};
    static char const* const chains[REQUESTS] = {"chain:3", "0", "chain:5"};
    char const* const* const shapes[] = {any, pairs, forks, chains};
    md_pool* pool = NULL;
    md_pool* engines = NULL;
    int calls = 0;
    CHECK(CALL(md_make_pool)(3, &pool) == MD_OK);
    CHECK(CALL(md_make_pool_over)(2, &run_backwards, &calls, &engines) == MD_OK);
    CHECK(CALL(md_method_count)() >= 22);
    CHECK(CALL(md_method_name)(-1) == NULL && CALL(md_method_name)(CALL(md_method_count)()) == NULL);
    for (int32_t k = 0; k < CALL(md_method_count)(); ++k) {
        md_method const* method = NULL;
        md_method_info info = MD_METHOD_INFO_INIT;
        CHECK(CALL(md_find_method)(CALL(md_method_name)(k), &method) == MD_OK);
        CHECK(CALL(md_describe_method)(method, &info) == MD_OK);
        CHECK(strcmp(info.name, CALL(md_method_name)(k)) == 0 && info.lossless == 1);
        make_batch(&the_batch, shapes[info.shapes]);
        struct outcome first, other;
        decide(&the_batch, method, NULL, MD_FLOAT32, 0, &first);
        md_pool* const pools[] = {NULL, pool, engines};
        for (int p = 0; p < 3; ++p)
            for (int32_t dtype = MD_FLOAT32; dtype <= MD_BFLOAT16; ++dtype) {
                decide(&the_batch, method, pools[p], dtype, p != 1, &other);
                if (memcmp(&first, &other, sizeof first) != 0) fprintf(stderr, "%s, type %d\n", info.name, (int)dtype);
                CHECK(memcmp(&first, &other, sizeof first) == 0);
            }
    }
    CHECK(calls > 0);
    CALL(md_free_pool)(pool);
    CALL(md_free_pool)(engines);
    CALL(md_free_pool)(NULL);
}

// A draft's rows of a few candidates give the decisions of rows whose other tokens have minus infinity, beside a target
// of any type, with masks and biases or without.
static void test_candidates(void) {
    static char const* const any[REQUESTS] = {"3x2", "[[0], [1], [0, 0]]", "2x1x2"};
    static char const* const pairs[REQUESTS] = {"2x2", "chain:2", "2x1x1"};
    static char const* const forks[REQUESTS] = {"fork:3x2", "fork:2x4", "fork:1x3"};
    static char const* const chains[REQUESTS] = {"chain:3", "0", "chain:5"};
    char const* const* const shapes[] = {any, pairs, forks, chains};
    struct batch* const b = &the_batch;
    for (int32_t k = 0; k < CALL(md_method_count)(); ++k) {
        md_method const* method = NULL;
        md_method_info info = MD_METHOD_INFO_INIT;
        CHECK(CALL(md_find_method)(CALL(md_method_name)(k), &method) == MD_OK);
        CHECK(CALL(md_describe_method)(method, &info) == MD_OK);
        make_batch(b, shapes[info.shapes]);
        keep_candidates(b);
        struct outcome whole, few;
        decide(b, method, NULL, MD_FLOAT32, 0, &whole);
        b->few = 1;
        for (int32_t dtype = MD_FLOAT32; dtype <= MD_BFLOAT16; ++dtype) {
            decide(b, method, NULL, dtype, 1, &few);
            if (memcmp(&whole, &few, sizeof whole) != 0) fprintf(stderr, "%s, candidates\n", info.name);
            CHECK(memcmp(&whole, &few, sizeof whole) == 0);
        }
        b->few = 0;
    }

    md_method const* method = NULL;
    CHECK(CALL(md_find_method)("ranked/stratified", &method) == MD_OK);
    make_batch(b, any);
    keep_candidates(b);
    make_adjustments(b);
    struct outcome out;
    b->few = 1;
    decide(b, method, NULL, MD_FLOAT32, 0, &out);
    md_trees const trees = trees_of(b, "stratified");
    md_requests const requests = requests_of(b);
    md_verdicts verdicts = MD_VERDICTS_INIT;
    verdicts.path = out.path;
    verdicts.accepted = out.accepted;
    verdicts.next = out.next;
    // A target's mask: tokens that it forbids are not emitted, whatever the candidates are.
    md_rows target = rows_of(b, b->target, MD_FLOAT32, 0);
    target.adjustments = &b->adjustments[0];
    md_rows draft = candidates_of(b);
    CHECK(CALL(md_verify)(method, NULL, &trees, &target, &draft, &requests, &verdicts, NULL, 0) == MD_OK);
    for (int r = 0; r < REQUESTS; ++r) {
        int64_t const last = out.accepted[r] == 0 ? 0 : out.path[b->offsets[r] + out.accepted[r] - 1];
        int64_t const mask = b->mask_of[b->offsets[r] + last];
        CHECK(out.next[r] >= 0);
        if (mask >= 0) CHECK((b->masks[mask * MASK_WORDS + out.next[r] / 32] >> (out.next[r] % 32) & 1U) == 1);
    }
    CHECK(CALL(md_validate)(method, NULL, &trees, &target, &draft, &requests) == MD_OK);

    // What is refused.
    draft.adjustments = &b->adjustments[1];
    CHECK(fails_with(CALL(md_verify)(method, NULL, &trees, &target, &draft, &requests, &verdicts, NULL, 0),
                     "draft.adjustments", "leave out"));
    draft.adjustments = NULL;
    draft.dtype = MD_FLOAT16;
    CHECK(fails_with(CALL(md_verify)(method, NULL, &trees, &target, &draft, &requests, &verdicts, NULL, 0),
                     "draft.dtype", "MD_FLOAT32"));
    draft.dtype = MD_FLOAT32;
    draft.candidate_count = VOCABULARY + 1;
    CHECK(fails_with(CALL(md_verify)(method, NULL, &trees, &target, &draft, &requests, &verdicts, NULL, 0),
                     "draft.candidate_count", "no more than its 50"));
    draft.candidate_count = CANDIDATES;
    draft.row_stride = CANDIDATES - 1;
    CHECK(fails_with(CALL(md_verify)(method, NULL, &trees, &target, &draft, &requests, &verdicts, NULL, 0),
                     "draft.row_stride", "20"));
    draft.row_stride = 0;
    b->candidates[1] = b->candidates[0];
    CHECK(fails_with(CALL(md_verify)(method, NULL, &trees, &target, &draft, &requests, &verdicts, NULL, 0),
                     "draft.candidates", "rise"));
    CHECK(fails_with(CALL(md_distributions)(&draft, 1, b->target), "rows.candidates", "draft's"));
    CHECK(fails_with(CALL(md_verify)(method, NULL, &trees, &draft, &draft, &requests, &verdicts, NULL, 0),
                     "target.candidates", "draft's"));
    int32_t const zero = 0;
    md_level level = MD_LEVEL_INIT;
    level.entries = 1;
    level.requests = level.nodes = &zero;
    md_children children = MD_CHILDREN_INIT;
    children.tokens = out.tokens;
    children.certain = out.accepted;
    children.stride = 2;
    CHECK(fails_with(CALL(md_draft)(method, NULL, &level, &draft, &requests, &children), "rows.candidates", "rise"));
    draft.candidate_count = 0;
    CHECK(fails_with(CALL(md_draft)(method, NULL, &level, &draft, &requests, &children), "rows.candidate_count",
                     "1 candidate or more"));
    // The structs of older callers end before the candidates.
    draft.size = offsetof(md_rows, candidates);
    draft.data = b->target;
    CHECK(CALL(md_draft)(method, NULL, &level, &draft, &requests, &children) == MD_OK);
    b->few = 0;
}

// Masks and biases give the decisions of rows that were changed beforehand.
static void test_adjustments(void) {
    static char const* const any[REQUESTS] = {"3x2", "[[0], [1], [0, 0]]", "2x1x2"};
    static char const* const pairs[REQUESTS] = {"2x2", "chain:2", "2x1x1"};
    static char const* const forks[REQUESTS] = {"fork:3x2", "fork:2x4", "fork:1x3"};
    static char const* const chains[REQUESTS] = {"chain:3", "0", "chain:5"};
    char const* const* const shapes[] = {any, pairs, forks, chains};
    static struct batch changed;
    md_pool* pool = NULL;
    CHECK(CALL(md_make_pool)(2, &pool) == MD_OK);
    for (int32_t k = 0; k < CALL(md_method_count)(); ++k) {
        md_method const* method = NULL;
        md_method_info info = MD_METHOD_INFO_INIT;
        CHECK(CALL(md_find_method)(CALL(md_method_name)(k), &method) == MD_OK);
        CHECK(CALL(md_describe_method)(method, &info) == MD_OK);
        make_batch(&the_batch, shapes[info.shapes]);
        make_adjustments(&the_batch);
        the_batch.adjusted = 0;
        changed = the_batch;
        change_rows(&changed);
        for (int32_t dtype = MD_FLOAT32; dtype <= MD_BFLOAT16; ++dtype) {
            struct outcome expected, found;
            the_batch.adjusted = 1;
            decide(&the_batch, method, dtype == MD_FLOAT16 ? pool : NULL, dtype, 0, &found);
            the_batch.adjusted = 0;
            decide(&changed, method, NULL, dtype, 0, &expected);
            if (memcmp(&expected, &found, sizeof found) != 0) fprintf(stderr, "%s, type %d\n", info.name, (int)dtype);
            CHECK(memcmp(&expected, &found, sizeof found) == 0);
        }
    }
    CALL(md_free_pool)(pool);

    md_method const* method = NULL;
    CHECK(CALL(md_find_method)("recursive_rejection/sequential", &method) == MD_OK);
    make_batch(&the_batch, any);
    make_adjustments(&the_batch);
    struct outcome out;
    decide(&the_batch, method, NULL, MD_FLOAT32, 0, &out);
    int64_t const nodes = the_batch.offsets[REQUESTS];
    md_adjustments a = the_batch.adjustments[0];
    md_rows target = rows_of(&the_batch, the_batch.target, MD_FLOAT32, 0);
    md_rows const draft = rows_of(&the_batch, the_batch.draft, MD_FLOAT32, 1);
    target.adjustments = &a;
    md_trees const trees = trees_of(&the_batch, "sequential");
    md_requests const requests = requests_of(&the_batch);
    md_verdicts verdicts = MD_VERDICTS_INIT;
    verdicts.path = out.path;
    verdicts.accepted = out.accepted;
    verdicts.next = out.next;

    // The distributions of the rows are 0 where the mask forbids.
    static float p[REQUESTS * MOST_NODES * VOCABULARY];
    md_sampling const* const sampling = target.sampling;
    target.sampling = NULL;
    CHECK(CALL(md_distributions)(&target, nodes, p) == MD_OK);
    target.sampling = sampling;
    for (int64_t i = 0; i < nodes; ++i)
        for (int x = 0; x < VOCABULARY; ++x) {
            int64_t const m = the_batch.mask_of[i];
            int const allowed = m < 0 || ((the_batch.masks[m * MASK_WORDS + x / 32] >> (x % 32)) & 1U) != 0;
            CHECK((p[i * VOCABULARY + x] > 0) <= allowed);
        }

    // One mask for all nodes; a mask that forbids all tokens affects its requests only.
    uint32_t const nothing[MASK_WORDS] = {0, 0};
    md_adjustments const whole = a;
    a.allowed = nothing;
    a.allowed_stride = 0;
    a.allowed_count = 1;
    for (int64_t i = 0; i < nodes; ++i) the_batch.mask_of[i] = i < the_batch.offsets[1] ? 0 : -1;
    CHECK(CALL(md_verify)(method, NULL, &trees, &target, &draft, &requests, &verdicts, NULL, 0) == MD_OK);
    CHECK(out.next[0] == -1 && out.accepted[0] == 0 && out.next[1] >= 0 && out.next[2] >= 0);
    CHECK(fails_with(CALL(md_validate)(method, NULL, &trees, &target, &draft, &requests), "target",
                     "not a distribution"));
    for (int64_t i = 0; i < nodes; ++i) the_batch.mask_of[i] = i < nodes - 1 ? -1 : 0;
    p[0] = -7;  // a refused call writes no row
    CHECK(CALL(md_distributions)(&target, nodes, p) == MD_INVALID_INPUT && p[0] == -7);

    // Invalid masks and biases.
    a.allowed = the_batch.masks;
    a.allowed_stride = 1;
    CHECK(fails_with(CALL(md_verify)(method, NULL, &trees, &target, &draft, &requests, &verdicts, NULL, 0),
                     "target.adjustments.allowed_stride", "bit a token"));
    a = whole;
    a.allowed_count = 0;
    CHECK(fails_with(CALL(md_verify)(method, NULL, &trees, &target, &draft, &requests, &verdicts, NULL, 0),
                     "target.adjustments.allowed_count", "number of masks"));
    // An older caller, who knows no count: one mask if the stride is 0.
    a.size = offsetof(md_adjustments, allowed_count);
    CHECK(CALL(md_verify)(method, NULL, &trees, &target, &draft, &requests, &verdicts, NULL, 0) == MD_OK);
    a.allowed = nothing;
    a.allowed_stride = 0;
    CHECK(CALL(md_verify)(method, NULL, &trees, &target, &draft, &requests, &verdicts, NULL, 0) == MD_OK);
    a = whole;
    a.size = 4;
    CHECK(fails_with(CALL(md_verify)(method, NULL, &trees, &target, &draft, &requests, &verdicts, NULL, 0),
                     "target.adjustments.size", "sizeof"));
    a = whole;
    a.bias_values = NULL;
    CHECK(fails_with(CALL(md_verify)(method, NULL, &trees, &target, &draft, &requests, &verdicts, NULL, 0),
                     "target.adjustments.bias_values", "read"));
    a = whole;
    int32_t const falling[5] = {0, 7, 33, 49, 7};
    a.bias_tokens = falling;
    CHECK(fails_with(CALL(md_verify)(method, NULL, &trees, &target, &draft, &requests, &verdicts, NULL, 0),
                     "target.bias", "rise"));
    CHECK(fails_with(CALL(md_distributions)(&target, nodes, p), "rows.bias", "rise"));
    a = whole;
    a.bias_count = 1;
    CHECK(fails_with(CALL(md_validate)(method, NULL, &trees, &target, &draft, &requests), "target.bias", "there are"));
    a = whole;
    target.kind = MD_PROBABILITIES;
    CHECK(fails_with(CALL(md_distributions)(&target, nodes, p), "rows.adjustments", "logits"));

    // The structs of older callers end before the adjustments.
    target.kind = MD_LOGITS;
    target.adjustments = NULL;
    CHECK(CALL(md_verify)(method, NULL, &trees, &target, &draft, &requests, &verdicts, NULL, 0) == MD_OK);
    int32_t const expected = out.next[0];
    target.adjustments = (md_adjustments const*)p;
    target.size = offsetof(md_rows, adjustments);
    CHECK(CALL(md_verify)(method, NULL, &trees, &target, &draft, &requests, &verdicts, NULL, 0) == MD_OK);
    CHECK(out.next[0] == expected);
    target.size -= 4;
    CHECK(fails_with(CALL(md_verify)(method, NULL, &trees, &target, &draft, &requests, &verdicts, NULL, 0),
                     "target.size", "sizeof"));
}

static void test_probabilities(void) {
    static char const* const shapes[REQUESTS] = {"3x2", "2x2", "0"};
    md_method const* method = NULL;
    CHECK(CALL(md_find_method)("traversal/sequential", &method) == MD_OK);
    struct outcome out;
    make_batch(&the_batch, shapes);
    decide(&the_batch, method, NULL, MD_FLOAT32, 0, &out);

    int64_t const nodes = the_batch.offsets[REQUESTS];
    static float p[REQUESTS * MOST_NODES * VOCABULARY], q[REQUESTS * MOST_NODES * VOCABULARY];
    md_rows target = rows_of(&the_batch, the_batch.target, MD_FLOAT32, 0);
    md_rows draft = rows_of(&the_batch, the_batch.draft, MD_FLOAT32, 1);
    target.sampling = NULL;
    draft.sampling = NULL;
    CHECK(CALL(md_distributions)(&target, nodes, p) == MD_OK);
    CHECK(CALL(md_distributions)(&draft, nodes, q) == MD_OK);
    double sum = 0;
    for (int i = 0; i < VOCABULARY; ++i) sum += (double)p[i];
    CHECK(fabs(sum - 1) < 1e-5);
    target.kind = draft.kind = MD_PROBABILITIES;
    target.data = p;
    draft.data = q;
    md_trees trees = trees_of(&the_batch, "sequential");
    md_requests const requests = requests_of(&the_batch);
    md_verdicts verdicts = MD_VERDICTS_INIT;
    verdicts.path = out.path;
    verdicts.path_stride = 4;
    verdicts.accepted = out.accepted;
    verdicts.next = out.next;
    CHECK(CALL(md_verify)(method, NULL, &trees, &target, &draft, &requests, &verdicts, NULL, 0) == MD_OK);
    CHECK(out.next[0] >= 0 && out.next[1] >= 0 && out.next[2] >= 0);

    // A row that is not a distribution affects one request; md_validate reports it.
    p[0] = -1.0F;
    CHECK(CALL(md_verify)(method, NULL, &trees, &target, &draft, &requests, &verdicts, NULL, 0) == MD_OK);
    CHECK(out.next[1] >= 0 && out.next[2] >= 0);
    CHECK(fails_with(CALL(md_validate)(method, NULL, &trees, &target, &draft, &requests), "target",
                     "not a distribution"));
    md_error of_row = MD_ERROR_INIT;
    CHECK(CALL(md_last_error)(&of_row) == MD_INVALID_INPUT && of_row.node == 0);
    CHECK(fails_with(CALL(md_validate)(method, NULL, &trees, &target, NULL, &requests), "draft",
                     "reads the draft's rows"));

    // Another law, and other refused arguments.
    trees.law = "iid";
    md_status const other_law = CALL(md_verify)(method, NULL, &trees, &target, &draft, &requests, &verdicts, NULL, 0);
    CHECK(fails_with(other_law, "trees.law", "traversal/iid"));
    trees.law = "sequential";
    CHECK(fails_with(CALL(md_verify)(method, NULL, &trees, &target, NULL, &requests, &verdicts, NULL, 0), "draft",
                     "reads"));
    CHECK(
        fails_with(CALL(md_verify)(method, NULL, NULL, &target, NULL, &requests, &verdicts, NULL, 0), "trees", "read"));
    trees.size = 3;
    CHECK(fails_with(CALL(md_verify)(method, NULL, &trees, &target, &draft, &requests, &verdicts, NULL, 0),
                     "trees.size", "sizeof"));
    trees.size = sizeof trees;
    target.kind = 9;
    draft.kind = 9;
    CHECK(fails_with(CALL(md_verify)(method, NULL, &trees, &target, &draft, &requests, &verdicts, NULL, 0),
                     "target.kind", "MD_LOGITS"));
    target.kind = draft.kind = MD_LOGITS;
    target.dtype = draft.dtype = 77;
    CHECK(fails_with(CALL(md_verify)(method, NULL, &trees, &target, &draft, &requests, &verdicts, NULL, 0),
                     "target.dtype", "MD_FLOAT16"));
    target.dtype = MD_FLOAT32;
    draft.dtype = MD_FLOAT16;
    CHECK(fails_with(CALL(md_verify)(method, NULL, &trees, &target, &draft, &requests, &verdicts, NULL, 0),
                     "draft.dtype", "one type"));
    target.dtype = draft.dtype = MD_FLOAT32;
    target.row_stride = VOCABULARY - 1;
    CHECK(fails_with(CALL(md_verify)(method, NULL, &trees, &target, &draft, &requests, &verdicts, NULL, 0),
                     "target.row_stride", "overlap"));
    target.row_stride = 0;  // rows without a gap
    CHECK(CALL(md_verify)(method, NULL, &trees, &target, &draft, &requests, &verdicts, NULL, 0) == MD_OK);
    int32_t const child = the_batch.tokens[3];
    the_batch.tokens[3] = -1;
    CHECK(fails_with(CALL(md_verify)(method, NULL, &trees, &target, &draft, &requests, &verdicts, NULL, 0),
                     "trees.tokens", "never left out"));
    the_batch.tokens[3] = MD_PADDING;
    CHECK(CALL(md_verify)(method, NULL, &trees, &target, &draft, &requests, &verdicts, NULL, 0) == MD_OK);
    the_batch.tokens[3] = child;
    uint64_t const equal_seeds[REQUESTS] = {7, 8, 7};
    int32_t const equal_positions[REQUESTS] = {4, 4, 4};
    uint32_t const ids[REQUESTS] = {0, 1, 2};
    md_requests equal = requests;
    equal.seeds = equal_seeds;
    equal.positions = equal_positions;
    CHECK(fails_with(CALL(md_verify)(method, NULL, &trees, &target, &draft, &equal, &verdicts, NULL, 0),
                     "requests.seeds", "same draws"));
    equal.ids = ids;
    CHECK(CALL(md_verify)(method, NULL, &trees, &target, &draft, &equal, &verdicts, NULL, 0) == MD_OK);
    equal.size = (size_t)-1;  // not read to its end
    CHECK(fails_with(CALL(md_verify)(method, NULL, &trees, &target, &draft, &equal, &verdicts, NULL, 0),
                     "requests.size", "at most"));
    the_batch.parents[1] = 5;
    CHECK(fails_with(CALL(md_verify)(method, NULL, &trees, &target, &draft, &requests, &verdicts, NULL, 0),
                     "trees.parents", "request 0"));
    the_batch.parents[1] = 0;
    verdicts.path = NULL;
    CHECK(fails_with(CALL(md_verify)(method, NULL, &trees, &target, &draft, &requests, &verdicts, NULL, 0),
                     "verdicts.path", "read or written"));
    verdicts.path = out.path;
    verdicts.path_stride = 1;
    CHECK(fails_with(CALL(md_verify)(method, NULL, &trees, &target, &draft, &requests, &verdicts, NULL, 0),
                     "verdicts.path_stride", "levels deep"));
    verdicts.path_stride = 0;
    int32_t const before_the_text[REQUESTS] = {4, -1, 4};
    equal = requests;
    equal.positions = before_the_text;
    CHECK(fails_with(CALL(md_validate)(method, NULL, &trees, &target, &draft, &equal), "requests.positions",
                     "not negative"));
    char unaligned[64];
    CHECK(fails_with(CALL(md_verify)(method, NULL, &trees, &target, &draft, &requests, &verdicts, unaligned, 1),
                     "workspace.size", "bytes"));
    CHECK(fails_with(CALL(md_find_method)("recursive_rejektion/iid", &method), "name", "recursive_rejection/iid"));
    CHECK(fails_with(CALL(md_find_method)(NULL, &method), "name", "read"));
    md_pool* pool = NULL;
    CHECK(fails_with(CALL(md_make_pool)(0, &pool), "threads", "one thread") && pool == NULL);
    CHECK(fails_with(CALL(md_make_pool)(INT32_MAX, &pool), "threads", "4096") && pool == NULL);
}

// A caller compiled with a later version: refused unless its additional fields are zero.
static void test_later_version(void) {
    struct later {
        md_estimation known;
        int64_t unknown;
    } how = {MD_ESTIMATION_INIT, 0};
    double const p[3] = {0.5, 0.3, 0.2}, q[3] = {0.2, 0.5, 0.3};
    double rate = 0;
    md_method const* method = NULL;
    CHECK(CALL(md_find_method)("naive/iid", &method) == MD_OK);
    how.known.size = sizeof how;
    CHECK(CALL(md_acceptance)(method, p, q, 3, 2, &how.known, &rate, NULL) == MD_OK);
    how.unknown = 1;
    CHECK(fails_with(CALL(md_acceptance)(method, p, q, 3, 2, &how.known, &rate, NULL), "how.size", "not zero"));
}

// Without CUDA every call returns MD_UNAVAILABLE. With it, invalid arguments in host memory are refused before a
// launch, on machines without a device too.
static void test_cuda(void) {
    md_method const* method = NULL;
    size_t bytes = 0;
    CHECK(CALL(md_find_method)("traversal/iid", &method) == MD_OK);
    md_trees trees = MD_TREES_INIT;
    md_rows rows = MD_ROWS_INIT;
    md_level level = MD_LEVEL_INIT;
    md_children children = MD_CHILDREN_INIT;
    md_requests requests = MD_REQUESTS_INIT;
    md_verdicts verdicts = MD_VERDICTS_INIT;
    md_dense_masks masks = MD_DENSE_MASKS_INIT;
    md_cuda_cache cache = MD_CUDA_CACHE_INIT;
    float row[4] = {0, 0, 0, 0};
    int32_t parents[1] = {-1}, zero = 0;
    int64_t offsets[2] = {0, 1};
    uint64_t word = 0;
    trees.law = "iid";
    trees.requests = 1;
    trees.nodes = 1;
    trees.offsets = offsets;
    trees.parents = parents;
    trees.tokens = &zero;
    rows.data = row;
    rows.vocabulary = 4;
    rows.row_stride = 4;
    requests.seeds = &word;
    requests.positions = &zero;
    if (CALL(md_has_cuda)() == 0) {
        CHECK(CALL(md_cuda_draft_workspace_size)(1, &bytes) == MD_UNAVAILABLE);
        CHECK(strstr(last_text(), "MULTIDRAFT_LIBRARY_CUDA") != NULL);
        CHECK(CALL(md_cuda_draft)(method, NULL, &level, &rows, &requests, &children, NULL, 0) == MD_UNAVAILABLE);
        CHECK(CALL(md_cuda_verify_workspace_size)(method, 1, 1, 0, &bytes) == MD_UNAVAILABLE);
        CHECK(CALL(md_cuda_verify)(method, NULL, &trees, &rows, &rows, &requests, &verdicts, NULL, 0) ==
              MD_UNAVAILABLE);
        CHECK(CALL(md_cuda_validate_workspace_size)(&bytes) == MD_UNAVAILABLE);
        CHECK(CALL(md_cuda_validate)(method, NULL, &trees, &rows, &rows, &requests, NULL, 0) == MD_UNAVAILABLE);
        CHECK(CALL(md_cuda_write_masks)(NULL, &trees, &word, 1) == MD_UNAVAILABLE);
        CHECK(CALL(md_cuda_write_mask_bytes)(NULL, &trees, &word, 1, &masks) == MD_UNAVAILABLE);
        CHECK(CALL(md_cuda_write_mask_bias)(NULL, &trees, &word, 1, MD_FLOAT32, &masks) == MD_UNAVAILABLE);
        CHECK(CALL(md_cuda_write_positions)(NULL, &trees, &zero, &zero) == MD_UNAVAILABLE);
        CHECK(CALL(md_cuda_level_order_workspace_size)(1, &bytes) == MD_UNAVAILABLE);
        CHECK(CALL(md_cuda_level_order)(NULL, &trees, &zero, NULL, NULL, NULL, NULL, 0) == MD_UNAVAILABLE);
        CHECK(CALL(md_cuda_compact)(NULL, &cache, 1, &verdicts, offsets) == MD_UNAVAILABLE);
        CHECK(bytes == 0 && word == 0 && zero == 0);
        return;
    }
    size_t more = 0;
    CHECK(CALL(md_cuda_draft_workspace_size)(1, &bytes) == MD_OK && bytes > 0);
    CHECK(CALL(md_cuda_verify_workspace_size)(method, 2, 8, 8, &bytes) == MD_OK);
    CHECK(CALL(md_cuda_verify_workspace_size)(method, 2, 16, 8, &more) == MD_OK && more >= bytes && bytes > 0);
    CHECK(fails_with(CALL(md_cuda_draft)(method, NULL, NULL, &rows, &requests, &children, NULL, 0), "level", "read"));
    level.entries = 1;
    CHECK(fails_with(CALL(md_cuda_draft)(method, NULL, &level, &rows, &requests, &children, NULL, 0), "level.requests",
                     "read"));
    CHECK(fails_with(CALL(md_cuda_verify)(method, NULL, &trees, &rows, NULL, &requests, &verdicts, NULL, 0), "draft",
                     "reads"));
    CHECK(fails_with(CALL(md_cuda_verify)(method, NULL, &trees, &rows, &rows, &requests, &verdicts, NULL, 0),
                     "verdicts.path", "read"));
    verdicts.path = verdicts.accepted = verdicts.next = &zero;
    CHECK(fails_with(CALL(md_cuda_verify)(method, NULL, &trees, &rows, &rows, &requests, &verdicts, NULL, 0),
                     "trees.largest", "divides"));
    trees.largest = 1;
    CHECK(fails_with(CALL(md_cuda_verify)(method, NULL, &trees, &rows, &rows, &requests, &verdicts, NULL, 0),
                     "workspace.size", "bytes"));
    trees.law = "sequential";
    CHECK(fails_with(CALL(md_cuda_verify)(method, NULL, &trees, &rows, &rows, &requests, &verdicts, NULL, 0),
                     "trees.law", "verifies trees of law"));
    trees.law = "iid";
    CHECK(fails_with(CALL(md_cuda_validate)(method, NULL, &trees, &rows, &rows, &requests, NULL, 0), "workspace.size",
                     "bytes"));
    rows.kind = MD_PROBABILITIES;
    CHECK(fails_with(CALL(md_cuda_validate)(method, NULL, &trees, &rows, &rows, &requests, NULL, 0), "target.kind",
                     "MD_LOGITS"));
    CHECK(fails_with(CALL(md_cuda_write_masks)(NULL, &trees, &word, 0), "row_words", "largest"));
    CHECK(fails_with(CALL(md_cuda_write_mask_bias)(NULL, &trees, &word, 1, 0, &masks), "dtype", "MD_FLOAT16"));
    CHECK(fails_with(CALL(md_cuda_write_mask_bytes)(NULL, &trees, &word, 1, &masks), "out.data", "read"));
    CHECK(fails_with(CALL(md_cuda_write_positions)(NULL, &trees, NULL, &zero), "positions", "read"));
    CHECK(fails_with(CALL(md_cuda_level_order_workspace_size)(-1, &bytes), "nodes", "0 nodes"));
    CHECK(
        fails_with(CALL(md_cuda_level_order)(NULL, &trees, NULL, NULL, NULL, NULL, NULL, 0), "level_parents", "read"));
    CHECK(fails_with(CALL(md_cuda_compact)(NULL, &cache, 1, &verdicts, offsets), "cache.data", "read"));
    void* list[1] = {row};
    cache.list = list;
    cache.listed = 0;
    CHECK(fails_with(CALL(md_cuda_compact)(NULL, &cache, 1, &verdicts, offsets), "cache.listed", "1 address"));
    cache.listed = 1;
    cache.list_alignment = 0;
    CHECK(fails_with(CALL(md_cuda_compact)(NULL, &cache, 1, &verdicts, offsets), "cache.list_alignment", "divides"));
    cache.size = offsetof(md_cuda_cache, list); /* the struct of older callers, which have no list */
    CHECK(fails_with(CALL(md_cuda_compact)(NULL, &cache, 1, &verdicts, offsets), "cache.data", "read"));
}

static void test_trees(void) {
    int32_t const parents[5] = {-1, 0, 0, 1, 2};
    uint64_t words[5];
    CHECK(CALL(md_write_mask)(parents, 5, words, 1) == MD_OK);
    CHECK(words[0] == 1 && words[1] == 3 && words[2] == 5 && words[3] == 11 && words[4] == 21);
    uint8_t bytes[5 * 7];
    CHECK(CALL(md_write_mask_bytes)(parents, 5, 2, bytes, 7) == MD_OK);
    for (int i = 0; i < 5; ++i)
        for (int j = 0; j < 7; ++j) CHECK(bytes[7 * i + j] == (j < 2 || ((words[i] >> (j - 2)) & 1U) != 0 ? 1 : 0));
    uint16_t bias[5 * 5];
    CHECK(CALL(md_write_mask_bias)(parents, 5, 0, MD_BFLOAT16, bias, 5) == MD_OK);
    CHECK(bias[0] == 0 && bias[1] == 0xFF80);
    CHECK(CALL(md_write_mask_bias)(parents, 5, 0, MD_FLOAT16, bias, 5) == MD_OK);
    CHECK(bias[0] == 0 && bias[1] == 0xFC00);
    CHECK(fails_with(CALL(md_write_mask_bias)(parents, 5, 0, 0, bias, 5), "dtype", "MD_FLOAT32"));
    CHECK(fails_with(CALL(md_write_mask_bytes)(parents, 5, 3, bytes, 7), "row_stride", "overlap"));
    int32_t positions[5];
    CHECK(CALL(md_write_positions)(parents, 5, 10, positions) == MD_OK);
    CHECK(positions[0] == 10 && positions[2] == 11 && positions[4] == 12);
    int32_t const shuffled[5] = {3, 3, 0, -1, 1};
    int32_t order[5], sorted[5];
    CHECK(CALL(md_level_order)(shuffled, 5, order, sorted) == MD_OK);
    CHECK(order[0] == 3 && order[1] == 0 && order[2] == 1 && order[3] == 2 && order[4] == 4);
    CHECK(memcmp(sorted, parents, sizeof parents) == 0);
    int32_t const ring[3] = {-1, 2, 1};
    CHECK(fails_with(CALL(md_level_order)(ring, 3, order, sorted), "parents", "not connected"));
    int64_t nodes = 0;
    CHECK(CALL(md_parse_shape)("4x2", NULL, 0, &nodes) == MD_OK && nodes == 13);
    CHECK(fails_with(CALL(md_parse_shape)("4x2", order, 5, &nodes), "capacity", "13"));
    CHECK(fails_with(CALL(md_parse_shape)("4y", NULL, 0, &nodes), "text", "whole numbers"));
    CHECK(fails_with(CALL(md_parse_shape)("[-1 5]", NULL, 0, &nodes), "text", "before its child"));
    CHECK(fails_with(CALL(md_parse_shape)("[[1]]", NULL, 0, &nodes), "text", "without gaps"));
    CHECK(fails_with(CALL(md_parse_shape)("fork:0x2", NULL, 0, &nodes), "text", "at least one chain"));
    CHECK(fails_with(CALL(md_parse_shape)("chain:2000000", NULL, 0, &nodes), "text", "2^20 nodes"));
    CHECK(fails_with(CALL(md_write_positions)(parents, 5, -1, positions), "context", "not negative"));
    CHECK(fails_with(CALL(md_write_positions)(parents, 5, INT32_MAX - 1, positions), "context", "2^31 - 1"));

    // Two planes, entries of two elements: one entry of context, then entries 0, 2 and 3 after it are kept.
    int16_t cache[2][5][2];
    for (int i = 0; i < 20; ++i) (&cache[0][0][0])[i] = (int16_t)i;
    md_axis const axis = {2, 10};
    md_cache layout = MD_CACHE_INIT;
    layout.data = cache;
    layout.element_size = 2;
    layout.axes = &axis;
    layout.axis_count = 1;
    layout.entries = 5;
    layout.entry_stride = 2;
    layout.entry_size = 2;
    int32_t const kept[3] = {0, 2, 3};
    int64_t left = 0;
    CHECK(CALL(md_compact)(&layout, 1, kept, 3, &left) == MD_OK && left == 4);
    CHECK(cache[0][1][0] == 2 && cache[0][2][0] == 6 && cache[0][3][1] == 9 && cache[1][2][1] == 17);
    int32_t const falling[2] = {2, 1};
    CHECK(fails_with(CALL(md_compact)(&layout, 1, falling, 2, &left), "kept", "increase"));
    CHECK(fails_with(CALL(md_compact)(&layout, 1, kept, INT64_MAX, &left), "kept.size", "entries"));
    CHECK(fails_with(CALL(md_compact)(&layout, 6, kept, 0, &left), "context", "5 entries"));
    md_cache wide = layout;
    wide.entry_stride = 1;
    CHECK(fails_with(CALL(md_compact)(&wide, 1, kept, 3, &left), "cache.entry_stride", "overlap"));
    wide = layout;
    wide.element_size = INT64_MAX;
    CHECK(fails_with(CALL(md_compact)(&wide, 1, kept, 3, &left), "cache.element_size", "2^20"));
}

// A dense simplex method from the origin with Bland's rule, for the few rows of these tests.
#define MOST_ROWS 64
#define MOST_COLUMNS 160
static int32_t simplex(void* solver, md_linear_program const* program, double* value) {
    static double table[MOST_ROWS + 1][MOST_COLUMNS + MOST_ROWS + 1];
    int const m = (int)program->rows, n = (int)program->columns;
    ++*(int*)solver;
    if (program->size < sizeof *program || m > MOST_ROWS || n > MOST_COLUMNS) return 1;
    memset(table, 0, sizeof table);
    for (int64_t e = 0; e < program->entries; ++e)
        table[program->entry_rows[e]][program->entry_columns[e]] = program->entry_values[e];
    for (int r = 0; r < m; ++r) {
        table[r][n + r] = 1;
        table[r][n + m] = program->bound[r];
    }
    for (int c = 0; c < n; ++c) table[m][c] = -program->gain[c];
    for (;;) {
        int in = 0, out = -1;
        while (in < n + m && table[m][in] > -1e-12) ++in;
        if (in == n + m) break;
        int leaves = 0;
        double least = 0;
        for (int r = 0; r < m; ++r) {
            if (table[r][in] < 1e-12) continue;
            double const ratio = table[r][n + m] / table[r][in];
            if (out >= 0 && ratio > least + 1e-15) continue;
            if (out >= 0 && ratio > least - 1e-15 && leaves < r) continue;
            out = leaves = r;
            least = ratio;
        }
        if (out < 0) return 2;
        double const pivot = table[out][in];
        for (int c = 0; c <= n + m; ++c) table[out][c] /= pivot;
        for (int r = 0; r <= m; ++r) {
            double const factor = table[r][in];
            if (r == out || (factor < 1e-300 && factor > -1e-300)) continue;
            for (int c = 0; c <= n + m; ++c) table[r][c] -= factor * table[out][c];
        }
    }
    *value = table[m][n + m];
    return 0;
}

static int32_t gives_up(void* solver, md_linear_program const* program, double* value) {
    (void)solver;
    (void)value;
    return program->columns > 0 ? 7 : 0;
}

// A model with equal rows, after at most two tokens.
static double const* same_row(void* model, int32_t const* prefix, int64_t length) {
    return length <= 2 && (length == 0 || prefix != NULL) ? (double const*)model : NULL;
}

static void test_tree_limit(void) {
    double p[3] = {0.5, 0.3, 0.2}, q[3] = {0.2, 0.5, 0.3};
    static char const* const laws[] = {"iid", "sequential"};
    int32_t const two[1] = {2};
    int calls = 0;
    for (int k = 0; k < 2; ++k) {
        double limit = 0, rate = 1;
        CHECK(CALL(md_tree_limit)(laws[k], 3, two, 1, &same_row, p, &same_row, q, 0.7, &simplex, &calls, &limit) ==
              MD_OK);
        CHECK(CALL(md_alpha_star)(laws[k], p, q, 3, 2, &rate) == MD_OK);
        CHECK(fabs(limit - rate) < 1e-9);
    }
    // An additional level accepts more, by at most one token.
    double s[2] = {0.6, 0.4}, t[2] = {0.3, 0.7}, one = 0, more = 0;
    int32_t const levels[2] = {2, 1};
    CHECK(CALL(md_tree_limit)("iid", 2, levels, 1, &same_row, s, &same_row, t, 0.7, &simplex, &calls, &one) == MD_OK);
    CHECK(CALL(md_tree_limit)("iid", 2, levels, 2, &same_row, s, &same_row, t, 0.7, &simplex, &calls, &more) == MD_OK);
    CHECK(calls == 4 && more > one + 0.1 && more < one + 1);
    CHECK(fails_with(CALL(md_tree_limit)("iid", 2, levels, 1, &same_row, s, &same_row, t, 0.7, &gives_up, NULL, &more),
                     "solve", "did not solve"));
    int32_t const deep[4] = {1, 1, 1, 1};
    CHECK(fails_with(CALL(md_tree_limit)("iid", 2, deep, 4, &same_row, s, &same_row, t, 0.7, &simplex, &calls, &more),
                     "target", "no row after"));
    int32_t const many[1] = {1000000000};
    CHECK(fails_with(CALL(md_tree_limit)("iid", 2, many, 1, &same_row, s, &same_row, t, 0.7, &simplex, &calls, &more),
                     "children", "too large"));
    CHECK(fails_with(CALL(md_alpha_star)("stratified", s, t, 2, INT32_MAX, &more), "n", "2^24"));
    CHECK(fails_with(CALL(md_tree_limit)("top", 2, two, 1, &same_row, s, &same_row, t, 0.7, &simplex, &calls, &more),
                     "law", "stratified"));
    CHECK(fails_with(CALL(md_tree_limit)("iid", 2, two, 1, NULL, s, &same_row, t, 0.7, &simplex, &calls, &more),
                     "target", "called"));
}

// Rates by trials agree with the formulas, to five standard errors.
static void test_estimates(void) {
    double const p[4] = {0.4, 0.3, 0.2, 0.1}, q[4] = {0.1, 0.2, 0.3, 0.4};
    static char const* const names[] = {"recursive_rejection/iid", "recursive_rejection/sequential", "naive/sequential",
                                        "greedy_optimal/top_then_one", "k_seq/iid"};
    md_pool* pool = NULL;
    md_method const* method = NULL;
    double rate = 0, error = 0, exact = 0, by_rank[2] = {0, 0}, again[2] = {0, 0};
    md_estimation how = MD_ESTIMATION_INIT;
    how.samples = 4100;  // a full block of trees and a few more
    CHECK(CALL(md_make_pool)(2, &pool) == MD_OK);
    for (int k = 0; k < 5; ++k) {
        CHECK(CALL(md_find_method)(names[k], &method) == MD_OK);
        CHECK(CALL(md_acceptance)(method, p, q, 4, 2, NULL, &exact, NULL) == MD_OK);
        CHECK(CALL(md_estimate_acceptance)(method, pool, p, q, 4, 2, &how, &rate, &error, by_rank) == MD_OK);
        CHECK(error > 0 && error < 0.01 && fabs(rate - exact) < 5 * error);
        CHECK(fabs(by_rank[0] + by_rank[1] - rate) < 1e-12);
        CHECK(CALL(md_estimate_acceptance)(method, NULL, p, q, 4, 2, &how, &rate, NULL, again) == MD_OK);
        CHECK(memcmp(by_rank, again, sizeof again) == 0);
    }
    // A method of whole trees verifies one node here, with the default number of samples.
    CHECK(CALL(md_find_method)("traversal/iid", &method) == MD_OK);
    CHECK(CALL(md_alpha_star)("iid", p, q, 4, 1, &exact) == MD_OK);
    CHECK(CALL(md_estimate_acceptance)(method, pool, p, q, 4, 1, NULL, &rate, &error, NULL) == MD_OK);
    CHECK(fabs(rate - exact) < 5 * error);
    CHECK(CALL(md_find_method)("spec_hub/top_paired", &method) == MD_OK);
    CHECK(fails_with(CALL(md_estimate_acceptance)(method, pool, p, q, 4, 3, &how, &rate, NULL, NULL), "n", "2"));
    how.samples = 1;
    CHECK(fails_with(CALL(md_estimate_acceptance)(method, pool, p, q, 4, 2, &how, &rate, NULL, NULL), "how.samples",
                     "two"));
    // Too many prefixes to walk: the formula is estimated.
    double even[64];
    for (int x = 0; x < 64; ++x) even[x] = 1.0 / 64;
    CHECK(CALL(md_find_method)("recursive_rejection/sequential", &method) == MD_OK);
    CHECK(fails_with(CALL(md_acceptance)(method, even, even, 64, 8, &how, &rate, NULL), "how.samples", "32 rounds"));
    CALL(md_free_pool)(pool);
}

static void test_analysis(void) {
    double const p[3] = {0.5, 0.3, 0.2}, q[3] = {0.2, 0.5, 0.3};
    double rate = 0, error = 1, value = 0;
    CHECK(CALL(md_alpha_star)("iid", p, q, 3, 1, &rate) == MD_OK && fabs(rate - 0.7) < 1e-12);
    md_method const* method = NULL;
    CHECK(CALL(md_find_method)("recursive_rejection/sequential", &method) == MD_OK);
    CHECK(CALL(md_acceptance)(method, p, q, 3, 1, NULL, &rate, &error) == MD_OK);
    CHECK(fabs(rate - 0.7) < 1e-12 && error == 0);
    CHECK(CALL(md_acceptance)(method, p, q, 3, 3, NULL, &rate, NULL) == MD_OK && fabs(rate - 1) < 1e-12);
    CHECK(CALL(md_find_method)("traversal/iid", &method) == MD_OK);
    CHECK(fails_with(CALL(md_acceptance)(method, p, q, 3, 1, NULL, &rate, &error), "method", "formula"));
    CHECK(fails_with(CALL(md_alpha_star)("lucky", p, q, 3, 1, &rate), "law", "sequential"));
    double const not_one[3] = {0.5, 0.5, 0.5};
    CHECK(fails_with(CALL(md_alpha_star)("iid", not_one, q, 3, 1, &rate), "sum(p)", "sum to 1"));
    double const rates[2] = {0.5, 0.5};
    CHECK(CALL(md_block_efficiency)(rates, 2, &value) == MD_OK && fabs(value - 1.75) < 1e-12);
    CHECK(CALL(md_improvement_factor)(0.5, 2, 0.0, &value) == MD_OK && fabs(value - 1.75) < 1e-12);
    CHECK(CALL(md_memory_bound_speed_up)(1.5, 1, 0.5, &value) == MD_OK && fabs(value - 1.0) < 1e-12);
    double const ranks[4] = {0.6, 0.3, 0.6, 0.3};
    int32_t parents[4];
    int64_t nodes = 0;
    CHECK(CALL(md_optimal_tree)(ranks, 2, 2, 3, parents, &nodes, &value) == MD_OK);
    CHECK(nodes == 4 && fabs(value - 1.26) < 1e-12);
    double again = 0;
    CHECK(CALL(md_expected_accepted)(parents, nodes, ranks, 2, 2, &again) == MD_OK && fabs(again - value) < 1e-12);
    CHECK(fails_with(CALL(md_expected_accepted)(parents, nodes, ranks, -1, 2, &again), "levels", "4096"));
    int32_t depth = 0;
    CHECK(CALL(md_best_depth)(0.5, 0.1, &depth) == MD_OK && depth == 2);
    CHECK(fails_with(CALL(md_best_depth)(0.5, 0.0, &depth), "cost", "no depth"));
}

// What md_draft and md_distributions refuse.
static void test_rows(void) {
    md_method const* method = NULL;
    CHECK(CALL(md_find_method)("recursive_rejection/sequential", &method) == MD_OK);
    int32_t const request[2] = {0, 0}, node[2] = {0, 1};
    int32_t position = 0, tokens[4];
    uint64_t const seed = 1;
    float logits[8] = {0, 0, 0, 0, 0, 0, 0, 0};
    md_level level = MD_LEVEL_INIT;
    level.entries = 2;
    level.requests = request;
    level.nodes = node;
    md_requests requests = MD_REQUESTS_INIT;
    requests.seeds = &seed;
    requests.positions = &position;
    md_children children = MD_CHILDREN_INIT;
    children.tokens = tokens;
    children.stride = 2;
    md_rows rows = MD_ROWS_INIT;
    rows.data = logits;
    rows.vocabulary = 4;
    CHECK(CALL(md_draft)(method, NULL, &level, &rows, &requests, &children) == MD_OK);
    children.stride = 0;
    CHECK(fails_with(CALL(md_draft)(method, NULL, &level, &rows, &requests, &children), "children.stride", "places"));
    children.stride = 2;
    children.tokens = NULL;
    CHECK(fails_with(CALL(md_draft)(method, NULL, &level, &rows, &requests, &children), "children.tokens", "written"));
    children.tokens = tokens;
    position = -1;
    CHECK(fails_with(CALL(md_draft)(method, NULL, &level, &rows, &requests, &children), "requests.positions",
                     "not negative"));
    position = 0;
    rows.vocabulary = 0;
    CHECK(fails_with(CALL(md_draft)(method, NULL, &level, &rows, &requests, &children), "rows.vocabulary", "1 to"));
    rows.vocabulary = 4;
    rows.default_sampling.top_p = 0;
    CHECK(fails_with(CALL(md_draft)(method, NULL, &level, &rows, &requests, &children), "rows.top_p", "(0, 1]"));

    // Which row it is.
    float p[8];
    md_error error = MD_ERROR_INIT;
    CHECK(fails_with(CALL(md_distributions)(&rows, 2, p), "rows.default_sampling.top_p", "(0, 1]"));
    md_sampling sampling[2] = {MD_SAMPLING_INIT, MD_SAMPLING_INIT};
    sampling[1].temperature = -1;
    rows.sampling = sampling;
    CHECK(fails_with(CALL(md_distributions)(&rows, 2, p), "rows.sampling.temperature", "finite"));
    CHECK(CALL(md_last_error)(&error) == MD_INVALID_INPUT && error.index == 1);
    sampling[1].temperature = 1;
    logits[6] = NAN;
    CHECK(fails_with(CALL(md_distributions)(&rows, 2, p), "rows", "(token 2)"));
    CHECK(CALL(md_last_error)(&error) == MD_INVALID_INPUT && error.index == 1);
    for (int x = 4; x < 8; ++x) logits[x] = -INFINITY;
    CHECK(fails_with(CALL(md_distributions)(&rows, 2, p), "rows", "infinity"));
    CHECK(CALL(md_last_error)(&error) == MD_INVALID_INPUT && error.index == 1);
}

static void test_types(int32_t halves) {
    CHECK(CALL(md_has_dtype)(MD_FLOAT32) == 1 && CALL(md_has_dtype)(0) == 0 && CALL(md_has_dtype)(4) == 0);
    CHECK(CALL(md_has_dtype)(MD_FLOAT16) == halves && CALL(md_has_dtype)(MD_BFLOAT16) == halves);
    uint16_t const row[4] = {0, 0, 0, 0};
    float p[4] = {-7, 0, 0, 0};
    md_rows rows = MD_ROWS_INIT;
    rows.data = row;
    rows.vocabulary = 4;
    for (int32_t type = MD_FLOAT16; type <= MD_BFLOAT16; ++type) {
        rows.dtype = type;
        if (halves == 1) {
            CHECK(CALL(md_distributions)(&rows, 1, p) == MD_OK && p[0] == 0.25F);
        } else {
            CHECK(CALL(md_distributions)(&rows, 1, p) == MD_UNAVAILABLE && p[0] == -7);
            CHECK(strstr(last_text(), "MULTIDRAFT_LIBRARY_TYPES") != NULL);
        }
    }
    rows.dtype = 4;
    CHECK(fails_with(CALL(md_distributions)(&rows, 1, p), "rows.dtype", "MD_BFLOAT16"));
}

static void test_controller(void) {
    int32_t const rows[3] = {1, 8, 17}, one = 1;
    double const target[3] = {0.010, 0.011, 0.012}, draft = 0.0005;
    md_step_times times = MD_STEP_TIMES_INIT;
    times.target_rows = rows;
    times.target_seconds = target;
    times.target_points = 3;
    times.draft_rows = &one;
    times.draft_seconds = &draft;
    times.draft_points = 1;
    md_controller_options options = MD_CONTROLLER_OPTIONS_INIT;
    options.learns_times = 0;
    md_controller* c = NULL;
    int32_t parents[17], path[6];
    int64_t nodes = 0, drafted = 0, none = 0;
    CHECK(CALL(md_make_controller)(&times, &options, &c) == MD_OK);
    CHECK(CALL(md_start_text)(c) == MD_OK);
    // All first children are accepted: deep trees are chosen.
    for (int step = 0; step < 200; ++step) {
        CHECK(CALL(md_choose_tree)(c, 6, 1, parents, &nodes) == MD_OK);
        CHECK(nodes >= 1 && nodes <= 17 && parents[0] == -1);
        int64_t accepted = 0;
        for (int32_t at = 0, v = 1; v < nodes; ++v)
            if (parents[v] == at) path[accepted++] = at = v;
        CHECK(CALL(md_learn_step)(c, nodes, path, accepted, 0.011, 0.003, 0.0001) == MD_OK);
        drafted += nodes - 1;
    }
    CHECK(drafted > 800);
    // Nothing is accepted: after a while little is drafted.
    for (int step = 0; step < 800; ++step) {
        CHECK(CALL(md_choose_tree)(c, 6, 1, parents, &nodes) == MD_OK);
        CHECK(CALL(md_learn_step)(c, nodes, NULL, 0, -1, -1, -1) == MD_OK);
        none += step >= 600 && nodes == 1;
    }
    CHECK(none > 100);
    CHECK(CALL(md_choose_tree)(c, 0, 1, parents, &nodes) == MD_OK && nodes == 1);
    path[0] = 1;
    CHECK(fails_with(CALL(md_learn_step)(c, 1, path, 1, 0, 0, 0), "path", "leads from the root"));
    CHECK(fails_with(CALL(md_learn_step)(c, 2, path, 1, 0, 0, 0), "nodes", "the first levels"));
    CHECK(fails_with(CALL(md_choose_tree)(c, -1, 1, parents, &nodes), "depth", "not negative"));
    double of_target = 0, of_draft = 0, of_step = 1, inner = 1;
    CHECK(CALL(md_current_times)(c, 8, &of_target, &of_draft, &of_step, &inner) == MD_OK);
    CHECK(of_target == 0.011 && of_draft == 0.0005 && of_step == 0 && inner == 0);
    CHECK(fails_with(CALL(md_current_times)(c, 0, &of_target, NULL, NULL, NULL), "rows", "one row or more"));
    CALL(md_free_controller)(c);
    CALL(md_free_controller)(NULL);
    times.target_points = 0;
    CHECK(fails_with(CALL(md_make_controller)(&times, NULL, &c), "times.target_points", "one number of rows"));
    int32_t const falling[2] = {2, 2};
    times.target_points = 2;
    times.target_rows = falling;
    CHECK(fails_with(CALL(md_make_controller)(&times, NULL, &c), "times.target_rows", "increase"));
    times.target_rows = rows;
    options.nodes = 257;
    CHECK(fails_with(CALL(md_make_controller)(&times, &options, &c), "options.nodes", "0 to 256"));
    options.nodes = 16;
    options.prior = 1;
    CHECK(fails_with(CALL(md_make_controller)(&times, &options, &c), "options.prior", "may be learnt"));
    CHECK(fails_with(CALL(md_make_controller)(NULL, NULL, &c), "times", "read or written"));
}

// --- A step of many requests: an engine with two models whose caches hold the tokens ---

#define STEP_VOCABULARY 30
#define STEP_TEXT 128

typedef struct engine_request {
    int32_t text[STEP_TEXT], of_target[STEP_TEXT], of_draft[STEP_TEXT];
    int32_t length, in_target, in_draft;
    char const* method;
    char const* shape;
    uint64_t seed;
} engine_request;

// The logits after two tokens. A draft leaves a third of the tokens out.
static void toy_row(int32_t before, int32_t last, int draft, float* row) {
    for (int32_t x = 0; x < STEP_VOCABULARY; ++x) {
        int32_t const mixed = (before * 31 + last * 17 + x * 13 + 7) % 29;
        row[x] = 0.2F * (float)mixed + (draft ? 0.05F * (float)((x * 5 + last) % 7) : 0.0F);
        if (draft && (x + last) % 3 == 0) row[x] = -INFINITY;
    }
}

#define STEP_CANDIDATES (STEP_VOCABULARY * 2 / 3)

// The tokens and logits of the draft's rows that are not minus infinity.
static void toy_candidates(float const* rows, int64_t first, int64_t end, int32_t* tokens, float* logits) {
    for (int64_t r = first; r < end; ++r) {
        int64_t e = r * STEP_CANDIDATES;
        for (int32_t x = 0; x < STEP_VOCABULARY; ++x)
            if (rows[r * STEP_VOCABULARY + x] > -INFINITY) {
                tokens[e] = x;
                logits[e++] = rows[r * STEP_VOCABULARY + x];
            }
        CHECK(e == (r + 1) * STEP_CANDIDATES);
    }
}

// Reads the inputs: a wrong entry, position or mask is noticed.
static void toy_forward(md_step* step, md_step_inputs const* in, engine_request* requests, int draft, float* rows) {
    uint64_t words[128 * 2];
    CHECK(in->mask_words <= 2 && in->count <= 128);
    CHECK(CALL(md_write_step_mask)(step, words, in->count * in->mask_words) == MD_OK);
    for (int64_t k = 0; k < in->count; ++k) {
        engine_request* r = &requests[in->requests[k]];
        (draft ? r->of_draft : r->of_target)[in->entries[k]] = in->tokens[k];
    }
    for (int64_t k = 0; k < in->count; ++k) {
        engine_request const* r = &requests[in->requests[k]];
        int32_t const* cache = draft ? r->of_draft : r->of_target;
        int32_t const first = draft ? r->in_draft : r->in_target;
        int32_t seen = first, before = first > 0 ? cache[first - 1] : 0, last = before;
        for (int64_t j = 0; j < 64 * in->mask_words; ++j)
            if (words[k * in->mask_words + j / 64] >> (j % 64) & 1U) {
                before = last;
                last = cache[first + j];
                ++seen;
            }
        CHECK(seen == in->positions[k] + 1 && last == in->tokens[k]);
        toy_row(before, last, draft, rows + (in->first_row + k) * STEP_VOCABULARY);
    }
}

static void toy_compact(int32_t* cache, int32_t entries, int64_t context, int32_t const* kept, int64_t count) {
    if (count == 0) return;
    md_cache c = MD_CACHE_INIT;
    c.data = cache;
    c.element_size = sizeof(int32_t);
    c.entries = entries;
    c.entry_stride = 1;
    c.entry_size = 1;
    CHECK(CALL(md_compact)(&c, context, kept, count, NULL) == MD_OK);
}

static void run_steps(engine_request* requests, int32_t count, int32_t wanted, md_pool* pool, int few) {
    static int32_t candidates[128 * STEP_CANDIDATES];
    static float logits[128 * STEP_CANDIDATES];
    static float p[128 * STEP_VOCABULARY], q[128 * STEP_VOCABULARY];
    md_step* step = NULL;
    CHECK(CALL(md_make_step)(&step) == MD_OK);
    md_rows target = MD_ROWS_INIT, draft = MD_ROWS_INIT;
    target.data = p;
    draft.data = q;
    target.vocabulary = draft.vocabulary = STEP_VOCABULARY;
    if (few) {
        draft.data = logits;
        draft.candidates = candidates;
        draft.candidate_count = STEP_CANDIDATES;
    }
    for (int going = 1; going != 0 && failures == 0;) {  // a library of other methods has failed before
        CHECK(CALL(md_start_step)(step) == MD_OK);
        target.adjustments = NULL;
        uint64_t word = 0;  // no inputs are left of the step before
        CHECK(CALL(md_write_step_mask)(step, &word, 0) == MD_OK);
        CHECK(fails_with(CALL(md_write_step_mask)(step, &word, 1), "words.size", "0 words"));
        for (int32_t b = 0; b < count; ++b) {
            engine_request const* r = &requests[b];
            md_method const* method = NULL;
            int32_t parents[16], number = -1;
            int64_t nodes = 0;
            CHECK(CALL(md_find_method)(r->method, &method) == MD_OK);
            CHECK(CALL(md_parse_shape)(r->shape, parents, 16, &nodes) == MD_OK);
            md_step_request request = MD_STEP_REQUEST_INIT;
            request.text = r->text;
            request.text_size = r->length;
            request.parents = parents;
            request.nodes = (int32_t)nodes;
            request.seed = r->seed;
            request.in_target = r->in_target;
            request.in_draft = r->in_draft;
            CHECK(CALL(md_add_request)(step, method, &request, &number) == MD_OK && number == b);
            if (b == 0)
                CHECK(fails_with(CALL(md_add_request)(step, method, &request, NULL), "request.id", "the same draws"));
        }
        md_step_inputs in = MD_STEP_INPUTS_INIT;
        CHECK(fails_with(CALL(md_target_inputs)(step, &in), "step", "grown first"));
        for (;;) {
            CHECK(CALL(md_next_level)(step, &in) == MD_OK);
            if (in.count == 0 || failures > 0) break;
            toy_forward(step, &in, requests, 1, q);
            if (few) toy_candidates(q, in.first_row, in.first_row + in.count, candidates, logits);
            CHECK(CALL(md_draw_level)(step, pool, &draft) == MD_OK);
        }
        CHECK(CALL(md_target_inputs)(step, &in) == MD_OK);
        toy_forward(step, &in, requests, 0, p);
        // Without the rows of the draws nothing is verified.
        CHECK(fails_with(CALL(md_verify_step)(step, pool, &target, NULL), "draft.vocabulary", "were drawn from"));
        static uint32_t const whole_mask[1] = {0xffffffffU};
        md_adjustments masked = MD_ADJUSTMENTS_INIT;
        masked.allowed = whole_mask;
        masked.allowed_count = 1;
        draft.adjustments = &masked;
        CHECK(fails_with(CALL(md_verify_step)(step, pool, &target, &draft), "draft.adjustments",
                         few ? "leave out" : "without one"));
        draft.adjustments = NULL;
        target.adjustments = few ? &masked : NULL;  // a target's mask of all tokens
        CHECK(CALL(md_verify_step)(step, pool, &target, &draft) == MD_OK);
        md_step_result nothing = MD_STEP_RESULT_INIT;
        CHECK(fails_with(CALL(md_finish_request)(step, count, &nothing), "number", "requests"));
        CHECK(fails_with(CALL(md_finish_request)(step, -1, &nothing), "number", "requests"));
        going = 0;
        for (int32_t b = 0; b < count; ++b) {
            engine_request* r = &requests[b];
            md_step_result result = MD_STEP_RESULT_INIT;
            CHECK(CALL(md_finish_request)(step, b, &result) == MD_OK);
            CHECK(result.token_count == result.accepted + 1);
            toy_compact(r->of_target, STEP_TEXT, result.target_context, result.kept_in_target,
                        result.kept_in_target_count);
            toy_compact(r->of_draft, STEP_TEXT, result.draft_context, result.kept_in_draft, result.kept_in_draft_count);
            memcpy(r->text + r->length, result.tokens, (size_t)result.token_count * sizeof(int32_t));
            r->length += (int32_t)result.token_count;
            r->in_target = result.in_target;
            r->in_draft = result.in_draft;
            CHECK(r->in_target == r->length - 1 && r->in_draft <= r->in_target);
            CHECK(memcmp(r->text, r->of_target, (size_t)r->in_target * sizeof(int32_t)) == 0);
            CHECK(memcmp(r->text, r->of_draft, (size_t)r->in_draft * sizeof(int32_t)) == 0);
            going = going || r->length < wanted;
        }
    }
    CALL(md_free_step)(step);
    CALL(md_free_step)(NULL);
}

static void test_step(void) {
    engine_request const begin[3] = {
        {{1, 2, 3}, {0}, {0}, 3, 0, 0, "nested_ranked_block/stratified", "2x1", 5},
        {{9}, {0}, {0}, 1, 0, 0, "nested_ranked_block/stratified", "1x1x1", 6},
        {{4, 5}, {0}, {0}, 2, 0, 0, "recursive_rejection/sequential", "2x2", 7},
    };
    engine_request together[3];
    memcpy(together, begin, sizeof begin);
    md_pool* pool = NULL;
    CHECK(CALL(md_make_pool)(3, &pool) == MD_OK);
    run_steps(together, 3, 60, pool, 0);
    CALL(md_free_pool)(pool);
    for (int32_t b = 0; b < 3; ++b) {
        engine_request alone = begin[b];
        run_steps(&alone, 1, 60, NULL, 0);
        CHECK(memcmp(alone.text, together[b].text, 60 * sizeof(int32_t)) == 0);
    }
    engine_request by_candidates[3];
    memcpy(by_candidates, begin, sizeof begin);
    run_steps(by_candidates, 3, 60, NULL, 1);
    for (int32_t b = 0; b < 3; ++b) CHECK(memcmp(by_candidates[b].text, together[b].text, 60 * sizeof(int32_t)) == 0);
    md_step* step = NULL;
    CHECK(CALL(md_make_step)(&step) == MD_OK && CALL(md_start_step)(step) == MD_OK);
    md_step_request request = MD_STEP_REQUEST_INIT;
    CHECK(fails_with(CALL(md_add_reading)(step, &request, NULL), "request.text.size", "token to read"));
    CHECK(fails_with(CALL(md_add_request)(step, NULL, &request, NULL), "method", "read or written"));
    md_step_result result = MD_STEP_RESULT_INIT;
    CHECK(fails_with(CALL(md_finish_request)(step, 0, &result), "step", "verified first"));
    md_method const* method = NULL;
    CHECK(CALL(md_find_method)("naive/sequential", &method) == MD_OK);
    int32_t const text[2] = {1, -1}, no_tree[2] = {-1, 5}, two_children[3] = {-1, 0, 0};
    request.text = text;
    request.text_size = 2;
    CHECK(fails_with(CALL(md_add_request)(step, method, &request, NULL), "request.text", "token"));
    request.text_size = 1;
    request.in_draft = 1;
    CHECK(fails_with(CALL(md_add_request)(step, method, &request, NULL), "request.in_draft", "before the last"));
    request.in_draft = 0;
    request.sampling.temperature = -1;
    CHECK(fails_with(CALL(md_add_request)(step, method, &request, NULL), "request.sampling.temperature", "finite"));
    request.sampling.temperature = 1;
    request.parents = no_tree;
    request.nodes = 2;
    CHECK(fails_with(CALL(md_add_request)(step, method, &request, NULL), "request.parents", "before its child"));
    md_method const* chains = NULL;
    CHECK(CALL(md_find_method)("block/iid", &chains) == MD_OK);
    request.parents = two_children;
    request.nodes = 3;
    CHECK(fails_with(CALL(md_add_request)(step, chains, &request, NULL), "request.parents", "one child a node"));
    CHECK(CALL(md_add_request)(step, method, &request, NULL) == MD_OK);
    float const row[4] = {0, 0, 0, 0};
    md_rows rows = MD_ROWS_INIT;
    rows.data = row;
    rows.vocabulary = 4;
    CHECK(fails_with(CALL(md_draw_level)(step, NULL, &rows), "step", "next_level"));
    CHECK(fails_with(CALL(md_verify_step)(step, NULL, &rows, &rows), "step", "target_inputs"));
    md_step_inputs in = MD_STEP_INPUTS_INIT;
    CHECK(CALL(md_next_level)(step, &in) == MD_OK && in.count == 1);
    CHECK(fails_with(CALL(md_next_level)(step, &in), "step", "drawn first"));
    CHECK(fails_with(CALL(md_add_request)(step, method, &request, NULL), "step", "after `start`"));
    CHECK(fails_with(CALL(md_add_reading)(step, &request, NULL), "step", "after `start`"));
    CALL(md_free_step)(step);
    CHECK(fails_with(CALL(md_start_step)(NULL), "step", "read or written"));
}

int main(int count, char** arguments) {
    open_library(count > 1 ? arguments[1] : "");
    md_error error = MD_ERROR_INIT;
    CHECK(CALL(md_last_error)(&error) == MD_OK && strcmp(error.message, "") == 0);
    CHECK(CALL(md_version)() >= 100);
    if (count > 1 && strcmp(arguments[count - 1], "cuda") == 0) {
        // A library of a few methods, built with CUDA.
        CHECK(CALL(md_has_cuda)() == 1);
        test_cuda();
        return failures == 0 ? 0 : 1;
    }
    if (count > 1 && strcmp(arguments[count - 1], "float32") == 0) {
        // A library for rows of this type alone.
        test_types(0);
        return failures == 0 ? 0 : 1;
    }
    test_methods();
    test_candidates();
    test_adjustments();
    test_probabilities();
    test_later_version();
    test_trees();
    test_cuda();
    test_analysis();
    test_estimates();
    test_controller();
    test_step();
    test_rows();
    test_types(1);
    test_tree_limit();
    if (failures == 0) printf("multidraft.h: all is well\n");
    return failures == 0 ? 0 : 1;
}
