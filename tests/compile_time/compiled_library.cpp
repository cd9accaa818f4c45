// The same as any_method.cpp by the compiled library, whose header is C's.
#include <multidraft.h>

#include <cstddef>
#include <cstdint>

md_status one_step(char const* name, md_trees const& tree, float const* p, float const* q, std::int32_t V,
                   md_sampling const& w, std::uint64_t seed, std::int32_t position, std::int32_t* path,
                   std::int64_t path_stride, std::int32_t* accepted, std::int32_t* next) {
    md_method const* method = nullptr;
    if (md_status const failed = md_find_method(name, &method); failed != MD_OK) return failed;
    md_rows target = MD_ROWS_INIT;
    target.data = p;
    target.vocabulary = V;
    target.default_sampling = w;
    md_rows draft = target;
    draft.data = q;
    md_requests requests = MD_REQUESTS_INIT;
    requests.seeds = &seed;
    requests.positions = &position;
    md_verdicts verdicts = MD_VERDICTS_INIT;
    verdicts.path = path;
    verdicts.path_stride = path_stride;
    verdicts.accepted = accepted;
    verdicts.next = next;
    return md_verify(method, nullptr, &tree, &target, &draft, &requests, &verdicts, nullptr, 0);
}
