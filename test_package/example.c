// One verification by the compiled library: its default method draws a child and verifies it.
#include <stdio.h>

#include "multidraft.h"

static int say(char const* what) {
    printf("%s: %s\n", what, md_last_message());
    return 1;
}

int main(void) {
    // Target and draft are sure of token 1, and then of token 2.
    float const logits[6] = {0.0F, 99.0F, 0.0F, 0.0F, 0.0F, 99.0F};
    int64_t const offsets[2] = {0, 2};
    int32_t const parents[2] = {-1, 0};
    int32_t const zero = 0;
    int32_t tokens[2] = {0, -1}, certain[2] = {0, 0}, path[2], accepted = 0, next = -1;
    uint64_t const seed = 42;
    md_method const* method = NULL;
    md_method_info info = MD_METHOD_INFO_INIT;
    if (md_find_method(md_method_name(0), &method) != MD_OK) return say("no method");
    if (md_describe_method(method, &info) != MD_OK) return say("no description");
    md_rows rows = MD_ROWS_INIT;
    rows.data = logits;
    rows.row_stride = 3;
    rows.vocabulary = 3;
    md_requests requests = MD_REQUESTS_INIT;
    requests.seeds = &seed;
    requests.positions = &zero;
    md_level level = MD_LEVEL_INIT;
    level.entries = 1;
    level.requests = &zero;
    level.nodes = &zero;
    level.depths = &zero;
    md_children children = MD_CHILDREN_INIT;
    children.tokens = tokens + 1;
    children.stride = 1;
    children.certain = certain;
    if (md_draft(method, NULL, &level, &rows, &requests, &children) != MD_OK) return say("no child");
    md_trees trees = MD_TREES_INIT;
    trees.requests = 1;
    trees.nodes = 2;
    trees.offsets = offsets;
    trees.parents = parents;
    trees.tokens = tokens;
    trees.certain = certain;
    trees.law = info.law;
    md_verdicts verdicts = MD_VERDICTS_INIT;
    verdicts.path = path;
    verdicts.accepted = &accepted;
    verdicts.next = &next;
    if (md_verify(method, NULL, &trees, &rows, &rows, &requests, &verdicts, NULL, 0) != MD_OK) return say("no verdict");
    printf("%s: accepted %d, next token %d\n", info.name, (int)accepted, (int)next);
    return tokens[1] == 1 && accepted == 1 && next == 2 ? 0 : 1;
}
