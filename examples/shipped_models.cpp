// Your own program on the shipped models: a method, or your own verifier, in a generation loop. README.md in this
// directory explains how to link it.
#include <cstdio>
#include <exception>
#include <filesystem>

#include "multidraft/decode/options.hpp"
#include "multidraft/decode/speculative.hpp"
#include "multidraft/draft/sequential.hpp"
#include "multidraft/tree/shape_text.hpp"
#include "multidraft/verify/recursive_rejection.hpp"
#include "transformer/tokenizer.hpp"
#include "transformer/transformer.hpp"

namespace md = multidraft;

// Put your own here: any verifier of the sampler's law.
using my_verifier = md::verify::recursive_rejection<md::law::sequential>;

int main(int argc, char** argv) try {
    std::filesystem::path const models = argc > 1 ? argv[1] : "models";
    md::examples::transformer target(models / "target");
    md::examples::transformer draft(models / "draft-distilled");
    md::examples::tokenizer const words(models / "tokenizer.model", target.vocabulary());
    md::generation_options options;
    options.max_tokens = 64;
    options.seed = 1;
    auto loop = md::make_speculative<md::draft::sequential, my_verifier>(target, draft, md::parse_shape("4x2"));
    auto const found = loop(words.encode("In the beginning"), options);
    std::printf("%s\n%.2f tokens a target call\n", words.decode(found.tokens).c_str(),
                found.metrics.block_efficiency());
} catch (std::exception const& e) {
    std::fprintf(stderr, "shipped_models: %s\n", e.what());
    return 1;
}
