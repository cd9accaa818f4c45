// GGUF files that tests write: metadata, tensors of every type, and a small model with a small vocabulary.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "multidraft/base/abi.hpp"
#include "transformer/tensor_view.hpp"

namespace MULTIDRAFT_NAMESPACE::testing {

using examples::tensor_type;

template <class T>
std::string bytes_of(T value) {
    std::string bytes(sizeof value, '\0');
    std::memcpy(bytes.data(), &value, sizeof value);
    return bytes;
}

/// Collects a file's parts.
class gguf_writer {
public:
    void text(std::string const& key, std::string const& value) { put(key, 8, sized(value)); }
    void u32(std::string const& key, std::uint32_t value) { put(key, 4, bytes_of(value)); }
    void f32(std::string const& key, float value) { put(key, 6, bytes_of(value)); }
    void flag(std::string const& key, bool value) { put(key, 7, std::string(1, value ? '\1' : '\0')); }
    void texts(std::string const& key, std::vector<std::string> const& values) {
        std::string all = bytes_of(std::uint32_t{8}) + bytes_of(std::uint64_t{values.size()});
        for (std::string const& value : values) all += sized(value);
        put(key, 9, all);
    }
    void i32s(std::string const& key, std::vector<std::int32_t> const& values) {
        std::string all = bytes_of(std::uint32_t{5}) + bytes_of(std::uint64_t{values.size()});
        for (std::int32_t const value : values) all += bytes_of(value);
        put(key, 9, all);
    }
    /// A value of any type number.
    void put(std::string const& key, std::uint32_t type, std::string const& value) {
        metadata_[key] = sized(key) + bytes_of(type) + value;
    }
    void erase(std::string const& key) { metadata_.erase(key); }

    struct tensor {
        std::vector<std::uint64_t> extents{};  ///< the first one lies together
        std::uint32_t type = 0;
        std::string bytes{};
        std::int64_t shift = 0;  ///< of the offset, to make it wrong
    };
    std::map<std::string, tensor> tensors;
    std::uint32_t version = 3;
    std::string magic = "GGUF";

    /// The file, and where its data begin.
    [[nodiscard]] std::pair<std::string, std::size_t> file() const {
        std::string all = magic + bytes_of(version) + bytes_of(std::uint64_t{tensors.size()}) +
                          bytes_of(std::uint64_t{metadata_.size()});
        for (auto const& [key, bytes] : metadata_) all += bytes;
        std::string data;
        for (auto const& [name, one] : tensors) {
            all += sized(name) + bytes_of(static_cast<std::uint32_t>(one.extents.size()));
            for (std::uint64_t const extent : one.extents) all += bytes_of(extent);
            all += bytes_of(one.type) +
                   bytes_of(static_cast<std::uint64_t>(static_cast<std::int64_t>(data.size()) + one.shift));
            data += one.bytes;
            data.resize((data.size() + 31) / 32 * 32);
        }
        all.resize((all.size() + 31) / 32 * 32);
        return {all + data, all.size()};
    }

private:
    static std::string sized(std::string const& value) { return bytes_of(std::uint64_t{value.size()}) + value; }

    std::map<std::string, std::string> metadata_;
};

/// The half with the bits of a float of few digits and moderate size.
inline std::uint16_t half_of(float value) {
    auto const bits = std::bit_cast<std::uint32_t>(value);
    std::uint32_t const magnitude = bits & 0x7fffffffU;
    std::uint32_t const sign = (bits >> 16U) & 0x8000U;
    return static_cast<std::uint16_t>(magnitude == 0 ? sign : sign | ((magnitude - (112U << 23U)) >> 13U));
}

/// Numbers as a file of some type stores them: their bytes, and the values that these stand for.
struct stored_numbers {
    std::uint32_t type = 0;
    std::string bytes{};
    std::vector<float> values{};
};

/// Some numbers of about `scale`, a multiple of 32 of them for the types in blocks.
inline stored_numbers some_numbers(tensor_type type, std::size_t count, float scale, std::mt19937& random) {
    stored_numbers all;
    std::uint32_t const numbers[] = {0, 1, 30, 8, 2, 3};  // GGML's, in the order of tensor_type
    all.type = numbers[static_cast<std::size_t>(type)];
    auto const digits = [&](int bits) { return static_cast<int>(random() % (1U << static_cast<unsigned>(bits))); };
    // A power of two and three more bits: exact as a half.
    auto const some_scale = [&] {
        return static_cast<float>(8 + digits(3)) * std::exp2(std::round(std::log2(scale)) - 7);
    };
    if (examples::block_numbers(type) == 1) {
        for (std::size_t i = 0; i < count; ++i) {
            float const value = some_scale() * static_cast<float>(digits(4) - 8);
            all.values.push_back(value);
            if (type == tensor_type::f32)
                all.bytes += bytes_of(value);
            else if (type == tensor_type::f16)
                all.bytes += bytes_of(half_of(value));
            else
                all.bytes += bytes_of(static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(value) >> 16U));
        }
        return all;
    }
    for (std::size_t b = 0; b < count / 32; ++b) {
        bool const wide = type == tensor_type::q8_0;
        float const step = some_scale() / (wide ? 16.0F : 1.0F);
        float const least = type == tensor_type::q4_1 ? -7.5F * step : 0.0F;
        all.bytes += bytes_of(half_of(step));
        if (type == tensor_type::q4_1) all.bytes += bytes_of(half_of(least));
        std::vector<int> q(32);
        for (int& one : q) one = wide ? digits(8) - 128 : digits(4);
        if (wide)
            for (int const one : q) all.bytes += static_cast<char>(one);
        else
            for (std::size_t i = 0; i < 16; ++i) all.bytes += static_cast<char>(q[i] | q[i + 16] << 4);
        for (int const one : q)
            all.values.push_back(step * static_cast<float>(type == tensor_type::q4_0 ? one - 8 : one) + least);
    }
    return all;
}

/// How GPT-2's vocabulary spells bytes.
inline std::string spelling_of(std::string const& bytes) {
    std::string all;
    for (char const one : bytes) {
        auto const byte = static_cast<unsigned char>(one);
        unsigned character = byte;
        auto const printable = [](unsigned b) { return (b > 0x20 && b < 0x7F) || (b > 0xA0 && b != 0xAD); };
        if (!printable(byte)) {
            character = 0x100;
            for (unsigned before = 0; before < byte; ++before) character += printable(before) ? 0U : 1U;
        }
        if (character < 0x80) {
            all += static_cast<char>(character);
        } else {
            all += static_cast<char>(0xC0U | character >> 6U);
            all += static_cast<char>(0x80U | (character & 0x3FU));
        }
    }
    return all;
}

/// A small vocabulary: three control tokens, one of a user, the bytes but 0xFE and 0xFF, and what the merges make.
struct small_vocabulary {
    std::vector<std::string> tokens{"<|endoftext|>", "<|im_start|>", "<|im_end|>", "<tool>"};
    std::vector<std::int32_t> types{3, 3, 3, 4};
    std::vector<std::string> merges{};

    small_vocabulary() {
        for (int byte = 0; byte < 0xFE; ++byte) tokens.push_back(spelling_of(std::string(1, static_cast<char>(byte))));
        for (auto const& [left, right] : {std::pair("h", "e"), std::pair("l", "l"), std::pair("he", "ll"),
                                          std::pair("hell", "o"), std::pair(" ", "w"), std::pair("o", "r"),
                                          std::pair("1", "2"), std::pair("e", "l"), std::pair("\xC3", "\xA9")}) {
            merges.push_back(spelling_of(left) + ' ' + spelling_of(right));
            tokens.push_back(spelling_of(std::string(left) + right));
        }
        types.resize(tokens.size(), 1);
    }
    [[nodiscard]] std::int32_t id(std::string const& bytes) const {
        return static_cast<std::int32_t>(std::ranges::find(tokens, spelling_of(bytes)) - tokens.begin());
    }
    void write(gguf_writer& to, std::string const& pre = "smollm") const {
        to.text("tokenizer.ggml.model", "gpt2");
        to.text("tokenizer.ggml.pre", pre);
        to.texts("tokenizer.ggml.tokens", tokens);
        to.i32s("tokenizer.ggml.token_type", types);
        to.texts("tokenizer.ggml.merges", merges);
        to.u32("tokenizer.ggml.bos_token_id", 1);
        to.u32("tokenizer.ggml.eos_token_id", 2);
        to.flag("tokenizer.ggml.add_bos_token", false);
    }
};

}  // namespace MULTIDRAFT_NAMESPACE::testing
