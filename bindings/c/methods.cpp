// SPDX-License-Identifier: Apache-2.0
#include "methods.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "errors.hpp"
#include "kernels.hpp"
#include "multidraft.h"
#include "multidraft/base/config.hpp"
#include "multidraft/draft/sampler.hpp"
#include "multidraft/methods/list.hpp"
#include "multidraft/verify/traits.hpp"
#include "multidraft/verify/verifier.hpp"

namespace MULTIDRAFT_NAMESPACE::c_interface {
namespace {

/// Every method with its texts as null-terminated strings.
struct known_methods {
    struct entry {
        md_method handle;
        std::string name;
        std::string summary;
        std::string law;
        bool drawn_by_text = false;
        bool decides_by_node = false;
        bool children_may_be_left_out = false;
    };
    std::array<entry, any_c_method::count> entries;

    known_methods() {
        for (std::size_t k = 0; k < entries.size(); ++k) {
            any_c_method const method = any_c_method::parse(any_c_method::names()[k]);
            entries[k] = {
                {method}, std::string(method.name()), std::string(method.summary()), std::string(method.law_name())};
        }
        std::size_t k = 0;
        library_methods::for_each([&]<class Method>(Method) {
            entries[k].drawn_by_text = Method::sampler::law::traits.addressed_by_text;
            entries[k].decides_by_node = verify::decides_by_node<typename Method::verifier>;
            entries[k].children_may_be_left_out = verify::children_may_be_left_out<typename Method::verifier>;
            ++k;
        });
    }
};

known_methods const& known() {
    static known_methods const all;
    return all;
}

std::int32_t shapes_of(allowed_trees trees) {
    switch (trees) {
        case allowed_trees::pairs:
            return MD_PAIRS;
        case allowed_trees::forks:
            return MD_FORKS;
        case allowed_trees::chains:
            return MD_CHAINS;
        case allowed_trees::any:
            break;
    }
    return MD_ANY_SHAPE;
}

}  // namespace
}  // namespace MULTIDRAFT_NAMESPACE::c_interface

using namespace multidraft;
using namespace multidraft::c_interface;

std::int32_t md_method_count(void) { return static_cast<std::int32_t>(any_c_method::count); }

char const* md_method_name(std::int32_t index) {
    if (index < 0 || index >= md_method_count()) return nullptr;
    char const* name = nullptr;
    static_cast<void>(guarded([&] { name = known().entries[static_cast<std::size_t>(index)].name.c_str(); }));
    return name;
}

md_status md_find_method(char const* name, md_method const** method) {
    return guarded([&] {
        refuse_null(name, "name");
        refuse_null(method, "method");
        *method = &known().entries[any_c_method::parse(name).index()].handle;
    });
}

md_status md_describe_method(md_method const* method, md_method_info* info) {
    return guarded([&] {
        any_c_method const m = method_of(method);
        // The struct of older callers ends before lists_may_be_shared.
        check_size(info, "info", {offsetof(md_method_info, lists_may_be_shared)});
        known_methods::entry const& e = known().entries[m.index()];
        info->name = e.name.c_str();
        info->summary = e.summary.c_str();
        info->law = e.law.c_str();
        info->shapes = shapes_of(m.trees());
        info->lossless = m.is_lossless() ? 1 : 0;
        info->reads_draft = m.reads_draft() ? 1 : 0;
        info->counts_certain = m.counts_certain() ? 1 : 0;
        info->drawn_by_text = e.drawn_by_text ? 1 : 0;
        info->decides_by_node = e.decides_by_node ? 1 : 0;
        if (info->size < sizeof(md_method_info)) return;
        info->lists_may_be_shared = m.lists_may_be_shared() ? 1 : 0;
        info->children_may_be_left_out = e.children_may_be_left_out ? 1 : 0;
    });
}
