#include <bevel/ops/loss/iou.h>

#include <bevel/ops/gradcheck.h>
#include <bevel/ops/loss/pointwise_loss.h>

#include "testing.h"

#include <functional>
#include <numbers>

namespace bevel::testing {
namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

using Loss = Tensor (*)(const Tensor&, const Tensor&, const LossOptions&);

struct BoxCase {
  const char* name;
  Loss loss;
};
constexpr BoxCase cases[] = {{"iou", &iou_loss}, {"giou", &giou_loss}, {"diou", &diou_loss}, {"ciou", &ciou_loss}};

// From the definitions, in double. alpha: of ciou, where it is held fixed; negative: computed.
double by_definition(std::string_view name, const double* a, const double* b, double* alpha) {
  const double common = std::max(0.0, std::min(a[2], b[2]) - std::max(a[0], b[0])) *
                        std::max(0.0, std::min(a[3], b[3]) - std::max(a[1], b[1]));
  const double all = (a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - common;
  const double width = std::max(a[2], b[2]) - std::min(a[0], b[0]);
  const double height = std::max(a[3], b[3]) - std::min(a[1], b[1]);
  const double iou = common / all;
  if (name == "iou") return 1 - iou;
  if (name == "giou") return 1 - iou + (width * height - all) / (width * height);
  const double dx = (a[0] + a[2] - b[0] - b[2]) / 2;
  const double dy = (a[1] + a[3] - b[1] - b[3]) / 2;
  const double diou = 1 - iou + (dx * dx + dy * dy) / (width * width + height * height);
  if (name == "diou") return diou;
  const double angle = std::atan((b[2] - b[0]) / (b[3] - b[1])) - std::atan((a[2] - a[0]) / (a[3] - a[1]));
  const double v = 4 / (std::numbers::pi * std::numbers::pi) * angle * angle;
  if (*alpha < 0) *alpha = v / (1 - iou + v);
  return diou + *alpha * v;
}

// Boxes of corners in (0, 1) and sides in (0.3, 1.3), most of which overlap.
Tensor host_boxes(std::int64_t count, std::uint64_t seed, Dtype dtype, double side = 1) {
  const std::vector<double> v = random_tensor({count, 4}, {.low = 0, .high = 1, .seed = seed}).to_vector();
  std::vector<double> corners(v);
  for (std::size_t i = 0; i < v.size(); i += 4) {
    corners[i + 2] = corners[i] + side * (0.3 + v[i + 2]);
    corners[i + 3] = corners[i + 1] + side * (0.3 + v[i + 3]);
  }
  Tensor host = Tensor::empty({count, 4}, {.dtype = dtype});
  visit_floating(dtype, "boxes", [&]<class T>() {
    for (std::size_t i = 0; i < v.size(); ++i)
      host.data<T>()[i] = static_cast<T>(static_cast<compute_t<T>>(corners[i]));
  });
  return host;
}

class IouTest : public DeviceTest {
 protected:
  static Tensor boxes(std::int64_t count, std::uint64_t seed, Dtype dtype = f64, double side = 1) {
    return host_boxes(count, seed, dtype, side).to(device());
  }
  static Tensor leaf(std::initializer_list<double> values, Dtype dtype = f32) {
    return Tensor::from({static_cast<std::int64_t>(values.size()) / 4, 4}, values,
                        {.dtype = dtype, .device = device(), .requires_grad = true});
  }
};

INSTANTIATE_TEST_SUITE_P(Devices, IouTest, ::testing::ValuesIn(build_devices()), device_name);

TEST_P(IouTest, ValuesAndGradientsByDefinition) {
  for (const BoxCase& box_case : cases)
    for (const double side : {1.0, 0.2})
      for (const bool fused : {true, false}) {
        SCOPED_TRACE(message(box_case.name, " side ", side, " fused ", fused));
        const std::int64_t count = 301;
        const Tensor input = boxes(count, 1, f64, side).set_requires_grad();
        const Tensor target = boxes(count, 2, f64, side).set_requires_grad();
        const std::vector<double> a = input.to_vector();
        const std::vector<double> b = target.to_vector();
        std::vector<double> value, d_input, d_target;
        for (std::size_t i = 0; i < a.size(); i += 4) {
          double row[8];
          std::copy_n(a.begin() + static_cast<std::ptrdiff_t>(i), 4, row);
          std::copy_n(b.begin() + static_cast<std::ptrdiff_t>(i), 4, row + 4);
          double alpha = -1;
          value.push_back(by_definition(box_case.name, row, row + 4, &alpha));
          for (int k = 0; k < 8; ++k) {
            const double at = row[k];
            row[k] = at + 1e-6;
            const double above = by_definition(box_case.name, row, row + 4, &alpha);
            row[k] = at - 1e-6;
            const double below = by_definition(box_case.name, row, row + 4, &alpha);
            row[k] = at;
            (k < 4 ? d_input : d_target).push_back((above - below) / 2e-6);
          }
        }
        const Tensor none = box_case.loss(input, target, {.reduction = Reduction::none});
        EXPECT_EQ(none.shape(), Shape{count});
        EXPECT_TRUE(close(none, value, 1e-12, 1e-13));
        double total = 0;
        for (const double v : value) total += v;
        EXPECT_TRUE(close(box_case.loss(input, target, {}), {total / static_cast<double>(count)}, 1e-12));
        box_case.loss(input, target, {.reduction = Reduction::sum, .fused = fused}).backward();
        EXPECT_TRUE(close(input.grad(), d_input, 1e-6, 1e-7));
        EXPECT_TRUE(close(target.grad(), d_target, 1e-6, 1e-7));
      }
}

// The value of an overlap formula, without its analytic gradient.
template <formula::Overlap overlap>
struct ValueOnly {
  template <class X>
  X operator()(const Row<X>& input, const Row<X>& target) const {
    return formula::BoxOverlap<overlap>{}(input, target);
  }
};

template <formula::Overlap overlap>
void expect_analytic_equals_dual() {
  using R = Row<Number<double>>;
  constexpr formula::BoxOverlap<overlap> analytic;
  static_assert(detail::HasRowDerivative<formula::BoxOverlap<overlap>>);
  static_assert(!detail::HasRowDerivative<ValueOnly<overlap>>);
  const std::vector<double> v = random_tensor({3000, 8}, {.low = -1, .high = 1, .seed = 9}).to_vector();
  for (std::size_t i = 0; i < v.size(); i += 8) {
    // Corners in any order: one box in four is upside down or inside out, some do not overlap.
    const bool sorted = i % 32 != 0;
    R box[2];
    for (std::size_t k = 0; k < 8; ++k) box[k / 4][static_cast<int>(k % 4)] = v[i + k];
    for (R& b : box)
      for (int a = 0; a < 2 && sorted; ++a)
        if (b[a] > b[a + 2]) std::swap(b[a], b[a + 2]);
    const RowLoss<Number<double>> expected = detail::row_with_d_input(ValueOnly<overlap>{}, box[0], box[1]);
    const RowLoss<Number<double>> loss = analytic.with_d_input(box[0], box[1]);
    EXPECT_EQ(loss.value.value, expected.value.value);
    for (int k = 0; k < 4; ++k)
      EXPECT_NEAR(loss.d_input[k].value, expected.d_input[k].value, 1e-11 * (1 + std::abs(loss.d_input[k].value)))
          << i << " " << k;
    const R d_target = detail::row_d_target(analytic, box[0], box[1]);
    const R expected_target = detail::row_d_target(ValueOnly<overlap>{}, box[0], box[1]);
    for (int k = 0; k < 4; ++k)
      EXPECT_NEAR(d_target[k].value, expected_target[k].value, 1e-11 * (1 + std::abs(d_target[k].value)));
  }
}

TEST(IouFormulaTest, AnalyticGradientEqualsDualNumbers) {
  expect_analytic_equals_dual<formula::Overlap::iou>();
  expect_analytic_equals_dual<formula::Overlap::giou>();
  expect_analytic_equals_dual<formula::Overlap::diou>();
  expect_analytic_equals_dual<formula::Overlap::ciou>();
}

TEST_P(IouTest, GradcheckOfFirstAndSecondOrder) {
  const Tensor weight = random_tensor({9, 1}, {.device = device(), .low = 0.5, .high = 2, .seed = 3});
  for (const BoxCase& box_case : cases)
    for (const Reduction reduction : {Reduction::none, Reduction::mean})
      for (const bool fused : {true, false}) {
        SCOPED_TRACE(message(box_case.name, " ", name(reduction), " fused ", fused));
        if (box_case.loss == &ciou_loss) continue;  // alpha is held fixed in its derivative, by definition
        const LossOptions options{.reduction = reduction, .weight = weight, .scale = 2, .fused = fused};
        const auto f = [&](const std::vector<Tensor>& in) { return box_case.loss(in[0], in[1], options); };
        const Tensor input = boxes(9, 5).set_requires_grad();
        const Tensor target = boxes(9, 6).set_requires_grad();
        EXPECT_TRUE(gradcheck(f, {input, target}));
        EXPECT_TRUE(gradgradcheck(f, {input, target}));
        EXPECT_TRUE(gradgradcheck(f, {input, target.detach()}));
      }
}

TEST_P(IouTest, NoNanOnDegenerateBoxes) {
  // Against a box, and against themselves: points, lines, inverted boxes, distant ones.
  const std::vector<double> degenerate{0, 0, 0, 0, 1, 1, 1,   3,   2,   2,   5, 2, 3, 3,
                                       1, 1, 4, 1, 2, 3, 100, 100, 101, 101, 0, 0, 2, 2};
  const auto rows = static_cast<std::int64_t>(degenerate.size()) / 4;
  for (const BoxCase& box_case : cases)
    for (const Dtype dtype : {f32, f64, bf16, f16})
      for (std::int64_t i = 0; i < rows; ++i)
        for (std::int64_t j = 0; j < rows; ++j) {
          SCOPED_TRACE(message(box_case.name, " ", dtype, " ", i, " ", j));
          Tensor pair[2];
          for (int k = 0; k < 2; ++k) {
            const auto at = static_cast<std::size_t>(4 * (k == 0 ? i : j));
            pair[k] = leaf({degenerate[at], degenerate[at + 1], degenerate[at + 2], degenerate[at + 3]}, dtype);
          }
          const Tensor loss = box_case.loss(pair[0], pair[1], {});
          EXPECT_TRUE(std::isfinite(loss.item()));
          loss.backward();
          for (const Tensor& box : pair)
            for (const double d : box.grad().to_vector()) EXPECT_TRUE(std::isfinite(d));
        }
}

TEST_P(IouTest, PerfectBoxesAndKnownValues) {
  for (const BoxCase& box_case : cases) {
    const Tensor box = leaf({0, 0, 2, 4, 1, 1, 4, 2});
    const Tensor loss = box_case.loss(box, box.detach(), {});
    EXPECT_EQ(loss.item(), 0) << box_case.name;
    loss.backward();
    EXPECT_TRUE(close(box.grad(), std::vector<double>(8, 0.0), 0, 1e-7)) << box_case.name;
    const Tensor point = leaf({1, 1, 1, 1});
    EXPECT_EQ(box_case.loss(point, point.detach(), {}).item(), 1) << box_case.name;
  }
  const Tensor a = leaf({0, 0, 2, 2});
  const Tensor b = leaf({1, 1, 3, 3});
  EXPECT_FLOAT_EQ(static_cast<float>(iou_loss(a, b).item()), 1 - 1.0f / 7);
  EXPECT_FLOAT_EQ(static_cast<float>(giou_loss(a, b).item()), 1 - 1.0f / 7 + 2.0f / 9);
  EXPECT_FLOAT_EQ(static_cast<float>(diou_loss(a, b).item()), 1 - 1.0f / 7 + 2.0f / 18);
  EXPECT_FLOAT_EQ(static_cast<float>(ciou_loss(a, b).item()), 1 - 1.0f / 7 + 2.0f / 18);
}

TEST_P(IouTest, WeightsNanEmptyAndErrors) {
  for (const BoxCase& box_case : cases) {
    const Tensor input = leaf({nan, 0, 2, 2, 0, 0, 2, 2});
    const Tensor target = leaf({0, 0, 2, 2, 1, 1, 3, 3}).detach();
    EXPECT_TRUE(std::isnan(box_case.loss(input, target, {}).item()));
    const double second = box_case.loss(input, target, {.reduction = Reduction::none}).to_vector()[1];
    for (const Shape& shape : {Shape{2}, Shape{2, 1}}) {
      const Tensor weight = Tensor::from(shape, {0, 0.5}, {.device = device()});
      const Tensor loss = box_case.loss(input, target, {.weight = weight});
      EXPECT_FLOAT_EQ(static_cast<float>(loss.item()), static_cast<float>(second / 4));
      input.set_grad({});
      loss.backward();
      EXPECT_TRUE(close(input.grad().view({4}), {0, 0, 0, 0}, 0, 0));
    }
    const Tensor empty = Tensor::zeros({0, 4}, {.device = device(), .requires_grad = true});
    const Tensor loss = box_case.loss(empty, empty.detach(), {});
    EXPECT_EQ(loss.item(), 0);
    loss.backward();
    EXPECT_EQ(empty.grad().shape(), empty.shape());
    const Tensor wrong = Tensor::zeros({4, 3}, {.device = device()});
    EXPECT_TRUE(throws_error([&] { box_case.loss(wrong, wrong, {}); }, {"iou_loss", "4", "[4, 3]"}));
    EXPECT_TRUE(throws_error([&] { box_case.loss(target, target, {.weight = target}); }, {"weight", "[2, 4]", "[2]"}));
  }
}

TEST_P(IouTest, FusedEqualsUnfusedToTheBitAndMisalignedRows) {
  for (const BoxCase& box_case : cases)
    for (const Dtype dtype : {f32, f64, bf16, f16}) {
      SCOPED_TRACE(message(box_case.name, " ", dtype));
      const Tensor a = boxes(20001, 1, dtype);
      const Tensor b = boxes(20001, 2, dtype);
      Tensor loss[2], gradient[2];
      for (const bool fused : {false, true}) {
        const Tensor input = a.detach().set_requires_grad();
        loss[fused] = box_case.loss(input, b, {.fused = fused});
        loss[fused].backward();
        gradient[fused] = input.grad();
      }
      EXPECT_TRUE(bit_equal(loss[1], loss[0]));
      EXPECT_TRUE(bit_equal(gradient[1], gradient[0]));
      // The same boxes at an odd address.
      const Tensor room = Tensor::zeros({20001 * 4 + 1}, {.dtype = dtype, .device = device()});
      const Tensor odd = room.view({20001, 4}, 1);
      odd.copy_from(a);
      const Tensor input = odd.detach().set_requires_grad();
      box_case.loss(input, b, {}).backward();
      EXPECT_TRUE(bit_equal(input.grad(), gradient[1]));
    }
}

// A user's formula of rows, without analytic derivatives: squared distance of the areas.
struct AreaDifference {
  static constexpr const char* name = "area_difference";
  template <class X>
  BEVEL_HD X operator()(const Row<X>& a, const Row<X>& b) const {
    const X d = (a[2] - a[0]) * (a[3] - a[1]) - (b[2] - b[0]) * (b[3] - b[1]);
    return d * d;
  }
};

TEST(RowLossTest, FormulaOfRowsByDualNumbers) {
  for (const bool fused : {true, false}) {
    const auto f = [&](const std::vector<Tensor>& in) {
      return row_loss(AreaDifference{}, in[0], in[1], {.scale = 3, .fused = fused});
    };
    EXPECT_TRUE(gradcheck(f, {random_leaf({5, 4}, cpu, 1), random_leaf({5, 4}, cpu, 2)}));
    EXPECT_TRUE(gradgradcheck(f, {random_leaf({5, 4}, cpu, 1), random_leaf({5, 4}, cpu, 2)}));
  }
}

class IouCudaTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (cuda_device_count() == 0) GTEST_SKIP() << "no GPU here";
  }
};

TEST_F(IouCudaTest, AgreesWithTheCpu) {
  for (const BoxCase& box_case : cases)
    for (const Dtype dtype : {f32, f64}) {
      SCOPED_TRACE(message(box_case.name, " ", dtype));
      const Tensor a = random_tensor({50001, 4}, {.dtype = dtype, .low = -1, .high = 1, .seed = 1});
      const Tensor b = random_tensor({50001, 4}, {.dtype = dtype, .low = -1, .high = 1, .seed = 2});
      const Tensor loss = box_case.loss(a, b, {.reduction = Reduction::none});
      const Tensor gpu_loss = box_case.loss(a.to(cuda()), b.to(cuda()), {.reduction = Reduction::none});
      const double tol = dtype == f64 ? 1e-11 : 1e-4;
      EXPECT_TRUE(close(gpu_loss, loss, tol, tol));
      // Gradients: of boxes that are not too thin, else terms of 1 / area cancel.
      const Tensor c = host_boxes(50001, 3, dtype).set_requires_grad();
      const Tensor gpu_c = c.detach().to(cuda()).set_requires_grad();
      const Tensor d = host_boxes(50001, 4, dtype);
      const Tensor upstream = random_tensor({50001}, {.dtype = dtype, .low = 0.5, .high = 2, .seed = 3});
      backward(box_case.loss(c, d, {.reduction = Reduction::none}), upstream);
      backward(box_case.loss(gpu_c, d.to(cuda()), {.reduction = Reduction::none}), upstream.to(cuda()));
      EXPECT_TRUE(close(gpu_c.grad(), c.grad(), dtype == f64 ? 1e-11 : 1e-5, dtype == f64 ? 1e-11 : 1e-5));
    }
}

}  // namespace
}  // namespace bevel::testing
