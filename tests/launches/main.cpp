// Tests of launches: each begins on an H200 without errors and must leave no error and no device memory.
#include <gtest/gtest.h>

#include <string_view>

#include "launches/runtime/standin.hpp"

namespace {

struct fresh_device : testing::EmptyTestEventListener {
    void OnTestStart(testing::TestInfo const& info) override {
        // Tests that need no device run without one.
        bool const needs_one = std::string_view(info.test_suite_name()) != "cuda_empty";
        standin::reset(needs_one ? standin::h200() : standin::none());
    }
    void OnTestEnd(testing::TestInfo const& info) override {
        if (standin::fault().empty() && standin::allocated() + standin::pinned() == 0) return;
        ADD_FAILURE() << info.name() << ": " << standin::fault() << ", " << standin::allocated()
                      << " bytes of device memory and " << standin::pinned() << " of pinned memory are not freed";
    }
};

}  // namespace

int main(int argc, char** argv) {
    testing::InitGoogleTest(&argc, argv);
    testing::FLAGS_gtest_death_test_style = "threadsafe";  // blocks are threads
    testing::UnitTest::GetInstance()->listeners().Append(new fresh_device);
    standin::reset(standin::h200());  // in the processes of death tests listeners are not called
    return RUN_ALL_TESTS();
}
