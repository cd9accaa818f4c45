// All of rows/: rows as probabilities or logits, sampling parameters, truncation.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "multidraft/rows/adjusted_view.hpp"
#include "multidraft/rows/candidate_view.hpp"
#include "multidraft/rows/distribution.hpp"
#include "multidraft/rows/logit_rows.hpp"
#include "multidraft/rows/low_rank_term.hpp"
#include "multidraft/rows/probabilities.hpp"
#include "multidraft/rows/remembered_rows.hpp"
#include "multidraft/rows/row_source.hpp"
#include "multidraft/rows/row_view.hpp"
#include "multidraft/rows/sampling_params.hpp"
#include "multidraft/rows/softmax.hpp"
#include "multidraft/rows/truncation.hpp"
#include "multidraft/rows/truncation_by_share.hpp"
#include "multidraft/rows/widened_row.hpp"
