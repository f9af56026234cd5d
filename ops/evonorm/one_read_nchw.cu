// The gate's one-read kernels in NCHW: packs of 16 or 8 bytes, or single elements.
#include <bevel/ops/evonorm/detail/one_read.cuh>

namespace bevel::evo {

namespace {

// Calls f<T, P>() for the pack that residency() chose.
template <class F>
void visit_pack(Dtype dtype, const Residency& r, const F& f) {
  visit_one_read(dtype, [&]<class T>() {
    constexpr int full = 16 / static_cast<int>(sizeof(T));
    if (r.pack == full) return f.template operator()<T, full>();
    if constexpr (full == 8) {
      if (r.pack == 4) return f.template operator()<T, 4>();
    }
    if (r.pack == 1) return f.template operator()<T, 1>();
    fail("evonorm: no one-read kernel for packs of ", r.pack);
  });
}

}  // namespace

bool one_read_kernels_know_clusters() {
  cudaFuncAttributes attributes = {};
  gpu::check(cudaFuncGetAttributes(&attributes, one_read_forward<float, 4, false>), "cudaFuncGetAttributes");
  return attributes.ptxVersion >= 90;
}

void one_read_forward_nchw(const raw::OnStream& where, Dtype dtype, const Residency& r, const OneRead& s,
                           const OneReadForward& f) {
  visit_pack(dtype, r, [&]<class T, int P>() {
    launch_one_read(where, r, s, Pass::forward, "evonorm: one_read_forward", one_read_forward<T, P, false>,
                    P * sizeof(T), f);
  });
}

void one_read_backward_nchw(const raw::OnStream& where, Dtype dtype, const Residency& r, const OneRead& s,
                            const OneReadBackward& b) {
  visit_pack(dtype, r, [&]<class T, int P>() {
    launch_one_read(where, r, s, Pass::backward, "evonorm: one_read_backward", one_read_backward<T, P, false>,
                    P * sizeof(T), b);
  });
}

}  // namespace bevel::evo
