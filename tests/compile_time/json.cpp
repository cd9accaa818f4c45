// What compile times are compared with: a header-only library that is known to take its time.
#include <cstdio>
#include <nlohmann/json.hpp>

int main(int argc, char** argv) {
    auto const parsed = nlohmann::json::parse(argc > 1 ? argv[1] : R"({"tokens": [1, 2, 3], "text": "hello"})");
    std::puts(parsed.dump().c_str());
}
