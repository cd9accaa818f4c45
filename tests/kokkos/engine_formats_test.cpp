// The formats of engines by Kokkos: what host threads write.
#include <gtest/gtest.h>

#include <Kokkos_Core.hpp>
#include <vector>

#include "kokkos/machine.hpp"
#include "multidraft/kokkos/for_each_piece.hpp"
#include "multidraft/kokkos/on.hpp"
#include "support/engine_formats.hpp"

namespace {

using namespace multidraft;
namespace mt = multidraft::testing;

template <class T>
class on_machine {
public:
    explicit on_machine(std::vector<T> const& contents) : view_(mt::to_machine(contents)) {}
    [[nodiscard]] T* data() const { return view_.data(); }
    [[nodiscard]] std::vector<T> host() const {
        Kokkos::fence();
        return mt::to_host(view_);
    }

private:
    Kokkos::View<T*, mt::memory> view_;
};

TEST(kokkos_engine_formats, are_those_of_host_threads) {
    auto const got = mt::write_engine_formats<on_machine>(kokkos::on(mt::space()), [](auto const& call) { call(); });
    EXPECT_EQ(got, mt::engine_formats_of_host());
}

}  // namespace
