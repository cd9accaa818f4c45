// All of tree/: trees, masks, positions and the compaction of caches.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "multidraft/tree/absent_tokens.hpp"
#include "multidraft/tree/allowed_trees.hpp"
#include "multidraft/tree/compaction.hpp"
#include "multidraft/tree/links.hpp"
#include "multidraft/tree/mask.hpp"
#include "multidraft/tree/shape_text.hpp"
#include "multidraft/tree/shapes.hpp"
#include "multidraft/tree/shared_contexts.hpp"
#include "multidraft/tree/topology.hpp"
#include "multidraft/tree/tree_builder.hpp"
