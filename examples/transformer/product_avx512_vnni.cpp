// Products by AVX512_VNNI: dot products of four bytes in a lane.
#include "transformer/product_kernel.hpp"

#if defined(__AVX512VNNI__) && defined(__AVX512BW__) && defined(__AVX512VL__)
#include "transformer/product_avx512.hpp"

namespace multidraft::examples::product {
namespace {

struct dot_products : bytes_in_16_lanes {
    static constexpr bool has_dot = true;
    static MULTIDRAFT_EXAMPLE_INLINE __m512i dot(__m512i sums, __m512i weights, __m512i inputs) {
        return _mm512_dpbusd_epi32(sums, weights, inputs);
    }
};

constexpr kernel list[] = {
    kernel_of<byte_inputs<dot_products, weight_type::q8_0>>("avx512_vnni", weight_type::q8_0, input_form::bytes),
    kernel_of<byte_inputs<dot_products, weight_type::q4_0>>("avx512_vnni", weight_type::q4_0, input_form::bytes),
    kernel_of<byte_inputs<dot_products, weight_type::q4_1>>("avx512_vnni", weight_type::q4_1, input_form::bytes),
};

}  // namespace

kernel_list const avx512_vnni_kernels{list, sizeof list / sizeof *list};

}  // namespace multidraft::examples::product

#else
namespace multidraft::examples::product {
kernel_list const avx512_vnni_kernels{nullptr, 0};
}  // namespace multidraft::examples::product
#endif
