// All of draft/: samplers.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "multidraft/draft/certain.hpp"
#include "multidraft/draft/child_shares.hpp"
#include "multidraft/draft/conditional_poisson.hpp"
#include "multidraft/draft/draft_inputs.hpp"
#include "multidraft/draft/draw_children.hpp"
#include "multidraft/draft/gumbel_top_k.hpp"
#include "multidraft/draft/iid.hpp"
#include "multidraft/draft/lookup.hpp"
#include "multidraft/draft/sampler.hpp"
#include "multidraft/draft/sequential.hpp"
#include "multidraft/draft/shape_chances.hpp"
#include "multidraft/draft/shape_of_rows.hpp"
#include "multidraft/draft/shared_randomness.hpp"
#include "multidraft/draft/stochastic_beam.hpp"
#include "multidraft/draft/stratified.hpp"
#include "multidraft/draft/top_n.hpp"
#include "multidraft/draft/top_paired.hpp"
#include "multidraft/draft/top_then_one.hpp"
#include "multidraft/draft/tree_growth.hpp"
