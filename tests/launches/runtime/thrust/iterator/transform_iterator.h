// The part of Thrust's transform_iterator that is used.
#pragma once

#include <cstdint>

namespace thrust {

template <class F, class Iterator>
struct transform_iterator {
    Iterator from;
    F function;

    [[nodiscard]] auto operator[](std::int64_t i) const { return function(from[i]); }
    [[nodiscard]] auto operator*() const { return function(*from); }
    [[nodiscard]] transform_iterator operator+(std::int64_t n) const { return {from + n, function}; }
};

template <class F, class Iterator>
[[nodiscard]] transform_iterator<F, Iterator> make_transform_iterator(Iterator from, F function) {
    return {from, function};
}

}  // namespace thrust
