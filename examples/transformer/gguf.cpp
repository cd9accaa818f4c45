#include "transformer/gguf.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <fstream>
#include <limits>
#include <stdexcept>
#include <utility>

namespace multidraft::examples {
namespace {

constexpr std::string_view magic = "GGUF";

/// The types of metadata, by their numbers in the file.
enum value_type : std::uint32_t { u8, i8, u16, i16, u32, i32, f32, boolean, string, list, u64, i64, f64, types };

constexpr std::array<char const*, types> type_names{"uint8",  "int8",    "uint16",  "int16",  "uint32",
                                                    "int32",  "float32", "boolean", "string", "list",
                                                    "uint64", "int64",   "float64"};
/// The bytes of a value; 0: not fixed.
constexpr std::array<std::size_t, types> type_bytes{1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};

/// GGML's types of tensors by their numbers in the file, for messages.
constexpr std::array<char const*, 31> tensor_type_names{
    "F32",   "F16",    "Q4_0", "Q4_1", "",     "",        "Q5_0",   "Q5_1",    "Q8_0",  "Q8_1",   "Q2_K",
    "Q3_K",  "Q4_K",   "Q5_K", "Q6_K", "Q8_K", "IQ2_XXS", "IQ2_XS", "IQ3_XXS", "IQ1_S", "IQ4_NL", "IQ3_S",
    "IQ2_S", "IQ4_XS", "I8",   "I16",  "I32",  "I64",     "F64",    "IQ1_M",   "BF16"};

std::optional<tensor_type> type_from(std::uint32_t number) noexcept {
    switch (number) {
        case 0:
            return tensor_type::f32;
        case 1:
            return tensor_type::f16;
        case 2:
            return tensor_type::q4_0;
        case 3:
            return tensor_type::q4_1;
        case 8:
            return tensor_type::q8_0;
        case 30:
            return tensor_type::bf16;
        default:
            return std::nullopt;
    }
}

[[noreturn]] void fail(std::string const& file, std::string const& what) {
    throw std::runtime_error(file + ": " + what);
}

template <class T>
T number_at(std::byte const* from) noexcept {
    T value{};
    std::memcpy(&value, from, sizeof value);
    return value;
}

std::string text_of(std::vector<std::int64_t> const& shape) {
    std::string text = "[";
    for (std::int64_t const extent : shape) text += (text.size() > 1 ? "," : "") + std::to_string(extent);
    return text + "]";
}

}  // namespace

/// A place in the file that moves on, never beyond its end.
class gguf_file::reader {
public:
    explicit reader(mapped_file const& file) : file_(file) {}

    /// Moves on by so many bytes, which are `what`.
    std::size_t skip(std::uint64_t bytes, std::string const& what) {
        if (bytes > file_.size - at_) {
            fail(file_.name, what + ": " + std::to_string(bytes) + " bytes at byte " + std::to_string(at_) +
                                 " go beyond the end of the file (" + std::to_string(file_.size) + " bytes)");
        }
        return std::exchange(at_, at_ + static_cast<std::size_t>(bytes));
    }
    template <class T>
    T next(std::string const& what) {
        return number_at<T>(file_.data + skip(sizeof(T), what));
    }
    std::string next_text(std::string const& what) {
        auto const length = next<std::uint64_t>(what);
        std::size_t const from = skip(length, what);
        return {reinterpret_cast<char const*>(file_.data) + from, static_cast<std::size_t>(length)};
    }
    /// Moves on by values of a type.
    void skip_values(std::uint32_t type, std::uint64_t count, std::string const& what) {
        if (type == string) {
            for (std::uint64_t i = 0; i < count; ++i) skip(next<std::uint64_t>(what), what);
            return;
        }
        std::size_t const bytes = type_bytes[type];
        skip(count > std::numeric_limits<std::uint64_t>::max() / bytes ? std::numeric_limits<std::uint64_t>::max()
                                                                       : count * bytes,
             what);
    }
    [[nodiscard]] std::size_t at() const noexcept { return at_; }

private:
    mapped_file const& file_;
    std::size_t at_ = 0;
};

bool gguf_file::is_one(std::filesystem::path const& file) {
    std::ifstream stream(file, std::ios::binary);
    std::array<char, magic.size()> begin{};
    return stream.read(begin.data(), begin.size()) && std::string_view(begin.data(), begin.size()) == magic;
}

gguf_file::gguf_file(std::filesystem::path const& file) : file_(std::make_shared<mapped_file const>(file)) {
    static_assert(std::endian::native == std::endian::little, "the file format is little-endian");
    reader from(*file_);
    if (file_->size < magic.size() || std::memcmp(file_->data, magic.data(), magic.size()) != 0)
        fail(name(), "is no GGUF file: it does not begin with \"GGUF\"");
    from.skip(magic.size(), "magic");
    auto const version = from.next<std::uint32_t>("version");
    if (version != 2 && version != 3) {
        bool const swapped = version != 0 && version % 0x10000U == 0;
        fail(name(), "version = " + std::to_string(version) +
                         (swapped ? ": the file is big-endian" : ": only versions 2 and 3 are read"));
    }
    auto const tensors = from.next<std::uint64_t>("number of tensors");
    auto const keys = from.next<std::uint64_t>("number of keys");
    for (std::uint64_t k = 0; k < keys; ++k) {
        std::string const key = from.next_text("key " + std::to_string(k) + " of " + std::to_string(keys));
        value one{from.next<std::uint32_t>(key), false, 1, 0};
        if (one.type == list) {
            one = {from.next<std::uint32_t>(key), true, from.next<std::uint64_t>(key), 0};
            if (one.type == list) fail(name(), key + ": lists of lists are not read");
        }
        if (one.type >= types) fail(name(), key + ": type " + std::to_string(one.type) + " is none of GGUF's");
        one.at = from.at();
        from.skip_values(one.type, one.count, key);
        if (!metadata_.emplace(key, one).second) fail(name(), key + ": occurs twice");
    }
    add_tensors(from, tensors);
}

void gguf_file::add_tensors(reader& from, std::uint64_t count) {
    std::int64_t const alignment = integer("general.alignment").value_or(32);
    if (alignment < 8 || alignment > (1 << 20) || alignment % 8 != 0)
        refuse("general.alignment", "must be a multiple of 8, at most 2^20");
    struct place {
        std::uint64_t begin;
        std::uint64_t bytes;
    };
    std::map<std::string, place> places;
    for (std::uint64_t t = 0; t < count; ++t) {
        std::string const tensor = from.next_text("tensor " + std::to_string(t) + " of " + std::to_string(count));
        std::string const what = "tensor " + tensor;
        auto const complain = [&](std::string const& why) { fail(name(), what + ": " + why); };
        auto const dimensions = from.next<std::uint32_t>(what);
        if (dimensions < 1 || dimensions > 4) complain("has " + std::to_string(dimensions) + " dimensions");
        tensor_view view;
        for (std::uint32_t d = 0; d < dimensions; ++d) {
            auto const extent = from.next<std::uint64_t>(what);
            if (extent < 1 || extent > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
                complain("size " + std::to_string(extent) + " of dimension " + std::to_string(d));
            view.shape.push_back(static_cast<std::int64_t>(extent));
        }
        std::ranges::reverse(view.shape);  // the file begins with the one that lies together
        auto const number = from.next<std::uint32_t>(what);
        auto const type = type_from(number);
        if (!type) {
            std::string const known = number < tensor_type_names.size() ? tensor_type_names[number] : "";
            complain("type " + std::to_string(number) + (known.empty() ? "" : " (" + known + ")") +
                     ": only F32, F16, BF16, Q8_0, Q4_0 and Q4_1 are read");
        }
        view.type = *type;
        auto const together = static_cast<std::int64_t>(block_numbers(*type));
        if (view.shape.back() % together != 0) {
            complain("rows of " + std::to_string(view.shape.back()) + " numbers, in a type of blocks of " +
                     std::to_string(together));
        }
        std::uint64_t bytes = block_bytes(*type);
        for (std::size_t d = 0; d < view.shape.size(); ++d) {
            std::int64_t const blocks = d + 1 == view.shape.size() ? view.shape[d] / together : view.shape[d];
            auto const extent = static_cast<std::uint64_t>(blocks);
            if (bytes > std::numeric_limits<std::uint64_t>::max() / extent)
                complain("shape " + text_of(view.shape) + ": too large");
            bytes *= extent;
        }
        auto const begin = from.next<std::uint64_t>(what);
        if (begin % static_cast<std::uint64_t>(alignment) != 0) {
            complain("offset = " + std::to_string(begin) + ": not a multiple of the alignment, " +
                     std::to_string(alignment));
        }
        if (!tensors_.emplace(tensor, std::move(view)).second) complain("occurs twice");
        places[tensor] = {begin, bytes};
    }
    // The data begin at the next multiple of the alignment.
    auto const step = static_cast<std::size_t>(alignment);
    std::size_t const data = std::min((from.at() + step - 1) / step * step, file_->size);
    std::uint64_t const size = file_->size - data;
    std::vector<std::pair<std::uint64_t, std::string>> order;
    for (auto& [tensor, view] : tensors_) {
        auto const [begin, bytes] = places[tensor];
        if (begin > size || bytes > size - begin) {
            fail(name(), "tensor " + tensor + ": " + std::to_string(bytes) + " bytes from byte " +
                             std::to_string(begin) + " of the data go beyond the end of the file, which has " +
                             std::to_string(size) + " bytes of data");
        }
        view.bytes = {file_->data + data + begin, static_cast<std::size_t>(bytes)};
        order.emplace_back(begin, tensor);
    }
    std::ranges::sort(order);
    for (std::size_t i = 1; i < order.size(); ++i) {
        auto const& [begin, before] = order[i - 1];
        if (order[i].first < begin + places[before].bytes) {
            fail(name(), "tensor " + order[i].second + ": begins at byte " + std::to_string(order[i].first) +
                             " of the data, inside tensor " + before);
        }
    }
}

gguf_file::value const* gguf_file::find(std::string const& key) const {
    auto const found = metadata_.find(key);
    return found == metadata_.end() ? nullptr : &found->second;
}

std::string_view gguf_file::text_at(std::size_t at) const {
    return {reinterpret_cast<char const*>(file_->data) + at + 8,
            static_cast<std::size_t>(number_at<std::uint64_t>(file_->data + at))};
}

std::int64_t gguf_file::integer_at(std::string const& key, std::uint32_t type, std::size_t at) const {
    std::byte const* const from = file_->data + at;
    switch (type) {
        case u8:
            return number_at<std::uint8_t>(from);
        case i8:
            return number_at<std::int8_t>(from);
        case u16:
            return number_at<std::uint16_t>(from);
        case i16:
            return number_at<std::int16_t>(from);
        case u32:
            return number_at<std::uint32_t>(from);
        case i32:
            return number_at<std::int32_t>(from);
        case i64:
            return number_at<std::int64_t>(from);
        case u64: {
            auto const number = number_at<std::uint64_t>(from);
            if (number <= static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
                return static_cast<std::int64_t>(number);
            fail(name(), key + " = " + std::to_string(number) + ": too large");
        }
        default:
            fail(name(), key + ": must be an integer, not " + type_names[type]);
    }
}

std::optional<std::string_view> gguf_file::text(std::string const& key) const {
    value const* const one = find(key);
    if (one == nullptr) return std::nullopt;
    if (one->list || one->type != string) fail(name(), key + ": must be a string");
    return text_at(one->at);
}

std::optional<std::int64_t> gguf_file::integer(std::string const& key) const {
    value const* const one = find(key);
    if (one == nullptr) return std::nullopt;
    if (one->list) fail(name(), key + ": must be one integer, not a list");
    return integer_at(key, one->type, one->at);
}

std::optional<float> gguf_file::number(std::string const& key) const {
    value const* const one = find(key);
    if (one == nullptr) return std::nullopt;
    if (one->list || (one->type != f32 && one->type != f64)) fail(name(), key + ": must be a number");
    return one->type == f32 ? number_at<float>(file_->data + one->at)
                            : static_cast<float>(number_at<double>(file_->data + one->at));
}

std::optional<bool> gguf_file::flag(std::string const& key) const {
    value const* const one = find(key);
    if (one == nullptr) return std::nullopt;
    if (one->list || one->type != boolean) fail(name(), key + ": must be true or false");
    return file_->data[one->at] != std::byte{};
}

std::optional<std::vector<std::string_view>> gguf_file::texts(std::string const& key) const {
    value const* const one = find(key);
    if (one == nullptr) return std::nullopt;
    if (!one->list || one->type != string) fail(name(), key + ": must be a list of strings");
    std::vector<std::string_view> all;
    std::size_t at = one->at;
    for (std::uint64_t i = 0; i < one->count; ++i) {
        all.push_back(text_at(at));
        at += 8 + all.back().size();
    }
    return all;
}

std::optional<std::vector<std::int64_t>> gguf_file::integers(std::string const& key) const {
    value const* const one = find(key);
    if (one == nullptr) return std::nullopt;
    if (!one->list || type_bytes[one->type] == 0) fail(name(), key + ": must be a list of integers");
    std::vector<std::int64_t> all;
    for (std::size_t i = 0; i < one->count; ++i)
        all.push_back(integer_at(key, one->type, one->at + i * type_bytes[one->type]));
    return all;
}

void gguf_file::refuse(std::string const& key, std::string const& reason) const {
    value const* const one = find(key);
    std::string is;
    if (one == nullptr) {
        is = " is absent";
    } else if (one->list) {
        is = ", a list of " + std::to_string(one->count);
    } else if (one->type == string) {
        is = " = \"" + std::string(text_at(one->at).substr(0, 64)) + '"';
    } else if (one->type == f32 || one->type == f64) {
        is = " = " + std::to_string(*number(key));
    } else if (one->type == boolean) {
        is = *flag(key) ? " = true" : " = false";
    } else {
        is = " = " + std::to_string(integer_at(key, one->type, one->at));
    }
    fail(name(), key + is + ": " + reason);
}

// --- Llama layout ----------------------------------------------------------------------------------------------------

namespace {

constexpr std::pair<char const*, char const*> outer_names[] = {{"token_embd.weight", "model.embed_tokens.weight"},
                                                               {"output_norm.weight", "model.norm.weight"},
                                                               {"output.weight", "lm_head.weight"}};
constexpr std::pair<char const*, char const*> layer_names[] = {
    {"attn_norm.weight", "input_layernorm.weight"},    {"attn_q.weight", "self_attn.q_proj.weight"},
    {"attn_k.weight", "self_attn.k_proj.weight"},      {"attn_v.weight", "self_attn.v_proj.weight"},
    {"attn_output.weight", "self_attn.o_proj.weight"}, {"ffn_norm.weight", "post_attention_layernorm.weight"},
    {"ffn_gate.weight", "mlp.gate_proj.weight"},       {"ffn_up.weight", "mlp.up_proj.weight"},
    {"ffn_down.weight", "mlp.down_proj.weight"}};

constexpr std::string_view gguf_layer = "blk.";
constexpr std::string_view llama_layer = "model.layers.";

/// Splits `prefix` 12 `.rest`; empty for another name.
std::optional<std::pair<std::string, std::string>> layer_of(std::string_view name, std::string_view prefix) {
    if (!name.starts_with(prefix)) return std::nullopt;
    name.remove_prefix(prefix.size());
    std::size_t const digits = std::min(name.find_first_not_of("0123456789"), name.size());
    if (digits == 0 || digits == name.size() || name[digits] != '.') return std::nullopt;
    return std::pair{std::string(name.substr(0, digits)), std::string(name.substr(digits + 1))};
}

}  // namespace

std::optional<std::string> llama_name(std::string const& gguf_name) {
    for (auto const& [theirs, ours] : outer_names)
        if (gguf_name == theirs) return ours;
    if (auto const layer = layer_of(gguf_name, gguf_layer))
        for (auto const& [theirs, ours] : layer_names)
            if (layer->second == theirs) return std::string(llama_layer) + layer->first + '.' + ours;
    return std::nullopt;
}

std::string gguf_name(std::string const& llama_name) {
    for (auto const& [theirs, ours] : outer_names)
        if (llama_name == ours) return theirs;
    if (auto const layer = layer_of(llama_name, llama_layer))
        for (auto const& [theirs, ours] : layer_names)
            if (layer->second == ours) return std::string(gguf_layer) + layer->first + '.' + theirs;
    return llama_name;
}

model_config read_config(gguf_file const& in) {
    if (in.text("general.architecture").value_or("") != "llama")
        in.refuse("general.architecture", "only \"llama\" is implemented");
    if (in.integer("split.count").value_or(1) > 1) in.refuse("split.count", "models in several files are not read");
    if (in.text("llama.rope.scaling.type").value_or("none") != "none")
        in.refuse("llama.rope.scaling.type", "not implemented");
    if (in.number("llama.rope.scale_linear").value_or(1) != 1) in.refuse("llama.rope.scale_linear", "not implemented");
    if (in.integer("llama.expert_count").value_or(0) != 0) in.refuse("llama.expert_count", "not implemented");

    auto const size = [&](std::string const& key, std::optional<std::int32_t> otherwise = {}) {
        std::optional<std::int64_t> const number = in.integer(key);
        if (!number && otherwise) return *otherwise;
        if (!number) in.refuse(key, "must be an integer");
        if (*number < 1 || *number > std::numeric_limits<std::int32_t>::max()) in.refuse(key, "must be positive");
        return static_cast<std::int32_t>(*number);
    };
    auto const positive = [&](std::string const& key, float otherwise) {
        float const number = in.number(key).value_or(otherwise);
        if (!(number > 0.0F && number <= std::numeric_limits<float>::max()))
            in.refuse(key, "must be a positive number");
        return number;
    };
    model_config c;
    auto const embedding = in.tensors().find("token_embd.weight");
    if (embedding == in.tensors().end()) fail(in.name(), "tensor token_embd.weight is missing");
    std::int64_t const vocabulary = embedding->second.shape.front();
    if (vocabulary > std::numeric_limits<std::int32_t>::max())
        fail(in.name(), "tensor token_embd.weight: shape = " + text_of(embedding->second.shape) + ": too large");
    c.vocabulary = static_cast<std::int32_t>(vocabulary);
    c.hidden = size("llama.embedding_length");
    c.intermediate = size("llama.feed_forward_length");
    c.layers = size("llama.block_count");
    c.heads = size("llama.attention.head_count");
    c.kv_heads = size("llama.attention.head_count_kv", c.heads);
    if (c.heads % c.kv_heads != 0) {
        in.refuse("llama.attention.head_count_kv",
                  "must divide llama.attention.head_count = " + std::to_string(c.heads));
    }
    bool const has_length = in.integer("llama.attention.key_length").has_value();
    if (!has_length && c.hidden % c.heads != 0) {
        in.refuse("llama.attention.head_count", "must divide llama.embedding_length = " + std::to_string(c.hidden));
    }
    c.head_dim = size("llama.attention.key_length", c.hidden / c.heads);
    std::string const and_not = "must be that of a head, " + std::to_string(c.head_dim);
    if (size("llama.attention.value_length", c.head_dim) != c.head_dim)
        in.refuse("llama.attention.value_length", and_not);
    if (size("llama.rope.dimension_count", c.head_dim) != c.head_dim) in.refuse("llama.rope.dimension_count", and_not);
    if (c.head_dim % 2 != 0)
        fail(in.name(), "heads of " + std::to_string(c.head_dim) + " numbers: must be even, for the rotary positions");
    // Products of these sizes are formed in 32 bits.
    for (std::int64_t const width : {std::int64_t{c.heads} * c.head_dim * 3, std::int64_t{c.intermediate} * 2}) {
        if (width > (1 << 24)) in.refuse("llama.embedding_length", "the model is too wide");
    }
    c.max_positions = size("llama.context_length", 2048);
    c.rms_norm_eps = positive("llama.attention.layer_norm_rms_epsilon", 1e-6F);
    c.rope_theta = positive("llama.rope.freq_base", 10000.0F);
    c.tied_head = !in.tensors().contains("output.weight");

    auto const token = [&](std::string const& key) {
        std::optional<std::int64_t> const id = in.integer(key);
        if (id && (*id < 0 || *id >= vocabulary)) in.refuse(key, "must be in [0, " + std::to_string(vocabulary) + ")");
        return id ? static_cast<std::int32_t>(*id) : -1;
    };
    c.bos_token = token("tokenizer.ggml.bos_token_id");
    auto const add_end = [&](std::int32_t id) {
        if (id >= 0 && std::ranges::find(c.eos_tokens, id) == c.eos_tokens.end()) c.eos_tokens.push_back(id);
    };
    for (char const* key : {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id"}) add_end(token(key));
    // A text also ends where the model begins another one, which the metadata do not say.
    auto const tokens = in.texts("tokenizer.ggml.tokens").value_or(std::vector<std::string_view>{});
    for (std::size_t id = 0; id < std::min(tokens.size(), static_cast<std::size_t>(c.vocabulary)); ++id)
        if (tokens[id] == "<|endoftext|>") add_end(static_cast<std::int32_t>(id));
    return c;
}

model_config config_of_model(std::filesystem::path const& model) {
    return std::filesystem::is_regular_file(model) ? read_config(gguf_file(model)) : read_config(model / "config.json");
}

}  // namespace multidraft::examples
