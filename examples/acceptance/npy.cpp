#include "acceptance/npy.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "multidraft/base/float16.hpp"

namespace multidraft::examples {
namespace {

static_assert(std::endian::native == std::endian::little, "the arrays that are read are little-endian");

[[noreturn]] void fail(std::string const& what) { throw std::runtime_error(what); }

/// Text of a file for an error message: printable, and not too long.
std::string in_quotes(std::string_view text) {
    constexpr std::size_t most = 60;
    std::string result = "'";
    for (char const c : text.substr(0, most)) result += c >= ' ' && c <= '~' ? c : '?';
    return result + (text.size() > most ? "..'" : "'");
}

/// The header: a Python dictionary with the keys descr, fortran_order and shape.
class header_reader {
public:
    explicit header_reader(std::string_view text) : text_(text) {}

    struct fields {
        std::string descr;
        bool fortran_order = false;
        std::vector<std::int64_t> shape;
    };

    fields read() {
        std::optional<std::string> descr;
        std::optional<bool> fortran_order;
        std::optional<std::vector<std::int64_t>> shape;
        expect('{');
        while (!accept('}')) {
            std::string const key = string();
            expect(':');
            if (key == "descr" && !descr)
                descr = peek() == '[' ? fail_descr() : string();
            else if (key == "fortran_order" && !fortran_order)
                fortran_order = boolean();
            else if (key == "shape" && !shape)
                shape = tuple();
            else
                fail("header: key " + in_quotes(key) + ": not expected, or not twice");
            if (!accept(',')) {
                expect('}');
                break;
            }
        }
        skip();
        if (at_ != text_.size()) fail("header: " + in_quotes(text_.substr(at_)) + " after its end");
        if (!descr || !fortran_order || !shape) fail("header: must have descr, fortran_order and shape");
        return {*descr, *fortran_order, *shape};
    }

private:
    [[noreturn]] static std::string fail_descr() {
        fail("header: descr is a structure: only float16, float32 and float64 are read");
    }
    void skip() {
        while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
    }
    char peek() {
        skip();
        return at_ < text_.size() ? text_[at_] : '\0';
    }
    bool accept(char c) {
        if (peek() != c) return false;
        ++at_;
        return true;
    }
    void expect(char c) {
        if (!accept(c))
            fail(std::string("header: expected '") + c + "', found " +
                 in_quotes(text_.substr(std::min(at_, text_.size()))));
    }
    std::string string() {
        char const quote = peek();
        if (quote != '\'' && quote != '"') fail("header: expected a string, found " + in_quotes(text_.substr(at_)));
        std::size_t const end = text_.find(quote, at_ + 1);
        if (end == std::string_view::npos) fail("header: a string has no end");
        std::string result(text_.substr(at_ + 1, end - at_ - 1));
        at_ = end + 1;
        return result;
    }
    bool boolean() {
        skip();
        for (bool const value : {false, true}) {
            std::string_view const word = value ? "True" : "False";
            if (text_.substr(at_, word.size()) == word) {
                at_ += word.size();
                return value;
            }
        }
        fail("header: expected True or False, found " + in_quotes(text_.substr(at_)));
    }
    std::int64_t integer() {
        skip();
        std::size_t const begin = at_;
        std::int64_t result = 0;
        while (at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9') {
            int const digit = text_[at_++] - '0';
            if (result > (std::numeric_limits<std::int64_t>::max() - digit) / 10)
                fail("header: shape: " + in_quotes(text_.substr(begin)) + " is too large");
            result = result * 10 + digit;
        }
        if (at_ == begin) fail("header: shape: expected a size, found " + in_quotes(text_.substr(at_)));
        if (at_ < text_.size() && text_[at_] == 'L') ++at_;  // written by Python 2
        return result;
    }
    std::vector<std::int64_t> tuple() {
        std::vector<std::int64_t> result;
        expect('(');
        while (!accept(')')) {
            result.push_back(integer());
            if (!accept(',')) {
                expect(')');
                if (result.size() == 1) fail("header: shape is no tuple");
                break;
            }
        }
        return result;
    }

    std::string_view text_;
    std::size_t at_ = 0;
};

std::string shape_text(std::vector<std::int64_t> const& shape) {
    std::string result = "(";
    for (std::size_t k = 0; k < shape.size(); ++k) result += (k > 0 ? ", " : "") + std::to_string(shape[k]);
    return result + ")";
}

npy_type type_from(std::string const& descr) {
    if (descr == "<f2") return npy_type::float16;
    if (descr == "<f4") return npy_type::float32;
    if (descr == "<f8") return npy_type::float64;
    if (descr == ">f2" || descr == ">f4" || descr == ">f8")
        fail("descr = '" + descr + "': big-endian; save array.astype('<" + descr.substr(1) + "')");
    fail("descr = " + in_quotes(descr) + ": only float16, float32 and float64 are read ('<f2', '<f4', '<f8')");
}

/// The header of a file, and where its data begins.
struct parsed_header {
    header_reader::fields fields;
    std::size_t data_at = 0;
};

parsed_header parse_header(std::span<std::byte const> bytes) {
    constexpr std::string_view magic = "\x93NUMPY";
    if (bytes.size() < 10 || std::memcmp(bytes.data(), magic.data(), magic.size()) != 0)
        fail("not an array file of NumPy (.npy)");
    auto const at = [&](std::size_t i) { return std::to_integer<unsigned>(bytes[i]); };
    unsigned const major = at(6);
    if (major < 1 || major > 3 || at(7) != 0)
        fail("format version " + std::to_string(major) + "." + std::to_string(at(7)) + ": only 1.0 to 3.0 are read");
    std::size_t const prefix = major == 1 ? 10 : 12;
    if (bytes.size() < prefix) fail("truncated: the file ends inside its header");
    std::size_t length = at(8) + (at(9) << 8);
    if (major > 1) length += (std::size_t{at(10)} << 16) + (std::size_t{at(11)} << 24);
    if (length > bytes.size() - prefix)
        fail("truncated: a header of " + std::to_string(length) + " bytes in a file of " +
             std::to_string(bytes.size()));
    std::string_view const text(reinterpret_cast<char const*>(bytes.data()) + prefix, length);
    return {header_reader(text).read(), prefix + length};
}

}  // namespace

npy_array parse_npy(std::span<std::byte const> bytes) {
    auto const [header, data_at] = parse_header(bytes);
    npy_array result;
    result.type = type_from(header.descr);
    if (header.shape.empty() || header.shape.size() > 2)
        fail("shape = " + shape_text(header.shape) + ": one row (V), or (rows, V)");
    if (header.fortran_order && header.shape.size() == 2)
        fail("fortran_order = True: rows must lie one after another; save numpy.ascontiguousarray(array)");
    for (std::int64_t const extent : header.shape)
        if (extent < 1) fail("shape = " + shape_text(header.shape) + ": there is nothing in it");
    result.one_dimensional = header.shape.size() == 1;
    result.rows = result.one_dimensional ? 1 : header.shape[0];
    result.columns = header.shape.back();
    if (result.columns > std::numeric_limits<std::int32_t>::max() - 4097)
        fail("shape = " + shape_text(header.shape) + ": a row has at most 2^31 - 4098 entries");

    std::size_t const data = bytes.size() - data_at;
    std::size_t const width = size_of(result.type) * static_cast<std::size_t>(result.columns);
    // By division: the product may be too large for a number.
    if (data / width != static_cast<std::size_t>(result.rows) || data % width != 0) {
        bool const less = data / width < static_cast<std::size_t>(result.rows);
        fail(std::string(less ? "truncated: " : "too long: ") + std::to_string(data) + " bytes of data, but shape = " +
             shape_text(header.shape) + " of '" + header.descr + "' takes " + std::to_string(width) + " a row");
    }
    result.data = bytes.subspan(data_at);
    return result;
}

void npy_array::read(std::int64_t row, std::span<double> out) const {
    if (row < 0 || row >= rows || out.size() != static_cast<std::size_t>(columns))
        throw std::out_of_range("npy_array::read");
    std::byte const* from = data.data() + static_cast<std::size_t>(row * columns) * size_of(type);
    for (std::size_t i = 0; i < out.size(); ++i, from += size_of(type)) {
        switch (type) {  // entries need not be aligned
            case npy_type::float16: {
                std::uint16_t bits = 0;
                std::memcpy(&bits, from, sizeof bits);
                out[i] = static_cast<double>(static_cast<float>(float16::from_bits(bits)));
                break;
            }
            case npy_type::float32: {
                float value = 0;
                std::memcpy(&value, from, sizeof value);
                out[i] = static_cast<double>(value);
                break;
            }
            case npy_type::float64:
                std::memcpy(&out[i], from, sizeof(double));
                break;
        }
    }
}

std::vector<std::int64_t> parse_npy_integers(std::span<std::byte const> bytes) {
    auto const [header, data_at] = parse_header(bytes);
    // '<i8' and its like; what has one byte has no order: '|i1'.
    std::string const& descr = header.descr;
    bool const is_integer = descr.size() == 3 && (descr[1] == 'i' || descr[1] == 'u') &&
                            (descr[2] == '1' ? descr[0] == '|' || descr[0] == '<' : descr[0] == '<') &&
                            std::string_view("1248").find(descr[2]) != std::string_view::npos;
    if (!is_integer)
        fail("descr = " + in_quotes(descr) + ": only whole numbers are read, such as int64 ('<i8'), little-endian");
    if (header.shape.size() != 1) fail("shape = " + shape_text(header.shape) + ": a list of numbers (N,)");
    auto const width = static_cast<std::size_t>(descr[2] - '0');
    std::size_t const data = bytes.size() - data_at;
    auto const count = static_cast<std::uint64_t>(header.shape[0]);
    if (count == 0) fail("shape = " + shape_text(header.shape) + ": there is nothing in it");
    if (data / width != count || data % width != 0)
        fail(std::string(data / width < count ? "truncated: " : "too long: ") + std::to_string(data) +
             " bytes of data, but shape = " + shape_text(header.shape) + " of '" + descr + "'");
    std::vector<std::int64_t> result;
    result.reserve(static_cast<std::size_t>(count));
    for (std::byte const* at = bytes.data() + data_at; result.size() < count; at += width) {
        std::uint64_t bits = 0;
        std::memcpy(&bits, at, width);
        unsigned const unused = 64 - 8 * static_cast<unsigned>(width);
        if (descr[1] == 'i')  // shifted up and down again, which repeats the sign
            result.push_back(static_cast<std::int64_t>(bits << unused) >> unused);
        else if (bits > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
            fail("entry " + std::to_string(result.size()) + " = " + std::to_string(bits) + ": more than 2^63 - 1");
        else
            result.push_back(static_cast<std::int64_t>(bits));
    }
    return result;
}

namespace {

/// The bytes of a file, mapped, and what keeps them so.
struct mapped_bytes {
    std::shared_ptr<void const> mapping;
    std::span<std::byte const> bytes;
};

mapped_bytes map(std::filesystem::path const& path) {
    std::string const name = path.string();
    int const descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (descriptor < 0) fail(name + ": " + std::strerror(errno));
    struct stat status {};
    if (::fstat(descriptor, &status) != 0 || !S_ISREG(status.st_mode)) {
        ::close(descriptor);
        fail(name + ": is not a regular file");
    }
    auto const size = static_cast<std::size_t>(status.st_size);
    if (size == 0) {
        ::close(descriptor);
        return {};
    }
    void* const at = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, descriptor, 0);
    int const error = errno;
    ::close(descriptor);
    if (at == MAP_FAILED) fail(name + ": " + std::strerror(error));
    std::shared_ptr<void const> mapping(at, [size](void const* p) { ::munmap(const_cast<void*>(p), size); });
    return {std::move(mapping), {static_cast<std::byte const*>(at), size}};
}

}  // namespace

npy_file::npy_file(std::filesystem::path const& path) : name_(path.string()) {
    auto [mapping, bytes] = map(path);
    mapping_ = std::move(mapping);
    try {
        array_ = parse_npy(bytes);
    } catch (std::exception const& e) {
        fail(name_ + ": " + e.what());
    }
}

std::vector<std::int64_t> read_npy_integers(std::filesystem::path const& path) {
    auto const file = map(path);
    try {
        return parse_npy_integers(file.bytes);
    } catch (std::exception const& e) {
        fail(path.string() + ": " + e.what());
    }
}

}  // namespace multidraft::examples
