// The location of the tests' models, and how much their logits may differ from one batch to another.
#pragma once

#include <llama.h>
#include <unistd.h>

#include <filesystem>
#include <stdexcept>
#include <string>
#include <string_view>

namespace multidraft::examples {

/// A file that make_models.py made, or `NAME-q4_k`, quantised from NAME-f32 by llama.cpp itself on first use.
inline std::string model_file(std::string const& name) {
    std::string const directory = std::string(MULTIDRAFT_LLAMA_MODELS) + "/";
    std::string const file = directory + name + ".gguf";
    if (!name.ends_with("-q4_k") || std::filesystem::exists(file)) return file;
    llama_model_quantize_params params = llama_model_quantize_default_params();
    params.ftype = LLAMA_FTYPE_MOSTLY_Q4_K_M;
    params.nthread = 1;
    std::string const source = directory + name.substr(0, name.size() - 4) + "f32.gguf";
    std::string const part = file + "." + std::to_string(getpid());  // of this process: others may do the same
    if (llama_model_quantize(source.c_str(), part.c_str(), &params) != 0)
        throw std::runtime_error(source + ": llama.cpp cannot quantise it");
    std::filesystem::rename(part, file);
    return file;
}

/// The largest difference between a logit in one batch and in another. Of float matrices it is rounding; inputs of
/// others are rounded to their kind of number, and products of few rows are other instructions than those of many.
inline double noise_of(std::string_view model) {
    if (model.ends_with("f32")) return 1e-4;
    return model.ends_with("bf16") ? 0.3 : 0.5;
}

}  // namespace multidraft::examples
