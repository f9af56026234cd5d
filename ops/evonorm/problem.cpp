// What kernel-level EvoNorm calls on both devices check before anything else.
#include <bevel/ops/evonorm/detail/problem.h>

namespace bevel {

namespace evo {

void check_problem(const Problem& p) {
  require(is_floating(p.dtype), "raw::evonorm: not defined for ", p.dtype);
  require(p.samples >= 1 && p.pixels >= 1 && p.channels >= 1, "raw::evonorm: sizes must be at least 1; got ", p.samples,
          " samples, ", p.pixels, " pixels, ", p.channels, " channels");
  if (!has_batch_term(p.variant))
    require(p.groups >= 1 && p.channels % p.groups == 0, "raw::evonorm: ", p.groups, " groups do not divide ",
            p.channels, " channels");
}

void check(const Problem& p, const raw::EvoNormForward& f) {
  check_problem(p);
  require(f.x && f.gamma && f.beta && f.y && f.statistics,
          "raw::evonorm_forward: x, gamma, beta, y and statistics must not be null");
  const bool wants_v = has_v(p.variant) && !p.affine;
  require(!wants_v || f.v, "raw::evonorm_forward: ", p.variant, " needs v");
  const bool wants_running_var = has_batch_term(p.variant) && !p.affine && !p.training;
  require(!wants_running_var || f.running_var, "raw::evonorm_forward: ", p.variant, " in evaluation needs running_var");
}

void check(const Problem& p, const raw::EvoNormBackward& b) {
  check_problem(p);
  require(b.x && b.gamma && b.dy && b.dgamma && b.dbeta && b.statistics,
          "raw::evonorm_backward: x, gamma, dy, dgamma, dbeta and statistics must not be null");
  const bool wants_v = has_v(p.variant) && !p.affine;
  require(!wants_v || (b.v && b.dv), "raw::evonorm_backward: ", p.variant, " needs v and dv");
}

}  // namespace evo

namespace raw {

EvoNormMemory evonorm_memory(const OnStream&, const EvoNormProblem& problem) {
  require(has_cuda, "raw::evonorm_memory: this build of Bevel has no CUDA");
  evo::check_problem(problem);
  if constexpr (has_cuda) return evo::memory(problem);
  return {};
}

void evonorm_forward([[maybe_unused]] const OnStream& where, const EvoNormProblem& problem,
                     const EvoNormForward& arrays) {
  require(has_cuda, "raw::evonorm_forward: this build of Bevel has no CUDA");
  evo::check(problem, arrays);
  if constexpr (has_cuda) evo::forward(where, problem, arrays);
}

void evonorm_backward([[maybe_unused]] const OnStream& where, const EvoNormProblem& problem,
                      const EvoNormBackward& arrays) {
  require(has_cuda, "raw::evonorm_backward: this build of Bevel has no CUDA");
  evo::check(problem, arrays);
  if constexpr (has_cuda) evo::backward(where, problem, arrays);
}

}  // namespace raw

}  // namespace bevel
