// The characters of UTF-8 in bytes that may come one by one, or be none.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace multidraft::examples {

/// The bytes at the front of a string: a whole character of `length` bytes, the beginning of one (`complete` false), or
/// invalid UTF-8 (`length` 0).
struct utf8_prefix {
    std::size_t length;
    bool complete;
};

/// Examines the front of `bytes`, which has one byte or more.
inline utf8_prefix examine(std::string_view bytes) noexcept {
    auto const at = [&](std::size_t i) { return static_cast<unsigned char>(bytes[i]); };
    unsigned const lead = at(0);
    std::size_t length = 0;
    unsigned low = 0x80;  // bounds of the second byte: no overlong forms, surrogates or values beyond U+10FFFF
    unsigned high = 0xBF;
    if (lead < 0x80) return {1, true};
    if (lead >= 0xC2 && lead <= 0xDF) {
        length = 2;
    } else if (lead >= 0xE0 && lead <= 0xEF) {
        length = 3;
        if (lead == 0xE0) low = 0xA0;
        if (lead == 0xED) high = 0x9F;
    } else if (lead >= 0xF0 && lead <= 0xF4) {
        length = 4;
        if (lead == 0xF0) low = 0x90;
        if (lead == 0xF4) high = 0x8F;
    } else {
        return {0, false};
    }
    for (std::size_t i = 1; i < length; ++i) {
        if (i == bytes.size()) return {length, false};
        if (at(i) < low || at(i) > high) return {0, false};
        low = 0x80;
        high = 0xBF;
    }
    return {length, true};
}

/// Moves the decoded part of `held` to the end of `text`: whole characters as they are, invalid bytes as U+FFFD, one
/// each. With `all` the unfinished character at the end counts as such bytes.
inline void release_characters(std::string& held, std::string& text, bool all) {
    constexpr std::string_view replacement = "\xEF\xBF\xBD";  // U+FFFD
    std::size_t done = 0;
    while (done < held.size()) {
        auto const [length, complete] = examine(std::string_view(held).substr(done));
        if (complete) {
            text.append(held, done, length);
            done += length;
        } else if (length == 0 || all) {
            text += replacement;
            ++done;
        } else {
            break;
        }
    }
    held.erase(0, done);
}

}  // namespace multidraft::examples
