// The instruction sets for which loops are compiled apart, and which of them this CPU has.
#pragma once

namespace multidraft::examples {

/// From the narrowest to the widest; each has those before it.
enum class instruction_set {
    portable,  ///< what the build is for
    avx2,      ///< and FMA, F16C
    avx512,    ///< F, BW, DQ and VL
    avx512_vnni,
    avx512_bf16,  ///< and VBMI
    amx,          ///< tiles of bfloat16, where the system lets this process use them
};

/// The widest one of this CPU, but none wider than MULTIDRAFT_EXAMPLE_ISA=avx512_bf16, =avx512_vnni, =avx512,
/// =avx2 or =portable in the environment names, which is read once. Throws `std::runtime_error` for another name.
[[nodiscard]] instruction_set widest_instructions();

}  // namespace multidraft::examples
