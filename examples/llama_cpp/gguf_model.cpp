#include "llama_cpp/gguf_model.hpp"

#include <mutex>
#include <stdexcept>

#include "llama_cpp/api.hpp"

namespace multidraft::examples {
namespace {

/// llama.cpp's messages go to its log; errors are kept for exceptions.
class error_log {
public:
    static void start() {
        static std::once_flag once;
        std::call_once(once, [] {
            llama_log_set(&error_log::take, nullptr);
            ggml_backend_load_all();
            llama_backend_init();
        });
        clear();
    }
    static void clear() {
        std::lock_guard const lock(mutex_);
        lines_.clear();
    }
    /// The first error since `clear`, without the line's end.
    static std::string first() {
        std::lock_guard const lock(mutex_);
        std::string const line = lines_.substr(0, lines_.find('\n'));
        return line.empty() ? "no reason given" : line;
    }

private:
    static void take(ggml_log_level level, char const* text, void*) {
        if (level != GGML_LOG_LEVEL_ERROR) return;
        std::lock_guard const lock(mutex_);
        lines_ += text;
    }
    static inline std::mutex mutex_;
    static inline std::string lines_;
};

[[noreturn]] void refuse_model(std::string const& file, std::string const& reason) {
    throw std::runtime_error(file + ": " + reason);
}

}  // namespace

std::string first_llama_error() { return error_log::first(); }
void clear_llama_errors() { error_log::clear(); }

gguf_model::gguf_model(std::string const& file, gguf_options const& options) : file_(file) {
    error_log::start();
    llama_model_params params = llama_model_default_params();
    params.n_gpu_layers = options.gpu_layers;
    if (options.progress) {
        params.progress_callback = [](float done, void* to) {
            (*static_cast<std::function<void(double)> const*>(to))(static_cast<double>(done));
            return true;
        };
        params.progress_callback_user_data = const_cast<std::function<void(double)>*>(&options.progress);
    }
    model_.reset(llama_model_load_from_file(file.c_str(), params));
    if (!model_) refuse_model(file, "llama.cpp cannot load it: " + error_log::first());
    if (llama_api::is_recurrent(get()))
        refuse_model(file, "the model is recurrent: a state that all tokens share cannot hold the branches of a tree");
    if (llama_model_n_swa(get()) > 0)
        refuse_model(file, "the model has layers with a sliding window of " + std::to_string(llama_model_n_swa(get())) +
                               " tokens: what a rejected branch pushed out of it cannot be brought back");
    if (llama_model_has_encoder(get()) || llama_api::is_diffusion(get()))
        refuse_model(file, "the model does not write a text token after token by a decoder alone");
    if (llama_vocab_n_tokens(vocabulary()) < 1) refuse_model(file, "the model has no vocabulary");
}

}  // namespace multidraft::examples
