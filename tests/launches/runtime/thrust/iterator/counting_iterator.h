// Thrust's counting_iterator, as far as it is used.
#pragma once

namespace thrust {

template <class T>
struct counting_iterator {
    T at;
    explicit counting_iterator(T begin) : at(begin) {}
};

}  // namespace thrust
