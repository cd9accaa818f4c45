/* multidraft: multi-candidate (tree) speculative decoding. The C interface of libmultidraft, for C11, C++17 and
 * whatever calls C. Draft trees, their masks, their verification in batches on host threads or CUDA streams, cache
 * compaction, acceptance rates. SPDX-License-Identifier: Apache-2.0
 *
 * Functions that can fail return an md_status; what failed, md_last_error tells the same thread. When MD_OK is not
 * returned, nothing of the caller's was changed. No C++ exception leaves the library, and nothing that it is given is
 * kept beyond a call, but for pools.
 *
 * Structs begin with `size`, which is their sizeof as the caller was compiled. Later versions of the library know more
 * fields and take older, shorter structs as they were meant; newer, longer ones are taken where what is unknown is
 * zero. The MD_.._INIT macros set `size` and the defaults.
 *
 * Enumerations in structs and arguments are int32_t, whatever a compiler takes for an enum. All functions may be called
 * by several threads at a time. */
#ifndef MULTIDRAFT_H
#define MULTIDRAFT_H

#include <stddef.h>
#include <stdint.h>

#if defined(_WIN32) && defined(MULTIDRAFT_SHARED)
#if defined(MULTIDRAFT_BUILDING)
#define MD_API __declspec(dllexport)
#else
#define MD_API __declspec(dllimport)
#endif
#elif defined(__GNUC__) && defined(MULTIDRAFT_BUILDING)
#define MD_API __attribute__((visibility("default")))
#else
#define MD_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* --- Errors --- */

/* What a call came to. */
typedef enum md_status {
    MD_OK = 0,
    MD_INVALID_INPUT = 1, /* an argument cannot be used: md_last_error names it */
    MD_OUT_OF_MEMORY = 2,
    MD_SYSTEM = 3,     /* the system refuses: it has no more threads, say, or no device */
    MD_INTERNAL = 4,   /* a fault of the library */
    MD_UNAVAILABLE = 5 /* the library was built without what this needs */
} md_status;

/* The last error of a thread. The texts are its own and stay until its next call that fails. */
typedef struct md_error {
    size_t size;
    md_status status;
    int32_t node;         /* of a tree whose row is at fault; else -1 */
    int64_t index;        /* where in the argument; -1 where it is no sequence */
    char const* message;  /* all of it: "parents[3] = 7: a parent must come before its child" */
    char const* argument; /* "parents"; empty where no argument is at fault */
    char const* value;    /* "7" */
    char const* reason;   /* "a parent must come before its child" */
} md_error;
#define MD_ERROR_INIT \
    { sizeof(md_error), MD_OK, -1, -1, NULL, NULL, NULL, NULL }

/* The last error of the calling thread; MD_OK and empty texts where it had none. Returns error->status, or
 * MD_INVALID_INPUT for a struct that cannot be written to. */
MD_API md_status md_last_error(md_error* error);

/* Its message alone; "" where the thread had no error. */
MD_API char const* md_last_message(void);

/* The version of the library that is called: major * 10000 + minor * 100 + patch. */
MD_API int32_t md_version(void);

/* --- Methods --- */

/* A sampler and the verifier of its law, chosen by name. They live as long as the library. */
typedef struct md_method md_method;

/* The trees that a method takes. */
typedef enum md_shapes {
    MD_ANY_SHAPE = 0,
    MD_PAIRS = 1, /* up to two children a node */
    MD_FORKS = 2, /* paths of one length that part at the root */
    MD_CHAINS = 3 /* one child a node */
} md_shapes;

/* What is known of a method. */
typedef struct md_method_info {
    size_t size;
    char const* name;        /* such as "nested_ranked_block/stratified" */
    char const* summary;     /* a line for users */
    char const* law;         /* how children are drawn: what md_trees.law says of trees that it verifies */
    int32_t shapes;          /* an md_shapes: the trees that it takes */
    int32_t lossless;        /* 1: what is emitted has the target's law */
    int32_t reads_draft;     /* 1: md_verify reads the draft's rows */
    int32_t counts_certain;  /* 1: md_trees.certain and md_children.certain are wanted */
    int32_t drawn_by_text;   /* 1: md_level.depths is wanted */
    int32_t decides_by_node; /* 1: node by node, so that a tree's shape may depend on what was drawn */
} md_method_info;
#define MD_METHOD_INFO_INIT \
    { sizeof(md_method_info), NULL, NULL, NULL, MD_ANY_SHAPE, 0, 0, 0, 0, 0 }

/* How many methods there are (a library may be built with some of them), and the name of each in [0, count), NULL
 * beyond; the first is the default. */
MD_API int32_t md_method_count(void);
MD_API char const* md_method_name(int32_t index);

/* The method of a name. MD_INVALID_INPUT where there is none, with the nearest names. */
MD_API md_status md_find_method(char const* name, md_method const** method);
MD_API md_status md_describe_method(md_method const* method, md_method_info* info);

/* --- Pools of threads --- */

/* Where batched calls run. NULL in its place: on the calling thread alone. The answers have the same bits on any. */
typedef struct md_pool md_pool;

/* A pool of so many threads, the caller's among them. They sleep between calls; callers wait for one another. */
MD_API md_status md_make_pool(int32_t threads, md_pool** pool);

/* An engine's own pool. The function calls task(call, k) once for every k in [0, count), on any threads and in any
 * order, and returns when all have returned; count is at most `concurrency`. */
typedef void (*md_task)(void* call, int32_t k);
typedef void (*md_parallel_for)(void* engine, int32_t count, md_task task, void* call);
MD_API md_status md_make_pool_over(int32_t concurrency, md_parallel_for parallel_for, void* engine, md_pool** pool);

/* Ends a pool; no call may be at work in it. NULL is no pool. */
MD_API void md_free_pool(md_pool* pool);

/* --- Batches --- */

/* Element types of rows and biases. */
typedef enum md_dtype { MD_FLOAT32 = 1, MD_FLOAT16 = 2, MD_BFLOAT16 = 3 } md_dtype;

/* What the numbers of a row are. */
typedef enum md_rows_kind {
    MD_LOGITS = 1,
    MD_PROBABILITIES = 2 /* MD_FLOAT32 only; md_draft does not take them */
} md_rows_kind;

/* How logits become a distribution: temperature (0: the largest logit, the lowest token on ties), then top-k (0: off),
 * top-p (1: off), min-p (0: off). An element of arrays, so it never grows. */
typedef struct md_sampling {
    float temperature;
    int32_t top_k;
    float top_p;
    float min_p;
} md_sampling;
#define MD_SAMPLING_INIT \
    { 1.0F, 0, 1.0F, 0.0F }

/* Trees of some requests, one after another: the nodes of request b are entries offsets[b] to offsets[b + 1] of the
 * other arrays. Within a request node 0 is the root, the last token of the text; nodes stand in level order: parents[0]
 * is -1, parents come before their children and never decrease. A token -1 at the end of a node's children is one that
 * could not be drawn: it and what is below it is not in the tree. */
typedef struct md_trees {
    size_t size;
    int32_t requests;
    int64_t nodes;          /* of all trees: offsets[requests] */
    int64_t const* offsets; /* requests + 1, the first 0, rising */
    int32_t const* parents;
    int32_t const* tokens;
    int32_t const* certain; /* of each node, how many of its first children are certain; NULL for laws without */
    char const* law;        /* how the children were drawn: md_method_info.law of the method that drew them */
    int64_t largest;        /* nodes of the largest tree; read by md_cuda_verify for methods of whole trees */
} md_trees;
#define MD_TREES_INIT \
    { sizeof(md_trees), 0, 0, NULL, NULL, NULL, NULL, NULL, 0 }

/* Grammar masks, and what is added to logits, such as logit bias and penalties. Node i of the batch, all requests
 * counted through, has mask allowed_of[i] and bias bias_of[i]: none where that is negative, number i where the array is
 * NULL. In md_draft i is the entry of the level. The decisions have the bits of rows that were changed so beforehand.
 */
typedef struct md_adjustments {
    size_t size;
    uint32_t const* allowed;     /* masks: bit t % 32 of word t / 32 says whether token t is allowed; NULL: none */
    int64_t allowed_stride;      /* words from one mask to the next; 0: one mask for all */
    int64_t const* allowed_of;   /* may be NULL */
    int32_t const* bias_tokens;  /* of all biases, one after another; those of one bias rise */
    float const* bias_values;    /* added to the logits of these tokens; minus infinity forbids one */
    int64_t bias_entries;        /* of the two arrays; 0: no biases */
    int64_t const* bias_offsets; /* bias r: entries bias_offsets[r] to bias_offsets[r + 1]; NULL: one bias for all */
    int64_t bias_count;          /* how many biases there are, one less than offsets; not read where that is NULL */
    int64_t const* bias_of;      /* may be NULL */
} md_adjustments;
#define MD_ADJUSTMENTS_INIT \
    { sizeof(md_adjustments), NULL, 0, NULL, NULL, NULL, 0, NULL, 0, NULL }

/* Rows of a batch where they lie: row r begins at entry r * row_stride of `data`. Node i of the batch, all requests
 * counted through, has row row_of[i], or row i where row_of is NULL. In md_draft i is the entry of the level. */
typedef struct md_rows {
    size_t size;
    int32_t kind;  /* an md_rows_kind */
    int32_t dtype; /* an md_dtype */
    void const* data;
    int64_t row_stride; /* entries from one row to the next */
    int32_t vocabulary; /* entries of a row */
    int64_t const* row_of;
    md_sampling const* sampling; /* one a request; NULL: default_sampling for all */
    md_sampling default_sampling;
    md_adjustments const* adjustments; /* of MD_LOGITS: masks and biases; NULL: none */
} md_rows;
#define MD_ROWS_INIT \
    { sizeof(md_rows), MD_LOGITS, MD_FLOAT32, NULL, 0, 0, NULL, NULL, MD_SAMPLING_INIT, NULL }

/* What each request draws with: equal seeds, ids and positions give equal draws, whatever the batch. */
typedef struct md_requests {
    size_t size;
    uint64_t const* seeds;
    int32_t const* positions; /* of each request's root in its text, from 0 */
    uint32_t const* ids;      /* tells requests of one seed apart; NULL: 0 */
} md_requests;
#define MD_REQUESTS_INIT \
    { sizeof(md_requests), NULL, NULL, NULL }

/* Nodes that get children now, such as a level of every tree: entry e is node nodes[e] of request requests[e]. */
typedef struct md_level {
    size_t size;
    int32_t entries;
    int32_t const* requests;
    int32_t const* nodes;
    int32_t const* wanted; /* children of each; NULL: md_children.stride */
    int32_t const* depths; /* levels below the root; may be NULL unless md_method_info.drawn_by_text */
} md_level;
#define MD_LEVEL_INIT \
    { sizeof(md_level), 0, NULL, NULL, NULL, NULL }

/* Where children go: those of entry e from tokens + first[e] on, or where first is NULL from tokens + e * stride on,
 * and then there are stride places for each. What could not be drawn is -1. */
typedef struct md_children {
    size_t size;
    int32_t* tokens;
    int64_t const* first;
    int64_t stride;
    int32_t* counts;           /* how many were drawn for each entry; may be NULL */
    int32_t* certain;          /* how many of them are certain; may be NULL unless md_method_info.counts_certain */
    int64_t const* node_index; /* where in `certain` an entry's number goes; NULL: at e */
} md_children;
#define MD_CHILDREN_INIT \
    { sizeof(md_children), NULL, NULL, 0, NULL, NULL, NULL }

/* For request b: the accepted nodes, root excluded, in order, from path + b * path_stride on (there is room for
 * path_stride, the depth of the deepest tree or more), or with path_stride 0 from path + offsets[b] on; how many there
 * are; and the token that follows. A request whose rows are not distributions has 0 nodes and token -1, and the others
 * their verdicts. */
typedef struct md_verdicts {
    size_t size;
    int32_t* path;
    int64_t path_stride;
    int32_t* accepted;
    int32_t* next;
} md_verdicts;
#define MD_VERDICTS_INIT \
    { sizeof(md_verdicts), NULL, 0, NULL, NULL }

/* Draws the children of the nodes of a level with the method's sampler from rows of the draft's logits. */
MD_API md_status md_draft(md_method const* method, md_pool* pool, md_level const* level, md_rows const* rows,
                          md_requests const* requests, md_children const* children);

/* Bytes that md_verify works in, for up to `requests` trees of up to `nodes` nodes and `depth` levels below the root: 0
 * for methods that decide node by node. */
MD_API md_status md_verify_workspace_size(md_method const* method, md_pool* pool, int32_t requests, int32_t nodes,
                                          int32_t depth, size_t* bytes);

/* Verifies the trees of a batch. `draft` may be NULL for methods that do not read it; both kinds of rows have one kind,
 * dtype and vocabulary, and adjustments of their own: those of `draft` are the ones that its children were drawn with.
 * `workspace`: md_verify_workspace_size bytes, aligned to 16; NULL: the call allocates what it
 * needs, and nothing otherwise.
 *
 * MD_INVALID_INPUT names argument, index, value and request for what is not a tree, trees of another law than the
 * method's (with the methods that verify them), tokens outside the vocabulary, children that the law cannot give,
 * sampling parameters out of range, a bias whose tokens do not rise, a path without room. What only the rows can tell
 * is the fault of one request. */
MD_API md_status md_verify(md_method const* method, md_pool* pool, md_trees const* trees, md_rows const* target,
                           md_rows const* draft, md_requests const* requests, md_verdicts const* verdicts,
                           void* workspace, size_t workspace_size);

/* Looks for what is wrong with a batch, its rows included; MD_INVALID_INPUT names the first fault. One pass over all
 * rows: for bringing an engine up, not for every step. */
MD_API md_status md_validate(md_method const* method, md_pool* pool, md_trees const* trees, md_rows const* target,
                             md_rows const* draft, md_requests const* requests);

/* Writes the distributions of rows 0 to count - 1 (by row_of, if there is one), count * vocabulary floats: what methods
 * draw from and verify with. Row i is processed with sampling[i], or with default_sampling where that is NULL.
 * MD_INVALID_INPUT for a row that is not a distribution. */
MD_API md_status md_distributions(md_rows const* rows, int64_t count, float* out);

/* --- Trees --- */

/* Reads a shape: "4x2x2x1" (children of each node, level by level), "fork:3x4", "chain:5", "[[0], [1], [0, 0]]" (choice
 * lists) or "[-1 0 0 1]" (parents). Writes its parents where `parents` is not NULL, which has room for `capacity`, and
 * how many there are. MD_INVALID_INPUT, with nodes written, where there is no room. */
MD_API md_status md_parse_shape(char const* text, int32_t* parents, int64_t capacity, int64_t* nodes);

/* Checks that parents are a tree in level order, and writes the levels of each node below the root where `depths` is
 * not NULL. */
MD_API md_status md_tree_depths(int32_t const* parents, int64_t nodes, int32_t* depths);

/* Brings a tree whose nodes stand in any order into level order: order[i] is the node of the input that is now node i,
 * level_parents[i] its parent. Children keep their order; siblings of different parents follow these. Each may be NULL.
 */
MD_API md_status md_level_order(int32_t const* parents, int64_t nodes, int32_t* order, int32_t* level_parents);

/* The packed mask of a tree: nodes rows of row_words words, (nodes + 63) / 64 or more; bit j of row i says that node i
 * attends to node j, its ancestors and itself. Parents come before their children. */
MD_API md_status md_write_mask(int32_t const* parents, int64_t nodes, uint64_t* words, int64_t row_words);

/* The same as bytes, 1 or 0: `context` columns that all attend to, then one a node; rows are row_stride bytes apart. */
MD_API md_status md_write_mask_bytes(int32_t const* parents, int64_t nodes, int64_t context, uint8_t* out,
                                     int64_t row_stride);

/* The same as numbers to add to attention scores, 0 or minus infinity; rows are row_stride entries apart. */
MD_API md_status md_write_mask_bias(int32_t const* parents, int64_t nodes, int64_t context, int32_t dtype, void* out,
                                    int64_t row_stride);

/* The position of each node in the text: `context` tokens before the root, and its levels below the root. */
MD_API md_status md_write_positions(int32_t const* parents, int64_t nodes, int32_t context, int32_t* positions);

/* --- Caches --- */

/* One dimension of a cache around its entries: layers, keys and values, heads. An element of arrays: it never grows. */
typedef struct md_axis {
    int64_t count;
    int64_t stride; /* elements from one to the next */
} md_axis;

/* Where the entries of a cache lie: element e of entry t of plane (i, j, ..) is at i * axes[0].stride + j *
 * axes[1].stride + .. + t * entry_stride + e. */
typedef struct md_cache {
    size_t size;
    void* data;
    int64_t element_size; /* bytes of an element */
    md_axis const* axes;  /* NULL for a single plane */
    int32_t axis_count;
    int64_t entries;      /* in use, the context's included */
    int64_t entry_stride; /* elements from one entry to the next */
    int64_t entry_size;   /* elements of an entry that lie together */
} md_cache;
#define MD_CACHE_INIT \
    { sizeof(md_cache), NULL, 1, NULL, 0, 0, 0, 0 }

/* Compacts a cache, in place, to its first `context` entries and those kept of the ones that follow, kept[k] counted
 * from the context's end and rising. Writes the new number of entries where `entries` is not NULL. */
MD_API md_status md_compact(md_cache const* cache, int64_t context, int32_t const* kept, int64_t kept_count,
                            int64_t* entries);

/* --- CUDA --- */

/* The calls above on a device, as launches on a stream: they neither allocate nor wait, and may be captured in a graph.
 * Structs are the caller's on the host, and read in the call; what they point to is device memory. `stream` is a
 * cudaStream_t, NULL the default one. Rows are MD_LOGITS without adjustments. The decisions have the bits of the
 * host's.
 *
 * A library built without CUDA (MULTIDRAFT_LIBRARY_CUDA) answers MD_UNAVAILABLE; md_has_cuda says which one it is. What
 * CUDA refuses is MD_SYSTEM with the name of its error. What is in device memory is not looked at: an invalid tree, and
 * a row that is not a distribution, give the token -1; md_cuda_validate says why. */
MD_API int32_t md_has_cuda(void);

/* Bytes of device memory that md_cuda_draft works in, for levels of up to `entries` nodes. It does with none, and is
 * then slower for few entries. Align it to 256 bytes, as cudaMalloc does. */
MD_API md_status md_cuda_draft_workspace_size(int32_t entries, size_t* bytes);
MD_API md_status md_cuda_draft(md_method const* method, void* stream, md_level const* level, md_rows const* rows,
                               md_requests const* requests, md_children const* children, void* workspace,
                               size_t workspace_size);

/* The same for md_cuda_verify and up to `requests` trees of up to `nodes` nodes, `depth` levels below the root:
 * md_verdicts.path_stride, or `nodes` where that is 0. Methods that decide node by node do with none; the others read
 * md_trees.largest, too. */
MD_API md_status md_cuda_verify_workspace_size(md_method const* method, int32_t requests, int32_t nodes, int32_t depth,
                                               size_t* bytes);
MD_API md_status md_cuda_verify(md_method const* method, void* stream, md_trees const* trees, md_rows const* target,
                                md_rows const* draft, md_requests const* requests, md_verdicts const* verdicts,
                                void* workspace, size_t workspace_size);

/* Looks for what is wrong with a batch, rows included, and waits for the answer, which is that of md_validate. */
MD_API md_status md_cuda_validate_workspace_size(size_t* bytes);
MD_API md_status md_cuda_validate(md_method const* method, void* stream, md_trees const* trees, md_rows const* target,
                                  md_rows const* draft, md_requests const* requests, void* workspace,
                                  size_t workspace_size);

/* The packed masks of all trees, whose tokens and law are not read: row offsets[b] + i is that of node i of request b.
 */
MD_API md_status md_cuda_write_masks(void* stream, md_trees const* trees, uint64_t* words, int64_t row_words);

/* Dense masks from packed ones, as bytes or as numbers to add to attention scores. Columns are contexts[b] (NULL: 0)
 * that every node of request b attends to, one a node of its tree, and hidden ones up to `columns`. */
typedef struct md_dense_masks {
    size_t size;
    void* data;
    int64_t columns;
    int64_t row_stride;      /* entries from one row to the next, columns or more */
    int64_t const* contexts; /* one a request; may be NULL */
} md_dense_masks;
#define MD_DENSE_MASKS_INIT \
    { sizeof(md_dense_masks), NULL, 0, 0, NULL }
MD_API md_status md_cuda_write_mask_bytes(void* stream, md_trees const* trees, uint64_t const* words, int64_t row_words,
                                          md_dense_masks const* out);
MD_API md_status md_cuda_write_mask_bias(void* stream, md_trees const* trees, uint64_t const* words, int64_t row_words,
                                         int32_t dtype, md_dense_masks const* out);

/* The position of each node: positions[b], that of the root of request b, and its levels below the root. */
MD_API md_status md_cuda_write_positions(void* stream, md_trees const* trees, int32_t const* positions, int32_t* out);

/* Where the entries of caches lie, in bytes: entry t of plane (i, j, ..) of request b is at b * request_stride + i *
 * axes[0].stride + .. + t * entry_stride; with pages, entry t % page_entries of page pages[b * pages_stride + t /
 * page_entries] takes the place of the request's. The axes, four at most, are the host's. */
typedef struct md_cuda_cache {
    size_t size;
    void* data;
    int64_t request_stride;
    int64_t entry_stride;
    int64_t entry_bytes; /* of an entry that lie together */
    md_axis const* axes; /* NULL for a single plane */
    int64_t axis_count;
    int32_t const* pages; /* NULL: no pages */
    int64_t pages_stride;
    int64_t page_entries;
    int64_t page_stride;
} md_cuda_cache;
#define MD_CUDA_CACHE_INIT \
    { sizeof(md_cuda_cache), NULL, 0, 0, 0, NULL, 0, NULL, 0, 0, 0 }

/* Compacts the caches of all requests, in place: the entries of the accepted nodes, as md_cuda_verify wrote them with a
 * path_stride, move behind the root's, which is entry bases[b]. */
MD_API md_status md_cuda_compact(void* stream, md_cuda_cache const* cache, int32_t requests,
                                 md_verdicts const* verdicts, int64_t const* bases);

/* --- Analysis --- */

/* The largest acceptance rate that any verifier reaches for n children drawn by a law: "iid", "sequential",
 * "conditional_poisson", "stratified", "top_then_one", "top_paired" (n = 2) or "deterministic". p and q: the target's
 * and the draft's probabilities of `vocabulary` tokens. */
MD_API md_status md_alpha_star(char const* law, double const* p, double const* q, int64_t vocabulary, int32_t n,
                               double* rate);

/* How acceptance rates are estimated that are not computed exactly. */
typedef struct md_estimation {
    size_t size;
    int64_t samples;
    uint64_t seed;
} md_estimation;
#define MD_ESTIMATION_INIT \
    { sizeof(md_estimation), 16384, 1 }

/* The acceptance rate of a method at one node with n children: the probability that one of them is accepted. *error
 * gets its standard error, 0 where the rate is exact; may be NULL, as `how` may. MD_INVALID_INPUT for methods whose
 * rate has no formula: those that weigh whole paths and trees, which md_estimate_acceptance estimates. */
MD_API md_status md_acceptance(md_method const* method, double const* p, double const* q, int64_t vocabulary, int32_t n,
                               md_estimation const* how, double* rate, double* error);

/* The same of every method, by how->samples runs of its sampler and its verifier over rows of single precision, the
 * same numbers from the same seed on any pool. *by_rank, which may be NULL and has room for n, gets how often the child
 * of each rank, in the order drawn, is the accepted one: together they are the rate. Memory for some thousand trees,
 * and a pass over both rows a run. */
MD_API md_status md_estimate_acceptance(md_method const* method, md_pool* pool, double const* p, double const* q,
                                        int64_t vocabulary, int32_t n, md_estimation const* how, double* rate,
                                        double* error, double* by_rank);

/* A linear program: maximise the sum of gain[c] x[c], x not negative, where for each row r the sum of value x[column]
 * over its entries is at most bound[r], which is not negative. No two entries have one row and column. */
typedef struct md_linear_program {
    size_t size;
    int64_t columns;
    int64_t rows;
    int64_t entries;
    double const* gain;           /* one a column */
    double const* bound;          /* one a row */
    int64_t const* entry_rows;    /* of each entry its row, .. */
    int64_t const* entry_columns; /* .. its column .. */
    double const* entry_values;   /* .. and its value */
} md_linear_program;

/* Solves one: writes its largest value and returns 0, or something else where it cannot. */
typedef int32_t (*md_solve)(void* solver, md_linear_program const* program, double* value);

/* A model of a few tokens: its probabilities after a prefix, NULL where it has none. They are read before the next
 * call. */
typedef double const* (*md_model_row)(void* model, int32_t const* prefix, int64_t length);

/* The limit of whole trees of children[l] children a node at level l: no lossless verifier of a law ("iid",
 * "sequential" or "stratified") accepts more tokens in the mean. For one level it is md_alpha_star. The program grows
 * with the number of trees that can be drafted: for vocabularies of three or four tokens and two or three levels; the
 * library has no solver of its own. theta: the threshold of the rule of certain children of "stratified", 0.7 in this
 * library's samplers. */
MD_API md_status md_tree_limit(char const* law, int64_t vocabulary, int32_t const* children, int32_t levels,
                               md_model_row target, void* target_model, md_model_row draft, void* draft_model,
                               double theta, md_solve solve, void* solver, double* limit);

/* Tokens emitted a target call, from the acceptance rate of each of `levels` levels given that those above were
 * accepted. */
MD_API md_status md_block_efficiency(double const* rates, int64_t levels, double* efficiency);

/* The factor by which a chain of `depth` tokens speeds up decoding, at rate alpha, where a draft call takes `cost`
 * target calls. */
MD_API md_status md_improvement_factor(double alpha, int32_t depth, double cost, double* factor);

/* The depth of the largest such factor, 0 where drafting gains nothing. MD_INVALID_INPUT where no depth is the best. */
MD_API md_status md_best_depth(double alpha, double cost, int32_t* depth);

/* The memory-bound speed-up: efficiency / (depth * size_ratio + 1), size_ratio that of the draft model to the target.
 */
MD_API md_status md_memory_bound_speed_up(double efficiency, int32_t depth, double size_ratio, double* factor);

/* The tree of at most `nodes` nodes below the root that accepts most. rates[l * ranks + k]: the probability that the
 * child of rank k at a node of level l is the accepted one. `parents` has room for nodes + 1; *count gets how many
 * nodes the tree has, the root included; *accepted, which may be NULL, what it is expected to accept. */
MD_API md_status md_optimal_tree(double const* rates, int32_t levels, int32_t ranks, int32_t nodes, int32_t* parents,
                                 int64_t* count, double* accepted);

/* How many nodes of a tree are expected to be accepted, with rates as in md_optimal_tree; block efficiency is one more.
 */
MD_API md_status md_expected_accepted(int32_t const* parents, int64_t nodes, double const* rates, int32_t levels,
                                      int32_t ranks, double* accepted);

#ifdef __cplusplus
}
#endif

#endif
