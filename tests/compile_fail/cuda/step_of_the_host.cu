// expect: no instance of overloaded function "multidraft::.*basic_batch_step<Methods>::draw .*matches
// The arrays of a batch_step are the host's: a stream runs a cuda::batch_step.
#include "multidraft/batch/batch_step.hpp"
#include "multidraft/cuda/on.cuh"
#include "multidraft/draft/sequential.hpp"
#include "multidraft/verify/recursive_rejection.hpp"

namespace md = multidraft;

void draw(md::batch_step<md::draft::sequential, md::verify::recursive_rejection<md::law::sequential>>& step,
          md::rows_of_batch<float> const& q) {
    step.draw(md::cuda::on(nullptr), q);
}
