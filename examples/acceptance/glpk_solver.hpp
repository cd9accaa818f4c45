// Linear programs solved by GLPK: the adapter that `multidraft::analysis::tree_limit` takes.
#pragma once

#include <glpk.h>

#include <cstddef>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "multidraft/analysis/tree_limit.hpp"

namespace multidraft::examples {

/// The largest value of a program, by GLPK's simplex method. Throws `std::runtime_error` when there is none or GLPK
/// gives up.
[[nodiscard]] inline double solve_by_glpk(analysis::linear_program const& program) {
    struct deleter {
        void operator()(glp_prob* problem) const { glp_delete_prob(problem); }
    };
    std::unique_ptr<glp_prob, deleter> const problem(glp_create_prob());
    glp_set_obj_dir(problem.get(), GLP_MAX);
    auto const rows = static_cast<int>(program.bound.size());
    auto const columns = static_cast<int>(program.gain.size());
    glp_add_rows(problem.get(), rows);
    for (int r = 0; r < rows; ++r)
        glp_set_row_bnds(problem.get(), r + 1, GLP_UP, 0.0, program.bound[static_cast<std::size_t>(r)]);
    glp_add_cols(problem.get(), columns);
    for (int c = 0; c < columns; ++c) {
        glp_set_col_bnds(problem.get(), c + 1, GLP_LO, 0.0, 0.0);
        glp_set_obj_coef(problem.get(), c + 1, program.gain[static_cast<std::size_t>(c)]);
    }
    // GLPK counts from 1 and leaves entry 0 alone.
    std::vector<int> row(1), column(1);
    std::vector<double> value(1);
    for (auto const& e : program.entries) {
        if (e.value == 0) continue;
        row.push_back(static_cast<int>(e.row) + 1);
        column.push_back(static_cast<int>(e.column) + 1);
        value.push_back(e.value);
    }
    glp_load_matrix(problem.get(), static_cast<int>(row.size()) - 1, row.data(), column.data(), value.data());
    glp_smcp options;
    glp_init_smcp(&options);
    options.msg_lev = GLP_MSG_OFF;
    options.presolve = GLP_ON;
    options.tol_bnd = 1e-9;
    options.tol_dj = 1e-9;
    int const failure = glp_simplex(problem.get(), &options);
    if (failure != 0 || glp_get_status(problem.get()) != GLP_OPT)
        throw std::runtime_error("GLPK found no optimum of a linear program (code " + std::to_string(failure) + ")");
    return glp_get_obj_val(problem.get());
}

}  // namespace multidraft::examples
