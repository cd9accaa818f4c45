// The reader of NumPy's array files: accepted and refused files, and no reads outside the data.
#include "acceptance/npy.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "multidraft/base/float16.hpp"
#include "multidraft/testing/test_numbers.hpp"

namespace npy_test {
namespace {

using namespace multidraft::examples;
using bytes = std::vector<std::byte>;

void append(bytes& out, void const* from, std::size_t size) {
    auto const old = out.size();
    out.resize(old + size);
    if (size > 0) std::memcpy(out.data() + old, from, size);
}

/// A file with this header text, padded as NumPy pads it.
bytes file_of(std::string header, bytes const& data, int version = 1) {
    std::size_t const prefix = version == 1 ? 10 : 12;
    header.append((64 - (prefix + header.size() + 1) % 64) % 64, ' ');
    header += '\n';
    bytes result;
    append(result, "\x93NUMPY", 6);
    result.push_back(static_cast<std::byte>(version));
    result.push_back(std::byte{0});
    for (std::size_t k = 0; k < prefix - 8; ++k) result.push_back(static_cast<std::byte>(header.size() >> (8 * k)));
    append(result, header.data(), header.size());
    append(result, data.data(), data.size());
    return result;
}

std::string header_of(std::string const& descr, std::string const& shape, std::string const& fortran = "False") {
    return "{'descr': '" + descr + "', 'fortran_order': " + fortran + ", 'shape': " + shape + ", }";
}

template <class T>
bytes data_of(std::vector<T> const& values) {
    bytes result;
    append(result, values.data(), values.size() * sizeof(T));
    return result;
}

std::vector<double> row_of(npy_array const& array, std::int64_t row) {
    std::vector<double> result(static_cast<std::size_t>(array.columns));
    array.read(row, result);
    return result;
}

std::string refusal(bytes const& file) {
    try {
        (void)parse_npy(file);
    } catch (std::runtime_error const& e) {
        return e.what();
    }
    return "";
}

TEST(npy, reads_every_type_and_version) {
    for (int const version : {1, 2, 3}) {
        auto const wide = file_of(header_of("<f8", "(2, 3)"), data_of<double>({0.1, 0.2, 0.7, 1, 0, 0}), version);
        auto const array = parse_npy(wide);
        EXPECT_EQ(array.rows, 2);
        EXPECT_EQ(array.columns, 3);
        EXPECT_FALSE(array.one_dimensional);
        EXPECT_EQ(row_of(array, 0), (std::vector<double>{0.1, 0.2, 0.7}));
        EXPECT_EQ(row_of(array, 1), (std::vector<double>{1, 0, 0}));

        auto const single = file_of(header_of("<f4", "(2,)"), data_of<float>({0.1F, 0.9F}), version);
        EXPECT_EQ(row_of(parse_npy(single), 0), (std::vector<double>{double{0.1F}, double{0.9F}}));
        EXPECT_TRUE(parse_npy(single).one_dimensional);

        std::vector<multidraft::float16> const halves{multidraft::float16(0.25F), multidraft::float16::from_bits(1)};
        auto const narrow = file_of(header_of("<f2", "(1, 2)"), data_of(halves), version);
        EXPECT_EQ(row_of(parse_npy(narrow), 0), (std::vector<double>{0.25, 0x1p-24}));
    }
}

TEST(npy, takes_the_header_in_any_order_and_quotes) {
    bytes const data = data_of<float>({1});
    for (char const* header : {
             "{\"shape\": (1,), \"fortran_order\": False, \"descr\": \"<f4\"}",
             "{'shape':(1,),'descr':'<f4','fortran_order':False,}",
             "{ 'descr' : '<f4' , 'fortran_order' : True , 'shape' : ( 1 , ) }",  // one row has no order
             "{'descr': '<f4', 'fortran_order': False, 'shape': (1L,), }",
         })
        EXPECT_EQ(refusal(file_of(header, data)), "") << header;
}

TEST(npy, names_what_is_wrong) {
    bytes const data = data_of<float>({0.5F, 0.5F});
    auto const expect = [&](bytes const& file, std::string_view part) {
        std::string const message = refusal(file);
        EXPECT_NE(message.find(part), std::string::npos) << "got '" << message << "', wanted '" << part << "'";
    };
    expect({}, "not an array file");
    expect(data, "not an array file");
    expect(file_of(header_of("<f4", "(2,)"), data, 4), "format version 4.0");
    expect(file_of(header_of(">f4", "(2,)"), data), "big-endian");
    expect(file_of(header_of("<i8", "(1,)"), data), "'<i8'");
    expect(file_of(header_of("|V2", "(4,)"), data), "'|V2'");
    expect(file_of("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2,), }", data), "structure");
    expect(file_of(header_of("<f4", "(1, 2)", "True"), data), "fortran_order");
    expect(file_of(header_of("<f4", "()"), data), "shape = ()");
    expect(file_of(header_of("<f4", "(1, 1, 2)"), data), "shape = (1, 1, 2)");
    expect(file_of(header_of("<f4", "(0, 2)"), data), "shape = (0, 2)");
    expect(file_of(header_of("<f4", "(2)"), data), "no tuple");
    expect(file_of(header_of("<f4", "(-2,)"), data), "expected a size");
    expect(file_of(header_of("<f4", "(99999999999999999999,)"), data), "too large");
    expect(file_of(header_of("<f4", "(4611686018427387904, 4)"), data), "truncated");  // whose size wraps to 0
    expect(file_of(header_of("<f4", "(2, 9223372036854775807)"), data), "2^31");
    expect(file_of(header_of("<f4", "(3,)"), data), "truncated");
    expect(file_of(header_of("<f4", "(2, 2)"), data), "truncated");
    expect(file_of(header_of("<f4", "(1,)"), data), "too long");
    expect(file_of(header_of("<f4", "(2,)", "0"), data), "True or False");
    expect(file_of("{'descr': '<f4', 'shape': (2,), }", data), "must have");
    expect(file_of("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), 'more': 1}", data), "'more'");
    expect(file_of("{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (2,)}", data), "'descr'");
    expect(file_of(header_of("<f4", "(2,)") + "x", data), "after its end");
    expect(file_of("{'descr", data), "no end");
    expect(file_of("", data), "expected '{'");
}

TEST(npy, refuses_every_truncation) {
    for (int const version : {1, 2}) {
        auto const whole = file_of(header_of("<f2", "(2, 2)"), data_of<std::uint16_t>({1, 2, 3, 4}), version);
        ASSERT_EQ(refusal(whole), "");
        for (std::size_t size = 0; size < whole.size(); ++size) {
            bytes const part(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size));
            EXPECT_NE(refusal(part), "") << size;
        }
    }
}

TEST(npy, survives_any_bytes) {
    // With the sanitizers of the CI this finds reads outside the file; what is taken must be readable.
    multidraft::testing::test_numbers numbers(7);
    auto const valid = file_of(header_of("<f4", "(2, 2)"), data_of<float>({1, 2, 3, 4}));
    int taken = 0;
    for (int k = 0; k < 100000; ++k) {
        bytes file = valid;
        int const changes = 1 + numbers.below(4);
        for (int c = 0; c < changes; ++c) {
            // Mostly the header, whose bytes have meaning.
            auto const at = static_cast<std::size_t>(numbers.below(numbers() < 0.9 ? 75 : 128 + 16));
            if (at < file.size()) file[at] = static_cast<std::byte>(numbers.below(256));
        }
        if (numbers() < 0.2) file.resize(static_cast<std::size_t>(numbers.below(static_cast<int>(file.size()) + 1)));
        try {
            auto const array = parse_npy(file);
            ++taken;
            std::vector<double> row(static_cast<std::size_t>(array.columns));
            for (std::int64_t r = 0; r < array.rows; ++r) array.read(r, row);
        } catch (std::runtime_error const&) {
        }
    }
    EXPECT_GT(taken, 100);  // changes of the data alone, at least
}

TEST(npy, reads_whole_numbers_of_all_sizes) {
    auto const read = [](char const* descr, auto numbers) {
        return parse_npy_integers(file_of(header_of(descr, "(" + std::to_string(numbers.size()) + ",)"),
                                          data_of<typename decltype(numbers)::value_type>(numbers)));
    };
    std::vector<std::int64_t> const wanted{-3, 0, 100};
    EXPECT_EQ(read("<i8", std::vector<std::int64_t>{-3, 0, 100}), wanted);
    EXPECT_EQ(read("<i4", std::vector<std::int32_t>{-3, 0, 100}), wanted);
    EXPECT_EQ(read("<i2", std::vector<std::int16_t>{-3, 0, 100}), wanted);
    EXPECT_EQ(read("|i1", std::vector<std::int8_t>{-3, 0, 100}), wanted);
    std::vector<std::int64_t> const unsigned_ones{0, 200};
    EXPECT_EQ(read("<u8", std::vector<std::uint64_t>{0, 200}), unsigned_ones);
    EXPECT_EQ(read("<u4", std::vector<std::uint32_t>{0, 200}), unsigned_ones);
    EXPECT_EQ(read("<u2", std::vector<std::uint16_t>{0, 200}), unsigned_ones);
    EXPECT_EQ(read("|u1", std::vector<std::uint8_t>{0, 200}), unsigned_ones);
    EXPECT_EQ(read("<u4", std::vector<std::uint32_t>{4294967295U}), std::vector<std::int64_t>{4294967295});
}

TEST(npy, names_what_is_wrong_with_whole_numbers) {
    auto const expect = [](bytes const& file, std::string_view part) {
        std::string message;
        try {
            static_cast<void>(parse_npy_integers(file));
        } catch (std::runtime_error const& e) {
            message = e.what();
        }
        EXPECT_NE(message.find(part), std::string::npos) << "got '" << message << "', wanted '" << part << "'";
    };
    bytes const data = data_of<std::int32_t>({1, 2});
    expect(file_of(header_of("<f4", "(2,)"), data), "'<f4'");
    expect(file_of(header_of(">i4", "(2,)"), data), "'>i4'");
    expect(file_of(header_of("|i4", "(2,)"), data), "'|i4'");
    expect(file_of(header_of("<i4", "(2, 1)"), data), "shape = (2, 1)");
    expect(file_of(header_of("<i4", "()"), data), "shape = ()");
    expect(file_of(header_of("<i4", "(0,)"), {}), "nothing in it");
    expect(file_of(header_of("<i4", "(3,)"), data), "truncated");
    expect(file_of(header_of("<i4", "(1,)"), data), "too long");
    expect(file_of(header_of("<i4", "(2305843009213693954,)"), data), "truncated");
    expect(file_of(header_of("<u8", "(1,)"), data_of<std::uint64_t>({~std::uint64_t{0}})), "2^63 - 1");
    expect(data, "not an array file");
}

TEST(npy, maps_a_file_and_names_it_in_errors) {
    auto const path = std::filesystem::path(::testing::TempDir()) / "multidraft_npy_test.npy";
    auto const write = [&](bytes const& content) {
        std::ofstream(path, std::ios::binary)
            .write(reinterpret_cast<char const*>(content.data()), static_cast<std::streamsize>(content.size()));
    };
    write(file_of(header_of("<f4", "(2,)"), data_of<float>({0.5F, 0.5F})));
    {
        npy_file const file(path);
        EXPECT_EQ(row_of(file.array(), 0), (std::vector<double>{0.5, 0.5}));
        EXPECT_THROW(row_of(file.array(), 1), std::out_of_range);
    }
    for (bytes const& content : {bytes{}, data_of<float>({1, 2, 3})}) {
        write(content);
        try {
            npy_file const file(path);
            FAIL();
        } catch (std::runtime_error const& e) {
            EXPECT_NE(std::string(e.what()).find("multidraft_npy_test.npy"), std::string::npos);
        }
    }
    std::filesystem::remove(path);
    EXPECT_THROW(npy_file{path}, std::runtime_error);
    EXPECT_THROW(npy_file{::testing::TempDir()}, std::runtime_error);
}

}  // namespace
}  // namespace npy_test
