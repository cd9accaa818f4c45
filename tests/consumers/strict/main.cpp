// A program outside the repository whose files all include the library.
#include <string>

#include "multidraft/analysis/acceptance.hpp"
#include "multidraft/base/error.hpp"
#include "multidraft/tree/shapes.hpp"
#include "verify.hpp"

int main() {
    std::vector<std::int32_t> const parents{-1, 0, 0, 1};
    std::vector<std::int32_t> tokens(parents.size(), 0);
    int const vocabulary = 100;
    std::vector<float> rows(parents.size() * vocabulary);
    for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<float>(i % 7);
    // p equal to q: the first candidate is accepted, and the one below it.
    if (verify(parents, tokens, rows.data(), rows.data(), vocabulary, 1) / 1000 != 2) return 1;
    if (!every_method_decides()) return 2;
    try {
        multidraft::refuse("tokens", 1, -5, "outside the vocabulary");
    } catch (multidraft::invalid_input const& error) {
        return std::string(error.what()) == "tokens[1] = -5: outside the vocabulary" &&
                       multidraft::branching({2, 1}).size() == 5
                   ? 0
                   : 1;
    }
}
