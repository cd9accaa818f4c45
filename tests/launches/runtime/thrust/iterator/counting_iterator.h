// The part of Thrust's counting_iterator that is used.
#pragma once

namespace thrust {

template <class T>
struct counting_iterator {
    T at;
    explicit counting_iterator(T begin) : at(begin) {}
};

}  // namespace thrust
