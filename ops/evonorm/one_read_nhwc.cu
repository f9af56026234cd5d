// The gate's one-read kernels in NHWC: packs of 16 bytes.
#include <bevel/ops/evonorm/detail/one_read.cuh>

namespace bevel::evo {

void one_read_forward_nhwc(const raw::OnStream& where, Dtype dtype, const Residency& r, const OneRead& s,
                           const OneReadForward& f) {
  visit_one_read(dtype, [&]<class T>() {
    launch_one_read(where, r, s, Pass::forward, "evonorm: one_read_forward",
                    one_read_forward<T, 16 / static_cast<int>(sizeof(T)), true>, 16, f);
  });
}

void one_read_backward_nhwc(const raw::OnStream& where, Dtype dtype, const Residency& r, const OneRead& s,
                            const OneReadBackward& b) {
  visit_one_read(dtype, [&]<class T>() {
    launch_one_read(where, r, s, Pass::backward, "evonorm: one_read_backward",
                    one_read_backward<T, 16 / static_cast<int>(sizeof(T)), true>, 16, b);
  });
}

}  // namespace bevel::evo
