#include "llama_cpp/decoder.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <iterator>
#include <mutex>
#include <numeric>
#include <stdexcept>

#include "llama_cpp/api.hpp"
#include "multidraft/base/error.hpp"
#include "multidraft/tree/compaction.hpp"

namespace multidraft::examples {
namespace {

constexpr std::int32_t free_sequence = -2;  // of `tip_`; -1 is a sequence without entries

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

std::size_t at(std::int32_t i) { return static_cast<std::size_t>(i); }

}  // namespace

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

llama_decoder::llama_decoder(std::shared_ptr<gguf_model const> model, decoder_options const& options)
    : model_(std::move(model)), options_(options) {
    auto const most = static_cast<std::int64_t>(llama_max_parallel_sequences());
    if (options_.context == 0) options_.context = llama_model_n_ctx_train(model_->get());
    if (options_.context < 1) refuse("context", options_.context, "a text has one position or more");
    if (options_.tree_nodes < 1) refuse("tree_nodes", options_.tree_nodes, "a tree has its root");
    if (options_.sequences < 1 || options_.sequences > most)
        refuse("sequences", options_.sequences, "llama.cpp has 1 to " + std::to_string(most));
    if (options_.batch < 1) refuse("batch", options_.batch, "a batch has one token or more");
    if (options_.threads < 1) refuse("threads", options_.threads, "one thread or more");
    options_.batch = std::max(options_.batch, options_.tree_nodes);
    options_.sequences = std::min(options_.sequences, options_.tree_nodes);  // llama.cpp needs a batch for each
    vocabulary_ = llama_vocab_n_tokens(model_->vocabulary());

    llama_context_params params = llama_context_default_params();
    params.n_ctx = static_cast<std::uint32_t>(options_.context) + static_cast<std::uint32_t>(options_.tree_nodes);
    params.n_batch = static_cast<std::uint32_t>(options_.batch);
    params.n_ubatch = std::min(params.n_batch, std::max<std::uint32_t>(params.n_ubatch, 512));
    params.n_seq_max = static_cast<std::uint32_t>(options_.sequences);
    params.n_threads = options_.threads;
    params.n_threads_batch = options_.threads;
    params.type_k = options_.cache_type;
    params.type_v = options_.cache_type;
    params.no_perf = true;
    llama_api::share_cache(params);
    llama_api::set_flash_attention(params, options_.flash_attention);
    error_log::clear();
    context_.reset(llama_init_from_model(model_->get(), params));
    if (!context_)
        refuse_model(model_->file(), "llama.cpp cannot make a context of " + std::to_string(params.n_ctx) +
                                         " cells: " + error_log::first());
    memory_ = llama_get_memory(context_.get());
    tip_.assign(at(options_.sequences), free_sequence);
    keep(0, {});
}

std::int32_t llama_decoder::position_of(std::int32_t entry) const {
    return entry < trunk_ ? entry : nodes_[at(entry - trunk_)].position;
}

llama_seq_id llama_decoder::sequence_of(std::int32_t entry) const {
    return entry < trunk_ ? main_ : nodes_[at(entry - trunk_)].sequence;
}

std::int32_t llama_decoder::parent_of(std::int32_t entry) const {
    if (entry < trunk_) return entry - 1;
    std::int32_t const behind = entry - trunk_;
    auto const old = static_cast<std::int32_t>(nodes_.size());
    return behind < old ? nodes_[at(behind)].parent : batch_[at(behind - old)].parent;
}

/// The parent of a token by its row of the mask. The entries that it attends to must be a path.
std::int32_t llama_decoder::parent_by_mask(token_batch const& batch, std::int32_t token) const {
    std::int32_t const self = length() + token - batch.context;  // its column
    std::uint64_t const* const row = batch.mask.words + batch.mask.row_words * token;
    std::int32_t attended = 0;
    std::int32_t parent = -1;
    for (std::int32_t w = 0; w < static_cast<std::int32_t>(batch.mask.row_words); ++w) {
        attended += std::popcount(row[w]);
        std::uint64_t before = row[w];
        if (w == self / 64) before &= (std::uint64_t{1} << (self % 64)) - 1;
        if (w <= self / 64 && before != 0) parent = 64 * w + 63 - std::countl_zero(before);
    }
    std::int32_t path = 0;  // columns that a path to this token has
    for (std::int32_t e = parent; e >= 0; e = parent_of(batch.context + e) - batch.context)
        path += batch.mask(token, e) ? 1 : attended + 1;
    if (!batch.mask(token, self) || attended != path + 1)
        refuse("batch.mask", token, attended,
               "so many entries are attended to: they are to be the token itself and a path to it, for which llama.cpp "
               "has sequences");
    return batch.context + parent;
}

/// Fills `batch_` with the tokens' places, or throws.
void llama_decoder::read_batch(token_batch const& batch) {
    auto const count = static_cast<std::int32_t>(batch.tokens.size());
    if (count < 1) refuse("batch.tokens.size", count, "a batch has one token or more");
    if (batch.positions.size() != batch.tokens.size())
        refuse("batch.positions.size", batch.positions.size(), "one a token: " + std::to_string(count));
    if (batch.context < 0 || batch.context > trunk_)
        refuse("batch.context", batch.context, "the cache has a text of " + std::to_string(trunk_) + " entries");
    if (batch.mask.causal() && !nodes_.empty())
        refuse("batch.mask", "causal", "the cache holds a tree, of which not all is before these tokens");
    if (std::int64_t const all = std::int64_t{length()} + count; all > options_.context + options_.tree_nodes)
        refuse("batch.tokens.size", count,
               "with the " + std::to_string(length()) + " entries of the cache these are more than it has room for, " +
                   std::to_string(options_.context) + " positions and " + std::to_string(options_.tree_nodes) +
                   " nodes");
    batch_.clear();
    for (std::int32_t i = 0; i < count; ++i) {
        if (batch.tokens[at(i)] < 0 || batch.tokens[at(i)] >= vocabulary_)
            refuse("batch.tokens", i, batch.tokens[at(i)], "a token lies in [0, vocabulary)");
        std::int32_t const parent = batch.mask.causal() ? length() + i - 1 : parent_by_mask(batch, i);
        std::int32_t const position = 1 + (parent < 0          ? -1
                                           : parent < length() ? position_of(parent)
                                                               : batch_[at(parent - length())].position);
        if (batch.positions[at(i)] != position)
            refuse("batch.positions", i, batch.positions[at(i)],
                   "it follows what it attends to, at " + std::to_string(position));
        batch_.push_back({parent, position, 0});
    }
    if (count > options_.batch && !is_chain())
        refuse("batch.tokens.size", count,
               "a tree is read in one batch, of " + std::to_string(options_.batch) + " tokens at most");
}

/// Whether the tokens of `batch_` are one path that continues the cache's only path.
bool llama_decoder::is_chain() const {
    if (!nodes_.empty()) return false;
    for (std::size_t i = 0; i < batch_.size(); ++i)
        if (batch_[i].parent != trunk_ + static_cast<std::int32_t>(i) - 1) return false;
    return true;
}

/// Finds a sequence for each leaf of the batch: the one that ends where its path begins, or a free one.
void llama_decoder::find_sequences() {
    std::size_t const count = batch_.size();
    children_.assign(count, 0);
    attached_.resize(count);
    for (std::size_t i = 0; i < count; ++i) {
        std::int32_t const parent = batch_[i].parent;
        attached_[i] = parent < length() ? parent : attached_[at(parent - length())];
        if (parent >= length()) ++children_[at(parent - length())];
    }
    new_tip_ = tip_;
    leaves_.clear();
    llama_seq_id next = 0;
    for (std::size_t i = 0; i < count; ++i) {
        if (children_[i] > 0) continue;
        std::int32_t const from = attached_[i];
        llama_seq_id sequence = from < 0 ? main_ : sequence_of(from);
        bool const fresh = new_tip_[at(sequence)] != from;
        if (fresh) {
            while (next < options_.sequences && new_tip_[at(next)] != free_sequence) ++next;
            if (next == options_.sequences)
                refuse("batch.mask", "tree",
                       "the tree has more leaves than the context has sequences, " + std::to_string(next));
            sequence = next;
        }
        new_tip_[at(sequence)] = length() + static_cast<std::int32_t>(i);
        leaves_.push_back({i, from, sequence, fresh});
    }
    // Each token is in the sequences of the leaves below it.
    counts_.assign(count, 0);
    auto const up = [&](leaf const& one, auto&& visit) {
        for (std::int32_t e = length() + static_cast<std::int32_t>(one.token); e >= length();
             e = batch_[at(e - length())].parent)
            visit(at(e - length()));
    };
    for (leaf const& one : leaves_) up(one, [&](std::size_t i) { ++counts_[i]; });
    ids_.resize(at(std::accumulate(counts_.begin(), counts_.end(), 0)));
    lists_.resize(count);
    llama_seq_id* list = ids_.data();
    for (std::size_t i = 0; i < count; ++i) {
        lists_[i] = list;
        list += counts_[i];
        counts_[i] = 0;
    }
    for (leaf const& one : leaves_) up(one, [&](std::size_t i) { lists_[i][counts_[i]++] = one.sequence; });
    for (std::size_t i = 0; i < count; ++i) batch_[i].sequence = lists_[i][0];
}

std::span<float const> llama_decoder::forward_in_place(token_batch const& batch, std::int32_t rows) {
    if (rows < 0 || at(rows) > batch.tokens.size())
        refuse("rows", rows, "the batch has " + std::to_string(batch.tokens.size()) + " tokens");
    if (rows > options_.batch)
        refuse("rows", rows, "llama.cpp gives the logits of one batch, of " + std::to_string(options_.batch));
    read_batch(batch);
    find_sequences();
    for (leaf const& one : leaves_)
        if (one.fresh && one.attached >= 0)
            llama_memory_seq_cp(memory_, sequence_of(one.attached), one.sequence, 0, position_of(one.attached) + 1);

    // A long prompt is read in pieces; the last one has all the rows.
    auto const count = static_cast<std::int32_t>(batch_.size());
    std::int32_t const last = count - std::min(count, options_.batch);
    wanted_.assign(batch_.size(), 0);
    std::fill(wanted_.end() - rows, wanted_.end(), std::int8_t{1});
    error_log::clear();
    for (std::int32_t begin = 0, end = 0; begin < count; begin = end) {
        end = begin < last ? std::min(begin + options_.batch, last) : count;
        llama_batch one{};
        one.n_tokens = end - begin;
        one.token = const_cast<token_id*>(batch.tokens.data()) + begin;  // llama.cpp reads it only
        one.pos = const_cast<std::int32_t*>(batch.positions.data()) + begin;
        one.n_seq_id = counts_.data() + begin;
        one.seq_id = lists_.data() + begin;
        one.logits = wanted_.data() + begin;
        if (int const code = llama_decode(context_.get(), one); code != 0) {
            undo();
            throw std::runtime_error(model_->file() + ": llama_decode returned " + std::to_string(code) + ": " +
                                     error_log::first());
        }
    }

    if (is_chain())
        trunk_ += count;
    else
        nodes_.insert(nodes_.end(), batch_.begin(), batch_.end());
    tip_.swap(new_tip_);
    if (rows == 0) return {};
    return {llama_get_logits(context_.get()), at(rows) * at(vocabulary_)};
}

/// Removes from llama.cpp's cache what a failed call may have added.
void llama_decoder::undo() noexcept {
    for (leaf const& one : leaves_)
        llama_memory_seq_rm(memory_, one.sequence, one.fresh || one.attached < 0 ? 0 : position_of(one.attached) + 1,
                            -1);
}

void llama_decoder::forward(token_batch const& batch, std::span<float> logits) {
    if (logits.size() % at(vocabulary_) != 0)
        refuse("logits.size", logits.size(), "rows of " + std::to_string(vocabulary_));
    auto const rows = forward_in_place(batch, static_cast<std::int32_t>(logits.size() / at(vocabulary_)));
    std::copy(rows.begin(), rows.end(), logits.begin());
}

void llama_decoder::keep(std::int32_t context, std::span<std::int32_t const> entries) {
    if (context < 0 || context > trunk_)
        refuse("context", context, "the cache has a text of " + std::to_string(trunk_) + " entries");
    validate_entries(entries, length() - context);
    std::int32_t end = context - 1;  // of the path so far
    for (std::size_t k = 0; k < entries.size(); ++k) {
        std::int32_t const entry = context + entries[k];
        if (parent_of(entry) != end)
            refuse("entries", static_cast<std::int64_t>(k), entries[k], "the entries that are kept are one path");
        end = entry;
    }
    if (end < 0) {
        llama_memory_clear(memory_, false);
        main_ = 0;
    } else {
        if (!nodes_.empty()) {
            main_ = sequence_of(end);
            llama_memory_seq_keep(memory_, main_);
        }
        if (!llama_memory_seq_rm(memory_, main_, position_of(end) + 1, -1))
            throw std::runtime_error(model_->file() + ": llama.cpp cannot shorten a sequence of this model");
    }
    trunk_ = end < 0 ? 0 : context + static_cast<std::int32_t>(entries.size());
    nodes_.clear();
    std::fill(tip_.begin(), tip_.end(), free_sequence);
    tip_[at(main_)] = trunk_ - 1;
}

}  // namespace multidraft::examples
