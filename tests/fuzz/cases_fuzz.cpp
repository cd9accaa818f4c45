// The JSON cases of the program `acceptance`: refused, or rates between 0 and 1.
#include <cstdint>

#include "acceptance/cases.hpp"
#include "fuzz/files.hpp"

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
    using namespace multidraft;
    auto const path = fuzz::file_of("cases.json", data, size);
    return fuzz::reads_or_refuses([&] {
        auto const result = examples::rates_of_cases(path);
        for (auto const& one : result.at("cases"))
            for (auto const& [name, rate] : one.at("alpha").items())
                fuzz::require(rate.get<double>() >= 0 && rate.get<double>() <= 1 + 1e-9, name.c_str());
    });
}
