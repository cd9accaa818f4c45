// The rates against the number of drafts, as a drawing in SVG.
#pragma once

#include <ostream>

#include "acceptance/summary.hpp"

namespace multidraft::examples {

/// One colour per law: its bound dashed, its verifiers' means with their intervals in solid lines.
void write_plot(std::ostream& out, summary const& found);

}  // namespace multidraft::examples
