#include "batches.h"

#include "augment.h"
#include "drawn.h"

namespace bbox {
namespace {

SampleSpecs specs_for(std::int64_t side) {
  return {{{.shape = {side, side, 3}}, {.shape = {4}}}};
}

std::span<float> numbers(const bevel::Tensor& tensor) {
  return {tensor.data<float>(), static_cast<std::size_t>(tensor.numel())};
}

void write_box(const CentreBox& box, const bevel::Tensor& slot) {
  float* out = slot.data<float>();
  out[0] = box.cx;
  out[1] = box.cy;
  out[2] = box.w;
  out[3] = box.h;
}

}  // namespace

PictureDataset::PictureDataset(const PictureSet& set, bool augment, std::uint64_t seed)
    : set_(&set), augment_(augment), seed_(seed) {
  bevel::require(set.size() > 0, "PictureDataset: there is no picture");
}

SampleSpecs PictureDataset::specs() const {
  return specs_for(set_->images.front().width);
}

void PictureDataset::fill(std::int64_t index, std::int64_t epoch, std::span<bevel::Tensor> slots) const {
  const auto i = static_cast<std::size_t>(index);
  const Image& image = set_->images[i];
  if (!augment_) {
    to_floats(image, numbers(slots[0]));
    write_box(set_->boxes[i], slots[1]);
    return;
  }
  const Box box = to_corners(set_->boxes[i]);
  const Change change = draw_change(box, seed_, static_cast<std::uint64_t>(epoch), static_cast<std::uint64_t>(index));
  change_picture(image, change, numbers(slots[0]));
  write_box(to_centre(changed(box, change)), slots[1]);
}

SampleSpecs DrawnDataset::specs() const {
  return specs_for(size_);
}

void DrawnDataset::fill(std::int64_t index, std::int64_t epoch, std::span<bevel::Tensor> slots) const {
  const Drawn drawn = draw_picture(seed_, static_cast<std::uint64_t>(epoch * count_ + index), size_);
  to_floats(drawn.image, numbers(slots[0]));
  write_box(to_centre(drawn.box), slots[1]);
}

}  // namespace bbox
