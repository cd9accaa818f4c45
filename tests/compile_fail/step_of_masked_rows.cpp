// expect: rows_of_step
// errors: 1
// Rows with masks given to a step as rows: the masks would not be read. They are an argument of their own.
#include "multidraft/batch/batch_step.hpp"
#include "multidraft/draft/sequential.hpp"
#include "multidraft/verify/recursive_rejection.hpp"

using namespace multidraft;

void draw(batch_step<draft::sequential, verify::recursive_rejection<law::sequential>>& step, host_threads const& pool,
          adjusted_batch<float> const& q) {
    step.draw(pool, q);
}
