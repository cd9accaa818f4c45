// Engine formats with Kokkos are those of host threads.
#include <gtest/gtest.h>

#include <Kokkos_Core.hpp>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "kokkos/machine.hpp"
#include "multidraft/kokkos/on.hpp"
#include "support/engine_formats.hpp"

namespace kokkos_engine_formats_test {
namespace {

using namespace multidraft;
namespace mt = multidraft::testing;

/// An array in the device's memory. Addresses are stored as integers: a view of pointers would have rank 2.
template <class T>
class on_machine {
    using held = std::conditional_t<std::is_pointer_v<T>, std::uintptr_t, T>;

public:
    explicit on_machine(std::vector<T> const& contents) : view_(mt::to_machine(as_held(contents))) {}
    [[nodiscard]] T* data() const { return reinterpret_cast<T*>(view_.data()); }
    [[nodiscard]] std::vector<held> host() const {
        Kokkos::fence();
        return mt::to_host(view_);
    }

private:
    static std::vector<held> as_held(std::vector<T> const& contents) {
        std::vector<held> result;
        for (T const& x : contents) {
            if constexpr (std::is_pointer_v<T>)
                result.push_back(reinterpret_cast<std::uintptr_t>(x));
            else
                result.push_back(x);
        }
        return result;
    }

    Kokkos::View<held*, mt::memory> view_;
};

TEST(kokkos_engine_formats, are_those_of_host_threads) {
    auto const got = mt::write_engine_formats<on_machine>(kokkos::on(mt::space()), [](auto const& call) { call(); });
    EXPECT_EQ(got, mt::engine_formats_of_host());
}

}  // namespace
}  // namespace kokkos_engine_formats_test
