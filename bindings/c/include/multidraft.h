/* multidraft: multi-candidate (tree) speculative decoding. The C interface of libmultidraft, for C11, C++17 and other
 * languages that call C: draft trees, their masks, their verification in batches on host threads or CUDA streams, cache
 * compaction, acceptance rates. SPDX-License-Identifier: Apache-2.0
 *
 * Functions that can fail return an md_status; md_last_error describes the failure to the same thread. A call that does
 * not return MD_OK has changed no memory of the caller, unless its comment says otherwise. No C++ exception leaves the
 * library. It keeps no pointer after a call, except an engine's pool and the texts of a step's requests.
 *
 * Structs begin with `size`, their sizeof when the caller was compiled. Later versions of the library may have more
 * fields and still accept the shorter structs of older callers. Longer structs of newer callers are accepted if the
 * unknown fields are zero. The MD_.._INIT macros set `size` and the defaults.
 *
 * Enumerations in structs and arguments are int32_t, independent of the compiler's size of an enum. Functions may
 * be called by several threads at a time, but a controller or a step by one only. Tokens are in [0, vocabulary); "below
 * the root" excludes the root. */
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

/* The result of a call. */
typedef enum md_status {
    MD_OK = 0,
    MD_INVALID_INPUT = 1, /* an argument is invalid: md_last_error names it */
    MD_OUT_OF_MEMORY = 2,
    MD_SYSTEM = 3,     /* a failure of the system, such as no more threads or no device */
    MD_INTERNAL = 4,   /* a bug in the library */
    MD_UNAVAILABLE = 5 /* the library was built without this feature */
} md_status;

/* The last error of a thread. The library owns the texts; they are valid until the thread's next call that fails. */
typedef struct md_error {
    size_t size;
    md_status status;
    int32_t node;         /* node whose row is invalid, or -1 */
    int64_t index;        /* index in the argument; -1 if it is not a sequence */
    char const* message;  /* complete: "parents[3] = 7: a parent must come before its child" */
    char const* argument; /* "parents", or a member: "trees.law"; empty if no argument is invalid */
    char const* value;    /* "7" */
    char const* reason;   /* "a parent must come before its child" */
} md_error;
#define MD_ERROR_INIT \
    { sizeof(md_error), MD_OK, -1, -1, NULL, NULL, NULL, NULL }

/* The last error of the calling thread; MD_OK and empty texts if there was none. Returns error->status, or
 * MD_INVALID_INPUT for NULL and for a struct that is too short. */
MD_API md_status md_last_error(md_error* error);

/* The message of that error; "" if there was none. */
MD_API char const* md_last_message(void);

/* The version of the library at run time: major * 10000 + minor * 100 + patch. */
MD_API int32_t md_version(void);

/* --- Methods --- */

/* A sampler and the verifier of its law, chosen by name. Handles are valid as long as the library is loaded. */
typedef struct md_method md_method;

/* The trees that a method accepts. */
typedef enum md_shapes {
    MD_ANY_SHAPE = 0,
    MD_PAIRS = 1, /* up to two children per node */
    MD_FORKS = 2, /* paths of equal length that branch at the root */
    MD_CHAINS = 3 /* one child per node */
} md_shapes;

/* The properties of a method. */
typedef struct md_method_info {
    size_t size;
    char const* name;                 /* such as "nested_ranked_block/stratified" */
    char const* summary;              /* one line for users */
    char const* law;                  /* how children are drawn: md_trees.law of the trees that it verifies */
    int32_t shapes;                   /* an md_shapes: the trees that it accepts */
    int32_t lossless;                 /* 1: the emitted tokens have the target's distribution */
    int32_t reads_draft;              /* 1: md_verify reads the draft's rows */
    int32_t counts_certain;           /* 1: md_trees.certain and md_children.certain are required */
    int32_t drawn_by_text;            /* 1: md_level.depths is required */
    int32_t decides_by_node;          /* 1: node by node, so a tree's shape may depend on earlier draws */
    int32_t lists_may_be_shared;      /* 1: it verifies trees of law "shared_lists/<law>", too */
    int32_t children_may_be_left_out; /* 1: a child that was drawn may be left out of the tree */
} md_method_info;
#define MD_METHOD_INFO_INIT \
    { sizeof(md_method_info), NULL, NULL, NULL, MD_ANY_SHAPE, 0, 0, 0, 0, 0, 0, 0 }

/* The number of methods (a library may be built with some of them only), and the name of method `index`, NULL outside
 * [0, count). Method 0 is the default. */
MD_API int32_t md_method_count(void);
MD_API char const* md_method_name(int32_t index);

/* The method of a name, and its properties. MD_INVALID_INPUT for an unknown name, with the most similar names. */
MD_API md_status md_find_method(char const* name, md_method const** method);
MD_API md_status md_describe_method(md_method const* method, md_method_info* info);

/* --- Pools of threads --- */

/* Where batched calls run. NULL: on the calling thread alone. The results have the same bits on every pool. */
typedef struct md_pool md_pool;

/* A pool of `threads` threads, 1 to 4096, including the caller's. They sleep between calls. Concurrent calls run in
 * turn. */
MD_API md_status md_make_pool(int32_t threads, md_pool** pool);

/* An engine's own pool. parallel_for(engine, count, task, call) must call task(call, k) once for every k in [0, count),
 * on any threads and in any order, and return when all have returned: with fewer calls it is MD_SYSTEM. count is at
 * most `concurrency`. */
typedef void (*md_task)(void* call, int32_t k);
typedef void (*md_parallel_for)(void* engine, int32_t count, md_task task, void* call);
MD_API md_status md_make_pool_over(int32_t concurrency, md_parallel_for parallel_for, void* engine, md_pool** pool);

/* Frees a pool, once. No call may be using it. NULL has no effect. */
MD_API void md_free_pool(md_pool* pool);

/* --- Batches --- */

/* Element types of rows and biases. */
typedef enum md_dtype { MD_FLOAT32 = 1, MD_FLOAT16 = 2, MD_BFLOAT16 = 3 } md_dtype;

/* Whether logits may have this md_dtype: 1, or 0 if the library was built without it (MULTIDRAFT_LIBRARY_TYPES), in
 * which case calls with such rows return MD_UNAVAILABLE. MD_FLOAT32 is always there. */
MD_API int32_t md_has_dtype(int32_t dtype);

/* The meaning of the numbers of a row. */
typedef enum md_rows_kind {
    MD_LOGITS = 1,
    MD_PROBABILITIES = 2 /* MD_FLOAT32 only; not for md_draft */
} md_rows_kind;

/* How logits become a distribution: temperature (0: the largest logit, the lowest token on ties), then top-k (0: off),
 * top-p (1: off), min-p (0: off). It is an element of arrays, so its size is fixed. */
typedef struct md_sampling {
    float temperature;
    int32_t top_k;
    float top_p;
    float min_p;
} md_sampling;
#define MD_SAMPLING_INIT \
    { 1.0F, 0, 1.0F, 0.0F }

/* In the place of a token: why a slot for a child holds none. */
typedef enum md_absent_token {
    MD_SUPPORT_ENDED = -2, /* a child was wanted, and no token was left to draw */
    MD_PADDING = -3        /* the slot is outside the tree's shape, which was fixed before the draws */
} md_absent_token;

/* The trees of all requests, one after another: the nodes of request b are entries offsets[b] to offsets[b + 1] - 1 of
 * the other arrays. Within a request node 0 is the root, the last token of the text. Nodes are in level order:
 * parents[0] is -1, parents come before their children and never decrease. The last children of a node may be
 * MD_SUPPORT_ENDED or MD_PADDING: they and all nodes below them are ignored. A child that was drawn is never left out,
 * since its absence would change the law of the others: other negative tokens are refused, except by methods with
 * md_method_info.children_may_be_left_out. */
typedef struct md_trees {
    size_t size;
    int32_t requests;
    int64_t nodes;          /* of all trees: offsets[requests] */
    int64_t const* offsets; /* requests + 1 entries, the first 0, increasing */
    int32_t const* parents;
    int32_t const* tokens;
    int32_t const* certain; /* per node, the number of its first children that are certain; NULL for laws without */
    char const* law;        /* how the children were drawn: md_method_info.law of the method that drew them; with
                             * "shared_lists/" before it if nodes of a tree have one list of candidates in common */
    int64_t largest;        /* nodes of the largest tree; read by md_cuda_verify for methods of whole trees */
} md_trees;
#define MD_TREES_INIT \
    { sizeof(md_trees), 0, 0, NULL, NULL, NULL, NULL, NULL, 0 }

/* Grammar masks and biases (logit bias, penalties), applied while rows are read. Node i of the batch, counted over all
 * requests, has mask allowed_of[i] and bias bias_of[i]: none if that is negative, number i if the array is NULL. In
 * md_draft, i is the entry of the level. The results have the same bits as with rows that were changed beforehand.
 * Callers whose struct ends before allowed_count are trusted to have a mask of every number that they use; for them a
 * stride of 0 is one mask for all. */
typedef struct md_adjustments {
    size_t size;
    uint32_t const* allowed;     /* masks: bit t % 32 of word t / 32 is 1 if token t is allowed; NULL: none */
    int64_t allowed_stride;      /* words from one mask to the next, a bit a token; 0: no gap between masks */
    int64_t const* allowed_of;   /* may be NULL */
    int32_t const* bias_tokens;  /* of all biases, one after another; increasing within a bias */
    float const* bias_values;    /* added to the logits of these tokens; minus infinity forbids one */
    int64_t bias_entries;        /* of these two arrays; 0: no biases */
    int64_t const* bias_offsets; /* bias r: entries bias_offsets[r] to bias_offsets[r + 1] - 1; NULL: one for all */
    int64_t bias_count;          /* number of biases: bias_offsets has one entry more; ignored if that is NULL */
    int64_t const* bias_of;      /* may be NULL */
    int64_t allowed_count;       /* number of masks, required with `allowed`; 1: one mask for all nodes */
} md_adjustments;
#define MD_ADJUSTMENTS_INIT \
    { sizeof(md_adjustments), NULL, 0, NULL, NULL, NULL, 0, NULL, 0, NULL, 0 }

/* The rows of a batch, read in place: row r begins at entry r * row_stride of `data`. Node i of the batch, counted over
 * all requests, has row row_of[i], or row i if row_of is NULL. In md_draft, i is the entry of the level.
 *
 * A draft that gives a few tokens of each row has `candidates`: the logit at entry e of `data` is that of token
 * candidates[e], and tokens without one have no mass. Children are drawn from such rows and verified with them. */
typedef struct md_rows {
    size_t size;
    int32_t kind;  /* an md_rows_kind */
    int32_t dtype; /* an md_dtype */
    void const* data;
    int64_t row_stride; /* entries from one row to the next, at least those of a row; 0: these */
    int32_t vocabulary; /* entries of a row; with `candidates`: the tokens that there are */
    int64_t const* row_of;
    md_sampling const* sampling; /* of logits, one per request; NULL: default_sampling for all */
    md_sampling default_sampling;
    md_adjustments const* adjustments; /* masks and biases, MD_LOGITS only; NULL: none */
    int32_t const* candidates;         /* of the draft's rows, MD_LOGITS in MD_FLOAT32 without adjustments, on host
                                        * threads: laid out as `data`, increasing within a row; NULL: whole rows */
    int64_t candidate_count;           /* of each row, 1 to `vocabulary`; ignored without `candidates` */
} md_rows;
#define MD_ROWS_INIT \
    { sizeof(md_rows), MD_LOGITS, MD_FLOAT32, NULL, 0, 0, NULL, NULL, MD_SAMPLING_INIT, NULL, NULL, 0 }

/* The inputs of each request's draws, `requests` entries each. Equal seeds, ids and positions give equal draws in any
 * batch: without ids, md_verify refuses a batch that has a seed and a position twice. */
typedef struct md_requests {
    size_t size;
    uint64_t const* seeds;
    int32_t const* positions; /* of each request's root in its text, from 0 */
    uint32_t const* ids;      /* distinguishes requests with equal seeds; NULL: all 0 */
} md_requests;
#define MD_REQUESTS_INIT \
    { sizeof(md_requests), NULL, NULL, NULL }

/* The nodes to draw children for, such as a level of every tree: entry e is node nodes[e] of request requests[e], by
 * its number in that request's tree: the root is 0, its first child 1. */
typedef struct md_level {
    size_t size;
    int32_t entries;
    int32_t const* requests;
    int32_t const* nodes;
    int32_t const* wanted; /* number of children of each; NULL: md_children.stride, without md_children.first */
    int32_t const* depths; /* levels below the root; may be NULL unless md_method_info.drawn_by_text */
} md_level;
#define MD_LEVEL_INIT \
    { sizeof(md_level), 0, NULL, NULL, NULL, NULL }

/* The output of md_draft: the children of entry e begin at tokens + e * stride, with space for `stride` children each,
 * or where `first` is given at tokens + first[e], with space for wanted[e]. Where no token is left to draw a child is
 * MD_SUPPORT_ENDED. Beyond wanted[e] it is MD_PADDING up to `stride`; with `first` nothing is written there, and
 * `stride` is not read. */
typedef struct md_children {
    size_t size;
    int32_t* tokens;
    int64_t const* first;
    int64_t stride;
    int32_t* counts;           /* number drawn for each entry; may be NULL */
    int32_t* certain;          /* number that are certain; may be NULL unless md_method_info.counts_certain */
    int64_t const* node_index; /* index in `certain` of entry e's number; NULL: e. md_trees.certain is by node, so for
                                * it this is the node's number in the batch; nodes without children have 0 */
} md_children;
#define MD_CHILDREN_INIT \
    { sizeof(md_children), NULL, NULL, 0, NULL, NULL, NULL }

/* The output of md_verify. For request b: accepted[b], the number of accepted nodes, root excluded; these nodes in
 * order from path + b * path_stride, where path_stride is at least the depth of the deepest tree, or from path +
 * offsets[b] if path_stride is 0; next[b], the token that follows them. A request with logits that are no distribution
 * gets 0 nodes and token -1; other requests are not affected. Whether probabilities sum to 1 is seen by md_validate
 * alone. */
typedef struct md_verdicts {
    size_t size;
    int32_t* path;
    int64_t path_stride;
    int32_t* accepted;
    int32_t* next;
} md_verdicts;
#define MD_VERDICTS_INIT \
    { sizeof(md_verdicts), NULL, 0, NULL, NULL }

/* Draws the children of the nodes of a level with the method's sampler, from rows of the draft's logits. Allocates
 * nothing. A node's number in its tree addresses its draws, so level.nodes is required: the same number twice would
 * draw the same children, and the text would not have the target's distribution. MD_INVALID_INPUT for a node of a
 * request that two entries name, or two requests of one seed and position without ids, except for methods of the law
 * "deterministic"; and for invalid entries of the level, sampling parameters and arrays. The children of a row that is
 * not a distribution are MD_SUPPORT_ENDED, and md_validate reports the row. */
MD_API md_status md_draft(md_method const* method, md_pool* pool, md_level const* level, md_rows const* rows,
                          md_requests const* requests, md_children const* children);

/* The bytes of workspace of md_verify on this pool, for up to `requests` trees of up to `nodes` nodes and `depth`
 * levels below the root: 0 for methods that decide node by node. */
MD_API md_status md_verify_workspace_size(md_method const* method, md_pool* pool, int32_t requests, int32_t nodes,
                                          int32_t depth, size_t* bytes);

/* Verifies the trees of a batch. `draft` may be NULL for methods that do not read it. The rows of target and draft have
 * the same kind, dtype (but for candidates) and vocabulary, each with its own adjustments: those of `draft` are the
 * ones that its children were drawn with, and so are its rows, of all levels, which therefore stay where they are until
 * then. `workspace`: md_verify_workspace_size bytes, aligned to 16. If it is NULL the call allocates it; otherwise
 * nothing is allocated.
 *
 * MD_INVALID_INPUT names argument, index and value, for: invalid trees, trees of another law than the method's (with
 * the methods that verify them), tokens outside the vocabulary, children that the law cannot produce, sampling
 * parameters out of range, a bias whose tokens do not increase, a path that is too short. A fault that is found only
 * while rows are read affects its request alone. */
MD_API md_status md_verify(md_method const* method, md_pool* pool, md_trees const* trees, md_rows const* target,
                           md_rows const* draft, md_requests const* requests, md_verdicts const* verdicts,
                           void* workspace, size_t workspace_size);

/* Checks a batch including its rows; MD_INVALID_INPUT names the first fault. One pass over all rows: for developing an
 * engine, not for every step. What it cannot know: whether children were drawn at the addresses of their nodes and from
 * all of the draft's rows, and how many of those that may be certain are. */
MD_API md_status md_validate(md_method const* method, md_pool* pool, md_trees const* trees, md_rows const* target,
                             md_rows const* draft, md_requests const* requests);

/* Writes the distributions that methods draw from and verify with, count * vocabulary floats: of rows 0 to count - 1,
 * or of row_of[0] to row_of[count - 1]. Row i is processed with sampling[i], or with default_sampling if that is NULL.
 * MD_INVALID_INPUT for a row that is not a distribution, with i as md_error.index; nothing has been written then. Two
 * passes over each row. */
MD_API md_status md_distributions(md_rows const* rows, int64_t count, float* out);

/* --- Trees --- */

/* Parses a shape: "4x2x2x1" (children of each node, level by level), "fork:3x4", "chain:5", "[[0], [1], [0, 0]]"
 * (choice lists) or "[-1 0 0 1]" (parents). Writes the number of nodes, and their parents if `parents`, of `capacity`
 * entries, is not NULL. MD_INVALID_INPUT if `capacity` is too small; *nodes has been written then. */
MD_API md_status md_parse_shape(char const* text, int32_t* parents, int64_t capacity, int64_t* nodes);

/* Checks that `parents` is a tree in level order, and writes each node's number of levels below the root to `depths`,
 * unless that is NULL. O(nodes). */
MD_API md_status md_tree_depths(int32_t const* parents, int64_t nodes, int32_t* depths);

/* Brings a tree with nodes in any order into level order: order[i] is the input's number of node i, level_parents[i]
 * its parent in the new order. Children of a node keep their order; within a level, nodes are in the order of their
 * parents. Either output may be NULL. */
MD_API md_status md_level_order(int32_t const* parents, int64_t nodes, int32_t* order, int32_t* level_parents);

/* Writes the packed mask of a tree: `nodes` rows of row_words words, at least (nodes + 63) / 64. Bit j % 64 of word j /
 * 64 of row i is 1 if node j is node i or an ancestor of it. Parents come before their children. */
MD_API md_status md_write_mask(int32_t const* parents, int64_t nodes, uint64_t* words, int64_t row_words);

/* The same as bytes, 1 or 0: `context` columns of ones, then one column per node. Rows are row_stride bytes apart. */
MD_API md_status md_write_mask_bytes(int32_t const* parents, int64_t nodes, int64_t context, uint8_t* out,
                                     int64_t row_stride);

/* The same as numbers of an md_dtype to add to attention scores, 0 or minus infinity. Rows are row_stride entries
 * apart. */
MD_API md_status md_write_mask_bias(int32_t const* parents, int64_t nodes, int64_t context, int32_t dtype, void* out,
                                    int64_t row_stride);

/* Writes the position of each node in the text: `context`, the number of tokens before the root, plus its depth. */
MD_API md_status md_write_positions(int32_t const* parents, int64_t nodes, int32_t context, int32_t* positions);

/* --- Caches --- */

/* One dimension of a cache around its entries, such as layers, keys and values, heads. Its size is fixed, as it is an
 * element of arrays. */
typedef struct md_axis {
    int64_t count;
    int64_t stride; /* elements from one to the next */
} md_axis;

/* The layout of a cache: element e of entry t of plane (i, j, ..) is element i * axes[0].stride + j * axes[1].stride +
 * .. + t * entry_stride + e of `data`. */
typedef struct md_cache {
    size_t size;
    void* data;
    int64_t element_size; /* bytes of an element */
    md_axis const* axes;  /* NULL for a single plane */
    int32_t axis_count;
    int64_t entries;      /* in use, including the context's */
    int64_t entry_stride; /* elements from one entry to the next */
    int64_t entry_size;   /* contiguous elements of an entry */
} md_cache;
#define MD_CACHE_INIT \
    { sizeof(md_cache), NULL, 1, NULL, 0, 0, 0, 0 }

/* Compacts a cache in place: its first `context` entries stay, and entries context + kept[k] follow them; kept[k]
 * increases with k. Writes the new number of entries to `entries`, unless that is NULL. */
MD_API md_status md_compact(md_cache const* cache, int64_t context, int32_t const* kept, int64_t kept_count,
                            int64_t* entries);

/* --- CUDA --- */

/* The calls above as launches on a stream. Except for md_cuda_validate they neither allocate nor wait, and may be
 * captured in a graph. Structs are in host memory and read during the call; their pointers are to device memory, except
 * md_trees.law and axes. `stream` is a cudaStream_t, NULL for the default stream. Rows are MD_LOGITS without
 * adjustments. The results have the same bits as on the host. The kernels have run on an H100; these launches have been
 * compiled, and their refusals tested where there is no device.
 *
 * md_has_cuda returns 1, or 0 for a library built without CUDA (MULTIDRAFT_LIBRARY_CUDA): the other functions then
 * return MD_UNAVAILABLE. An error of CUDA is MD_SYSTEM with its name. Arrays in device memory are not checked: an
 * invalid tree and a row that is not a distribution give the token -1, and md_cuda_validate reports the reason. */
MD_API int32_t md_has_cuda(void);

/* The bytes of device memory for the workspace of md_cuda_draft, for levels of up to `entries` nodes, aligned to 256
 * bytes as by cudaMalloc. The workspace may be NULL; the call is then slower for few entries. */
MD_API md_status md_cuda_draft_workspace_size(int32_t entries, size_t* bytes);
MD_API md_status md_cuda_draft(md_method const* method, void* stream, md_level const* level, md_rows const* rows,
                               md_requests const* requests, md_children const* children, void* workspace,
                               size_t workspace_size);

/* The same for md_cuda_verify, for up to `requests` trees of up to `nodes` nodes; `depth` is md_verdicts.path_stride,
 * or `nodes` if that is 0. Methods that decide node by node need no workspace; the others do, and read
 * md_trees.largest. */
MD_API md_status md_cuda_verify_workspace_size(md_method const* method, int32_t requests, int32_t nodes, int32_t depth,
                                               size_t* bytes);
MD_API md_status md_cuda_verify(md_method const* method, void* stream, md_trees const* trees, md_rows const* target,
                                md_rows const* draft, md_requests const* requests, md_verdicts const* verdicts,
                                void* workspace, size_t workspace_size);

/* Checks a batch including its rows, waits for the stream, and returns the status of md_validate. */
MD_API md_status md_cuda_validate_workspace_size(size_t* bytes);
MD_API md_status md_cuda_validate(md_method const* method, void* stream, md_trees const* trees, md_rows const* target,
                                  md_rows const* draft, md_requests const* requests, void* workspace,
                                  size_t workspace_size);

/* Writes the packed masks of all trees: row offsets[b] + i is that of node i of request b. Tokens and law are not read.
 */
MD_API md_status md_cuda_write_masks(void* stream, md_trees const* trees, uint64_t* words, int64_t row_words);

/* Dense masks from packed ones, as bytes or as numbers to add to attention scores. Request b has contexts[b] (NULL: 0)
 * columns that every node attends to, one column per node of its tree, and masked columns up to `columns`. */
typedef struct md_dense_masks {
    size_t size;
    void* data;
    int64_t columns;
    int64_t row_stride;      /* entries from one row to the next, columns or more */
    int64_t const* contexts; /* one per request; may be NULL */
} md_dense_masks;
#define MD_DENSE_MASKS_INIT \
    { sizeof(md_dense_masks), NULL, 0, 0, NULL }
MD_API md_status md_cuda_write_mask_bytes(void* stream, md_trees const* trees, uint64_t const* words, int64_t row_words,
                                          md_dense_masks const* out);
MD_API md_status md_cuda_write_mask_bias(void* stream, md_trees const* trees, uint64_t const* words, int64_t row_words,
                                         int32_t dtype, md_dense_masks const* out);

/* Writes the position of each node: positions[b], that of the root of request b, plus the node's depth. */
MD_API md_status md_cuda_write_positions(void* stream, md_trees const* trees, int32_t const* positions, int32_t* out);

/* Brings trees with nodes in any order into level order, as md_level_order does: the parents of node i of request b are
 * written to level_parents[offsets[b] + i], its number in the input to `order`, and offsets[b] + this number, its row
 * in arrays in the order of the input, to `rows`. Each request keeps its number of nodes. faults[b] is the number of
 * nodes that are not connected to the root of request b: 0 for a tree. All outputs but `level_parents` may be NULL; the
 * inputs are not overwritten. Tokens and law are not read. Without a device both calls return MD_SYSTEM. */
MD_API md_status md_cuda_level_order_workspace_size(int64_t nodes, size_t* bytes);
MD_API md_status md_cuda_level_order(void* stream, md_trees const* trees, int32_t* level_parents, int32_t* order,
                                     int64_t* rows, int32_t* faults, void* workspace, size_t workspace_size);

/* The layout of the caches of all requests, in bytes: entry t of plane (i, j, ..) of request b is at b * request_stride
 * + i * axes[0].stride + .. + t * entry_stride. With pages it is entry t % page_entries of page pages[b * pages_stride
 * + t / page_entries] instead, whose pages are page_stride apart. At most four axes, in host memory.
 *
 * Engines with an allocation for the keys and for the values of each layer give a list of `listed` addresses in the
 * place of `data`: caches of the same layout, which are compacted in one launch. */
typedef struct md_cuda_cache {
    size_t size;
    void* data;
    int64_t request_stride;
    int64_t entry_stride;
    int64_t entry_bytes; /* contiguous bytes of an entry */
    md_axis const* axes; /* NULL for a single plane */
    int64_t axis_count;
    int32_t const* pages; /* NULL: no pages */
    int64_t pages_stride;
    int64_t page_entries;
    int64_t page_stride;
    void* const* list; /* in device memory; NULL: `data` */
    int64_t listed;
    int64_t list_alignment; /* bytes: divides all addresses of the list; with 16 or more, entries move the fastest */
} md_cuda_cache;
#define MD_CUDA_CACHE_INIT \
    { sizeof(md_cuda_cache), NULL, 0, 0, 0, NULL, 0, NULL, 0, 0, 0, NULL, 1, 1 }

/* Compacts the caches of all requests in place: the entries of the accepted nodes move behind the root's, which is
 * entry bases[b]. `verdicts` is the output of md_cuda_verify with a path_stride of 1 or more. */
MD_API md_status md_cuda_compact(void* stream, md_cuda_cache const* cache, int32_t requests,
                                 md_verdicts const* verdicts, int64_t const* bases);

/* --- Analysis --- */

/* The largest acceptance rate that any lossless verifier attains for n children drawn by a law: "iid", "sequential",
 * "conditional_poisson", "stratified", "top_then_one", "top_paired" (n = 2) or "deterministic". p and q: the target's
 * and the draft's probabilities of `vocabulary` tokens. */
MD_API md_status md_alpha_star(char const* law, double const* p, double const* q, int64_t vocabulary, int32_t n,
                               double* rate);

/* How acceptance rates are estimated: the number of samples and the seed. */
typedef struct md_estimation {
    size_t size;
    int64_t samples;
    uint64_t seed;
} md_estimation;
#define MD_ESTIMATION_INIT \
    { sizeof(md_estimation), 16384, 1 }

/* The acceptance rate of a method at one node with n children: the probability that one of them is accepted. *error is
 * its standard error, 0 if the rate is exact. `error` and `how` may be NULL. MD_INVALID_INPUT for methods whose rate
 * has no formula, those of whole paths and trees: see md_estimate_acceptance. */
MD_API md_status md_acceptance(md_method const* method, double const* p, double const* q, int64_t vocabulary, int32_t n,
                               md_estimation const* how, double* rate, double* error);

/* The same for every method, estimated by how->samples runs of its sampler and its verifier over rows of single
 * precision. The numbers depend on the seed alone, not on the pool. by_rank, n entries or NULL: how often the child of
 * each rank, in the order drawn, is the accepted one; their sum is the rate. Uses memory for some thousand trees, and
 * time for a pass over both rows per run. */
MD_API md_status md_estimate_acceptance(md_method const* method, md_pool* pool, double const* p, double const* q,
                                        int64_t vocabulary, int32_t n, md_estimation const* how, double* rate,
                                        double* error, double* by_rank);

/* A linear program: maximise the sum of gain[c] x[c] over x >= 0 such that for each row r the sum of value * x[column]
 * over its entries is at most bound[r] >= 0. No two entries have the same row and column. */
typedef struct md_linear_program {
    size_t size;
    int64_t columns;
    int64_t rows;
    int64_t entries;
    double const* gain;           /* one per column */
    double const* bound;          /* one per row */
    int64_t const* entry_rows;    /* the row of each entry, .. */
    int64_t const* entry_columns; /* .. its column, .. */
    double const* entry_values;   /* .. and its value */
} md_linear_program;

/* Solves a linear program: writes its optimal value and returns 0, or returns another number if it fails. */
typedef int32_t (*md_solve)(void* solver, md_linear_program const* program, double* value);

/* A model over a few tokens: its probabilities after a prefix of `length` tokens, or NULL if it has none. The array is
 * read before the next call. */
typedef double const* (*md_model_row)(void* model, int32_t const* prefix, int64_t length);

/* The largest mean number of accepted tokens that any lossless verifier attains for trees with children[l] children per
 * node at level l, drawn by a law: "iid", "sequential" or "stratified". For one level it is md_alpha_star. The linear
 * program grows with the number of trees that can be drafted, so this is for three or four tokens and two or three
 * levels; the library has no solver. theta: the threshold of the rule of certain children of "stratified", 0.7 in the
 * library's samplers. */
MD_API md_status md_tree_limit(char const* law, int64_t vocabulary, int32_t const* children, int32_t levels,
                               md_model_row target, void* target_model, md_model_row draft, void* draft_model,
                               double theta, md_solve solve, void* solver, double* limit);

/* The number of tokens emitted per target call, from the acceptance rate of each of `levels` levels, given that the
 * levels above were accepted. */
MD_API md_status md_block_efficiency(double const* rates, int64_t levels, double* efficiency);

/* The speed-up of decoding by a chain of `depth` tokens with acceptance rate alpha, if a draft call takes the time of
 * `cost` target calls. */
MD_API md_status md_improvement_factor(double alpha, int32_t depth, double cost, double* factor);

/* The depth with the largest such factor, 0 if drafting gains nothing. MD_INVALID_INPUT if the factor has no maximum.
 * */
MD_API md_status md_best_depth(double alpha, double cost, int32_t* depth);

/* The memory-bound speed-up: efficiency / (depth * size_ratio + 1), with size_ratio = draft's size / target's size. */
MD_API md_status md_memory_bound_speed_up(double efficiency, int32_t depth, double size_ratio, double* factor);

/* The tree of at most `nodes` nodes below the root with the most expected accepted nodes. rates[l * ranks + k]: the
 * probability that the child of rank k at a node of level l is the accepted one. Writes the tree to `parents`, of nodes
 * + 1 entries, its number of nodes including the root to *count, and the expectation to `accepted`, unless NULL. */
MD_API md_status md_optimal_tree(double const* rates, int32_t levels, int32_t ranks, int32_t nodes, int32_t* parents,
                                 int64_t* count, double* accepted);

/* The expected number of accepted nodes of a tree, with rates as in md_optimal_tree. Block efficiency is one more. */
MD_API md_status md_expected_accepted(int32_t const* parents, int64_t nodes, double const* rates, int32_t levels,
                                      int32_t ranks, double* accepted);

/* --- Trees chosen at each step --- */

/* Chooses the tree of each step, or none, with the most expected tokens per second, by the times of calls and by what
 * was accepted before, and bounds the loss compared with drafting nothing. The law of the text does not change: a
 * choice depends on earlier steps only. One thread may use a controller at a time. */
typedef struct md_controller md_controller;

/* Seconds of a step's calls, at least roughly. A model's calls: `points` numbers of rows, 1 or more and increasing, and
 * the seconds of a call with so many; linear between them and beyond the last. */
typedef struct md_step_times {
    size_t size;
    int32_t const* target_rows;
    double const* target_seconds;
    int64_t target_points; /* 1 or more */
    int32_t const* draft_rows;
    double const* draft_seconds;
    int64_t draft_points; /* 1 or more */
    double step;          /* apart from the models' calls, of every step .. */
    double inner;         /* .. and of every node with children */
} md_step_times;
#define MD_STEP_TIMES_INIT \
    { sizeof(md_step_times), NULL, NULL, 0, NULL, NULL, 0, 0, 0 }

typedef struct md_controller_options {
    size_t size;
    int32_t nodes;         /* of a tree at most, the root not counted, 0 to 256 */
    int32_t depth;         /* levels, 0 to 32 */
    int32_t children;      /* of a node at most, 1 to 8 */
    int32_t explore_every; /* steps between those that try rates one standard deviation higher; 0: never */
    int32_t search_every;  /* trees between searches for the optimal trees of the rates; 0: never */
    int32_t learns_times;  /* 0: the times stay as given, so that choices do not depend on a clock */
    double memory;         /* steps after which a step has weight 1/e, 1 or more */
    double prior;          /* the rate at which one child is accepted before anything is counted, 1e-6 to 1 - 1e-6 */
    double slack;          /* the fraction of the time that may be lost compared with drafting nothing .. */
    double credit;         /* .. and an additional allowance in steps for each text */
} md_controller_options;
#define MD_CONTROLLER_OPTIONS_INIT \
    { sizeof(md_controller_options), 16, 6, 4, 32, 8, 1, 100, 0.6, 0.0125, 1 }

/* options: NULL for the defaults. */
MD_API md_status md_make_controller(md_step_times const* times, md_controller_options const* options,
                                    md_controller** controller);

/* Frees a controller, once. NULL has no effect. */
MD_API void md_free_controller(md_controller* controller);

/* A new text begins. */
MD_API md_status md_start_text(md_controller* controller);

/* Chooses the shape of the next tree, with `depth` levels at most. `unread`: the tokens of the text that the draft has
 * not read, the root included, 1 or more. Writes the tree's parents (level order, the root alone: draft nothing) to
 * `parents`, of options.nodes + 1 entries, and its number of nodes to *nodes. */
MD_API md_status md_choose_tree(md_controller* controller, int32_t depth, int32_t unread, int32_t* parents,
                                int64_t* nodes);

/* Counts a step with the tree that was chosen last. nodes: how many of its nodes were drafted: all, or its first
 * levels. path: the accepted nodes, `accepted` of them, without the root, as md_verify writes them. The seconds of the
 * step: negative if they were not measured. Several texts with one tree: one call for each, with its share of the
 * seconds. */
MD_API md_status md_learn_step(md_controller* controller, int64_t nodes, int32_t const* path, int64_t accepted,
                               double target_seconds, double draft_seconds, double other_seconds);

/* The current seconds of a call by the number of its rows, as given and learnt: *target and *draft; and of the rest, as
 * in md_step_times. */
MD_API md_status md_current_times(md_controller const* controller, int32_t rows, double* target, double* draft,
                                  double* step, double* inner);

/* --- A step of many requests --- */

/* One step of an engine's batch, with the arrays that it needs: md_start_step; md_add_request for each; while
 * md_next_level gives inputs, the draft reads them and md_draw_level draws the children of their nodes; the target
 * reads md_target_inputs; md_verify_step; md_finish_request for each. Calls out of turn are MD_INVALID_INPUT. A
 * request's text depends neither on its neighbours nor on threads, bit for bit. Memory is kept from step to step. One
 * thread may use a step at a time; its calls use `pool`. */
typedef struct md_step md_step;

typedef struct md_step_request {
    size_t size;
    int32_t const* text; /* the tokens so far, prompt included; the last one is the root. Read until md_verify_step */
    int64_t text_size;   /* 1 or more */
    int32_t const* parents; /* the shape of the tree, in level order; read during the call */
    int32_t nodes;          /* 0: no tree, one token without a draft */
    uint32_t id;            /* distinguishes requests with equal seeds, such as several samples of one prompt */
    uint64_t seed;
    md_sampling sampling;              /* of the target's rows */
    md_sampling const* draft_sampling; /* of the draft's rows; NULL: `sampling` */
    int32_t in_target; /* how many of the first tokens of the text the target's cache holds: fewer than all .. */
    int32_t in_draft;  /* .. and the draft's */
} md_step_request;
#define MD_STEP_REQUEST_INIT \
    { sizeof(md_step_request), NULL, 0, NULL, 0, 0, 0, MD_SAMPLING_INIT, NULL, 0, 0 }

/* What a model reads in one call. Input k is a token of request requests[k], at positions[k] of its text; the model
 * writes keys and values to entry entries[k] of the request's cache and logits to row first_row + k. It attends to all
 * entries before those of the step, to its ancestors in the step and to itself: md_write_step_mask. The arrays are the
 * step's, valid until its next call. */
typedef struct md_step_inputs {
    size_t size;
    int64_t count; /* 0: nothing to read */
    int32_t const* tokens;
    int32_t const* positions;
    int32_t const* requests;
    int32_t const* entries;
    int64_t const* offsets; /* requests + 1: where the inputs of each request begin */
    int64_t first_row;      /* rows are numbered over all calls of the model in the step */
    int64_t const* scored;  /* the inputs whose rows are read, increasing */
    int64_t scored_count;
    int64_t mask_words; /* of an input's row in md_write_step_mask */
} md_step_inputs;
#define MD_STEP_INPUTS_INIT \
    { sizeof(md_step_inputs), 0, NULL, NULL, NULL, NULL, NULL, 0, NULL, 0, 0 }

/* The outcome of a request. The arrays are the step's; kept entries are valid until the next md_finish_request. */
typedef struct md_step_result {
    size_t size;
    int32_t const* tokens; /* by which the text grows; none if a row that was read was no distribution, or the request
                            * only reads. Where the draft's root row was none, its tree has no nodes: one token */
    int64_t token_count;
    int32_t const* path; /* the accepted nodes, the root excluded */
    int64_t accepted;
    int32_t in_target;      /* how many tokens of the grown text the target's cache holds after the compaction .. */
    int32_t in_draft;       /* .. and the draft's, which lacks an accepted leaf */
    int64_t target_context; /* arguments of md_compact for the request's entries in the target's cache; if
                             * kept_in_target_count is 0 nothing is to be moved */
    int32_t const* kept_in_target;
    int64_t kept_in_target_count;
    int64_t draft_context; /* the same for the draft's cache */
    int32_t const* kept_in_draft;
    int64_t kept_in_draft_count;
} md_step_result;
#define MD_STEP_RESULT_INIT \
    { sizeof(md_step_result), NULL, 0, NULL, 0, 0, 0, 0, NULL, 0, 0, NULL, 0 }

MD_API md_status md_make_step(md_step** step);

/* Frees a step, once. NULL has no effect. */
MD_API void md_free_step(md_step* step);

/* Begins a step without requests. */
MD_API md_status md_start_step(md_step* step);

/* Adds a request, and writes its number in the step, from 0, to *number unless that is NULL. Requests of one method
 * that follow one another are drawn and verified in one call. MD_INVALID_INPUT for the seed and the id of
 * another request of the step: both would have the same draws wherever their texts have one length. */
MD_API md_status md_add_request(md_step* step, md_method const* method, md_step_request const* request,
                                int32_t* number);

/* Adds a request whose text both models only read, to its end: a piece of a prompt, without its last token, which is
 * the root of the first tree. After all that are decoded. With in_draft of the text's length the draft reads nothing,
 * as of a text that is beyond its context. */
MD_API md_status md_add_reading(md_step* step, md_step_request const* request, int32_t* number);

/* What the draft reads next: first what its caches lack of the texts, and the roots; then the nodes of the next level
 * that are to have children. */
MD_API md_status md_next_level(md_step* step, md_step_inputs* inputs);

/* Draws the children of these nodes. draft: MD_LOGITS, indexed by input (first_row + k) as their masks and biases are;
 * `sampling` is NULL and default_sampling not read, since a step has the parameters of its requests. The rows of all
 * levels are read again by md_verify_step: with as many candidates, or all tokens, and not in a narrower type. */
MD_API md_status md_draw_level(md_step* step, md_pool* pool, md_rows const* draft);

/* What the target reads: what its caches lack of the texts, the roots, and the nodes that were drawn. */
MD_API md_status md_target_inputs(md_step* step, md_step_inputs* inputs);

/* Writes whom the inputs returned last attend to, inputs.count rows of inputs.mask_words words: bit j % 64 of word j /
 * 64 of row k is 1 if input k attends to the j-th entry of its request's cache that the step writes. `count`: of all
 * words. */
MD_API md_status md_write_step_mask(md_step const* step, uint64_t* words, int64_t count);

/* Verifies all trees. target: row k for input k of md_target_inputs; draft: as at the draws, with their masks and
 * biases, NULL if nothing was drawn. As for md_draw_level `sampling` is NULL. */
MD_API md_status md_verify_step(md_step* step, md_pool* pool, md_rows const* target, md_rows const* draft);

/* The outcome of a request. */
MD_API md_status md_finish_request(md_step* step, int32_t number, md_step_result* result);

#ifdef __cplusplus
}
#endif

#endif
