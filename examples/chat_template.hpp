// What a model's chat template says by itself.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace multidraft::examples {

// ChatML: what begins and ends a message.
inline constexpr std::string_view begin_mark = "<|im_start|>";
inline constexpr std::string_view end_mark = "<|im_end|>";

/// The system message that a template in Jinja writes itself, where a conversation has none: between its marks, without
/// expressions. Empty if there is none. The template is not run.
inline std::string system_message_in(std::string_view source) {
    std::string const begin = std::string(begin_mark) + "system";
    for (std::size_t at = 0; (at = source.find(begin, at)) != std::string_view::npos;) {
        at += begin.size();
        std::string_view rest = source.substr(at);
        // The line break as it is, or as it is written in a string.
        if (rest.starts_with('\n'))
            rest.remove_prefix(1);
        else if (rest.starts_with("\\n"))
            rest.remove_prefix(2);
        else
            continue;
        std::string_view const message = rest.substr(0, rest.find(end_mark));
        if (message.size() < rest.size() && message.find_first_of("{}") == std::string_view::npos)
            return std::string(message);
    }
    return "";
}

}  // namespace multidraft::examples
