#include "transformer/safetensors.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <stdexcept>
#include <utility>

#include "transformer/gguf.hpp"

namespace multidraft::examples {
namespace {

using nlohmann::json;

[[noreturn]] void fail(std::string const& file, std::string const& what) {
    throw std::runtime_error(file + ": " + what);
}

std::string text(std::vector<std::int64_t> const& shape) { return json(shape).dump(); }

std::optional<tensor_type> type_from(std::string const& name) {
    if (name == "F32") return tensor_type::f32;
    if (name == "F16") return tensor_type::f16;
    if (name == "BF16") return tensor_type::bf16;
    return std::nullopt;
}

/// The bytes of an integer of that type; 0 for other types.
std::size_t integer_size(std::string const& name) {
    return name == "I64" ? 8 : name == "I32" ? 4 : name == "BOOL" ? 1 : 0;
}

/// A non-negative integer of the header.
std::optional<std::uint64_t> natural(json const& value) {
    if (!value.is_number_integer() || (!value.is_number_unsigned() && value.get<std::int64_t>() < 0)) {
        return std::nullopt;
    }
    return value.get<std::uint64_t>();
}

}  // namespace

void tensor_store::add(std::filesystem::path const& path) {
    static_assert(std::endian::native == std::endian::little, "the file format is little-endian");
    std::string const name = path.string();
    auto const file = std::make_shared<mapped_file const>(path);
    std::uint64_t header_size = 0;
    if (file->size < sizeof header_size) {
        fail(name, "has " + std::to_string(file->size) + " bytes, too few for a safetensors file");
    }
    std::memcpy(&header_size, file->data, sizeof header_size);
    if (header_size > file->size - sizeof header_size) {
        fail(name, "header length = " + std::to_string(header_size) + ": beyond the end of the file (" +
                       std::to_string(file->size) + " bytes)");
    }
    auto const* const header_text = reinterpret_cast<char const*>(file->data) + sizeof header_size;
    json header;
    try {
        header = json::parse(header_text, header_text + header_size);
    } catch (json::exception const& e) {
        fail(name, std::string("header: ") + e.what());
    }
    if (!header.is_object()) fail(name, "header: not a JSON object");

    std::byte const* const data = file->data + sizeof header_size + header_size;
    std::uint64_t const data_size = file->size - sizeof header_size - header_size;
    std::vector<std::pair<std::pair<std::uint64_t, std::uint64_t>, std::string>> extents;
    for (auto const& item : header.items()) {
        std::string const& tensor = item.key();
        json const& fields = item.value();
        if (tensor == "__metadata__") continue;
        auto const complain = [&](std::string const& what) { fail(name, "tensor " + tensor + ": " + what); };
        if (!fields.is_object() || !fields.contains("dtype") || !fields.contains("shape") ||
            !fields.contains("data_offsets")) {
            complain("must have dtype, shape and data_offsets");
        }
        json const& dtype = fields["dtype"];
        auto const type = dtype.is_string() ? type_from(dtype.get<std::string>()) : std::nullopt;
        std::size_t const of_integers = dtype.is_string() ? integer_size(dtype.get<std::string>()) : 0;
        if (!type && of_integers == 0)
            complain("dtype = " + dtype.dump() + ": only F32, F16, BF16, I64, I32 and BOOL are read");

        json const& dimensions = fields["shape"];
        if (!dimensions.is_array()) complain("shape = " + dimensions.dump() + ": must be a list of sizes");
        tensor_view view{type.value_or(tensor_type::f32), {}, {}, 0};
        std::uint64_t bytes = type ? size_of(*type) : of_integers;
        for (json const& dimension : dimensions) {
            auto const extent = natural(dimension);
            if (!extent || *extent > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
                complain("shape = " + dimensions.dump() + ": must be a list of sizes");
            }
            if (*extent != 0 && bytes > std::numeric_limits<std::uint64_t>::max() / *extent) {
                complain("shape = " + dimensions.dump() + ": too large");
            }
            bytes *= *extent;
            view.shape.push_back(static_cast<std::int64_t>(*extent));
        }

        json const& offsets = fields["data_offsets"];
        auto const begin = offsets.is_array() && offsets.size() == 2 ? natural(offsets[0]) : std::nullopt;
        auto const end = begin ? natural(offsets[1]) : std::nullopt;
        if (!begin || !end || *begin > *end) complain("data_offsets = " + offsets.dump() + ": must be [begin, end]");
        if (*end > data_size) {
            complain("data_offsets = " + offsets.dump() + ": beyond the end of the file, which holds " +
                     std::to_string(data_size) + " bytes of data");
        }
        if (*end - *begin != bytes) {
            complain("data_offsets = " + offsets.dump() + ": shape " + dimensions.dump() + " of " +
                     dtype.get<std::string>() + " needs " + std::to_string(bytes) + " bytes");
        }
        view.bytes = {data + *begin, static_cast<std::size_t>(bytes)};
        if (bytes != 0) extents.push_back({{*begin, *end}, tensor});
        if (contains(tensor)) complain("is also in another file of " + directory_);
        if (type)
            tensors_.emplace(tensor, entry{std::move(view), file});
        else
            integers_.emplace(tensor, integers{std::move(view.shape), view.bytes, of_integers, file});
    }
    std::ranges::sort(extents);
    std::uint64_t const used = extents.empty() ? 0 : extents.back().first.second;
    for (std::size_t i = 1; i < extents.size(); ++i) {
        if (extents[i].first.first < extents[i - 1].first.second) {
            fail(name, "tensor " + extents[i].second + ": data_offsets begin at " +
                           std::to_string(extents[i].first.first) + ", inside tensor " + extents[i - 1].second);
        }
    }
    if (used != data_size) {
        fail(name, "the tensors end at byte " + std::to_string(used) + " of the data, which goes on to byte " +
                       std::to_string(data_size));
    }
    files_.push_back(file);
}

void tensor_store::load(std::function<void(std::size_t)> const& told) const {
    std::size_t done = 0;
    for (auto const& file : files_) {
        constexpr std::size_t piece = std::size_t{32} << 20U;
        for (std::size_t at = 0; at < file->size; at += piece) {
            std::size_t const bytes = std::min(piece, file->size - at);
            file->bring(at, bytes);
            done += bytes;
            told(done);
        }
    }
}

bool tensor_store::in_blocks() const noexcept {
    return std::ranges::any_of(tensors_, [](auto const& one) { return block_numbers(one.second.view.type) > 1; });
}

std::size_t tensor_store::bytes() const noexcept {
    std::size_t all = 0;
    for (auto const& file : files_) all += file->size;
    return all;
}

tensor_store tensor_store::of(gguf_file const& file) {
    tensor_store store;
    store.directory_ = file.name();
    store.is_gguf_ = true;
    std::int64_t const head_dim = read_config(file).head_dim;
    for (auto const& [name, view] : file.tensors()) {
        auto const known = llama_name(name);
        if (!known) fail(file.name(), "tensor " + name + ": the example's model of Llama layout has none of this name");
        entry one{view, file.file()};
        if (name.ends_with(".attn_q.weight") || name.ends_with(".attn_k.weight")) one.view.interleaved = head_dim;
        store.tensors_.emplace(*known, std::move(one));
    }
    store.files_.push_back(file.file());
    return store;
}

tensor_store tensor_store::open(std::filesystem::path const& directory) {
    if (std::filesystem::is_regular_file(directory)) return of(gguf_file(directory));
    tensor_store store;
    store.directory_ = directory.string();
    auto const single = directory / "model.safetensors";
    auto const index = directory / "model.safetensors.index.json";
    if (std::filesystem::exists(single)) {
        store.add(single);
        return store;
    }
    std::ifstream stream(index, std::ios::binary);
    if (!stream) {
        fail(store.directory_, "has neither model.safetensors nor model.safetensors.index.json that can be read");
    }
    json map;
    try {
        map = json::parse(stream).at("weight_map");
    } catch (json::exception const& e) {
        fail(index.string(), e.what());
    }
    if (!map.is_object()) fail(index.string(), "weight_map: not a JSON object");
    std::set<std::string> shards;
    for (auto const& [tensor, shard] : map.items()) {
        if (!shard.is_string()) fail(index.string(), "weight_map: " + tensor + " = " + shard.dump() + ": not a file");
        std::filesystem::path const file(shard.get<std::string>());
        // A shard is in the directory of its index: the index must not refer elsewhere.
        if (!file.has_filename() || file.filename() != file || file == "..") {
            fail(index.string(), "weight_map: " + tensor + " = " + shard.dump() + ": must be a plain file name");
        }
        shards.insert(file.string());
    }
    for (std::string const& shard : shards) store.add(directory / shard);
    for (auto const& [tensor, shard] : map.items()) {
        if (!store.contains(tensor)) {
            fail((directory / shard.get<std::string>()).string(),
                 "tensor " + tensor + ": listed in " + index.filename().string() + " but in no shard");
        }
    }
    return store;
}

void tensor_store::refuse_tensor(std::string const& name, std::string const& what) const {
    fail(directory_, "tensor " + (is_gguf_ ? gguf_name(name) : name) + what);
}

tensor_view const& tensor_store::get(std::string const& name, std::vector<std::int64_t> const& shape) const {
    auto const found = tensors_.find(name);
    if (found == tensors_.end()) refuse_tensor(name, integers_.contains(name) ? ": is of integers" : " is missing");
    tensor_view const& view = found->second.view;
    if (view.shape != shape) {
        refuse_tensor(name, ": shape = " + text(view.shape) + ": " +
                                (is_gguf_ ? "its metadata make it " : "config.json makes it ") + text(shape));
    }
    return view;
}

std::vector<std::int64_t> tensor_store::get_integers(std::string const& name, std::int64_t count) const {
    auto const found = integers_.find(name);
    if (found == integers_.end())
        refuse_tensor(name, tensors_.contains(name) ? ": must be of I64, I32 or BOOL" : " is missing");
    integers const& one = found->second;
    if (one.shape != std::vector{count})
        refuse_tensor(name, ": shape = " + text(one.shape) + ": config.json makes it " + text({count}));
    std::vector<std::int64_t> values(static_cast<std::size_t>(count));
    for (std::size_t i = 0; i < values.size(); ++i)
        if (one.size == sizeof values[i]) {
            std::memcpy(&values[i], one.bytes.data() + i * one.size, one.size);
        } else if (std::int32_t narrow = 0; one.size == sizeof narrow) {
            std::memcpy(&narrow, one.bytes.data() + i * one.size, one.size);
            values[i] = narrow;
        } else {
            values[i] = one.bytes[i] == std::byte{0} ? 0 : 1;
        }
    return values;
}

void tensor_store::expect_only(std::set<std::string> const& names) const {
    auto const check = [&](auto const& tensors) {
        for (auto const& [name, one] : tensors)
            if (!names.contains(name))
                fail(directory_, "tensor " + name + ": by config.json there is none of that name");
    };
    check(tensors_);
    check(integers_);
}

}  // namespace multidraft::examples
