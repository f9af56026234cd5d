// The three passes of each convolution of the box regressor (examples/bbox_regression), with the engine that does it.
#include "bench/case.h"

#include <bevel/ops/conv2d/detail/conv.h>
#include <bevel/ops/matmul/matmul.h>

namespace bevel::bench {

namespace {

enum class Pass : std::uint8_t { forward, data_gradient, filter_gradient };
constexpr const char* pass_names[] = {"forward", "data gradient", "filter gradient"};

struct ConvCase {
  detail::ConvShape shape;
  Dtype dtype;
  bool tf32;
  Pass pass;
};

Workset make_set(const ConvCase& c, Device device, std::uint64_t index) {
  const Tensor x = random(c.shape.input(), c.dtype, device, 5 * index + 1);
  const Tensor w = random(c.shape.weight(), c.dtype, device, 5 * index + 2);
  const Tensor y = random(c.shape.output(), c.dtype, device, 5 * index + 3);
  const auto run = [c, x, w, y, device] {
    set_matmul_precision(c.tf32 ? Precision::tf32 : Precision::full);
    on(device, [&](auto backend) {
      if (c.pass == Pass::forward)
        conv_forward(backend, c.shape, x, w, {}, y);
      else if (c.pass == Pass::data_gradient)
        conv_data_gradient(backend, c.shape, y, w, x);
      else
        conv_filter_gradient(backend, c.shape, x, y, w);
    });
  };
  return {[] {}, run};
}

void append(std::vector<Case>& cases, const ConvCase& c, bool quick) {
  const detail::ConvShape& s = c.shape;
  const std::int64_t moved = (s.input().numel() + s.output().numel()) * size_of(c.dtype);
  const Traffic traffic = c.pass == Pass::filter_gradient ? Traffic{2, 0} : Traffic{1, 1};
  Case result{"conv2d",
              message(s.batch, "x", s.height, "x", s.width, "x", s.channels, "-", s.out_channels),
              c.dtype,
              c.tf32 ? "tf32" : "",
              pass_names[static_cast<int>(c.pass)],
              "",
              moved / 2,
              {traffic},
              quick,
              [c](Device device, std::uint64_t index) { return make_set(c, device, index); }};
  result.operations = 2 * s.output().numel() * s.taps() * s.group_channels();
  result.engine = [] { return detail::last_conv_engine(); };
  cases.push_back(std::move(result));
}

// The regressor at its usual size on a GPU; on the CPU at the size that trains there.
std::vector<detail::ConvShape> layers(std::int64_t batch, std::int64_t side, std::int64_t width) {
  std::vector<detail::ConvShape> result;
  std::int64_t channels = 3;
  for (int i = 0; i < 8; ++i) {
    const std::int64_t stride = i % 2 == 0 ? 2 : 1;
    const std::int64_t out = width << (i / 2);
    const std::int64_t out_side = (side - 1) / stride + 1;
    result.push_back({.batch = batch,
                      .height = side,
                      .width = side,
                      .channels = channels,
                      .out_height = out_side,
                      .out_width = out_side,
                      .out_channels = out,
                      .kernel_h = 3,
                      .kernel_w = 3,
                      .stride = stride,
                      .padding = 1,
                      .dilation = 1,
                      .groups = 1});
    channels = out;
    side = out_side;
  }
  return result;
}

}  // namespace

std::vector<Case> conv2d_cases(const Selection& selection) {
  struct Precision {
    Dtype dtype;
    bool tf32;
  };
  const bool cuda = selection.device.is_cuda();
  std::vector<Precision> precisions;
  for (const Dtype dtype : selection.dtypes) precisions.push_back({dtype, cuda && dtype == f32});
  if (precisions.empty())
    precisions = cuda ? std::vector<Precision>{{f32, true}, {bf16, false}} : std::vector<Precision>{{f32, false}};
  std::vector<Case> cases;
  for (const std::int64_t batch : cuda ? std::vector<std::int64_t>{64, 256} : std::vector<std::int64_t>{32})
    for (const Precision& precision : precisions)
      for (const detail::ConvShape& shape : cuda ? layers(batch, 128, 32) : layers(batch, 64, 16))
        for (const Pass pass : {Pass::forward, Pass::data_gradient, Pass::filter_gradient})
          if (pass != Pass::data_gradient || shape.channels > 3)  // pictures want no gradient
            append(cases, {shape, precision.dtype, precision.tf32, pass}, batch != 64);
  return cases;
}

}  // namespace bevel::bench
