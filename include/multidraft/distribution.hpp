// All of distribution/: rows of logits and of probabilities, sampling parameters.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "multidraft/distribution/adjusted_view.hpp"
#include "multidraft/distribution/distribution.hpp"
#include "multidraft/distribution/indexed_rows.hpp"
#include "multidraft/distribution/log_probability.hpp"
#include "multidraft/distribution/logit_bias.hpp"
#include "multidraft/distribution/most_likely.hpp"
#include "multidraft/distribution/probabilities.hpp"
#include "multidraft/distribution/remembered_rows.hpp"
#include "multidraft/distribution/reweighted.hpp"
#include "multidraft/distribution/row_source.hpp"
#include "multidraft/distribution/row_view.hpp"
#include "multidraft/distribution/sampling_arrays.hpp"
#include "multidraft/distribution/sampling_params.hpp"
#include "multidraft/distribution/softmax.hpp"
#include "multidraft/distribution/target_and_draft.hpp"
#include "multidraft/distribution/token_mask.hpp"
#include "multidraft/distribution/truncated_view.hpp"
#include "multidraft/distribution/truncation.hpp"
#include "multidraft/distribution/truncation_by_share.hpp"
#include "multidraft/distribution/widened_row.hpp"
