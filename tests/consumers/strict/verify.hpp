// One verification call of an engine that has its own tensors.
#pragma once

#include <cstdint>
#include <vector>

int verify(std::vector<std::int32_t> const& parents, std::vector<std::int32_t>& tokens, float const* p, float const* q,
           int vocabulary, std::uint64_t seed);

/// Whether each sampler and verifier gives a token.
bool every_method_decides();
