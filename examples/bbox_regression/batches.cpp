#include "batches.h"

#include <algorithm>
#include <array>

#include "augment.h"
#include "drawn.h"

namespace bbox {
namespace {

SampleSpecs specs_for(std::int64_t side) {
  return {{{.shape = {side, side, 3}, .dtype = bevel::u8}, {.shape = {std::tuple_size_v<WarpRow>}}, {.shape = {4}}}};
}

void write_sample(const Image& image, const Change& change, const CentreBox& box, std::span<bevel::Tensor> slots) {
  std::ranges::copy(image.rgb, slots[0].data<std::uint8_t>());
  std::ranges::copy(warp_row(change), slots[1].data<float>());
  std::ranges::copy(std::array{box.cx, box.cy, box.w, box.h}, slots[2].data<float>());
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
  if (!augment_) return write_sample(image, {}, set_->boxes[i], slots);
  const Box box = to_corners(set_->boxes[i]);
  const Change change = draw_change(box, seed_, static_cast<std::uint64_t>(epoch), static_cast<std::uint64_t>(index));
  write_sample(image, change, to_centre(changed(box, change)), slots);
}

SampleSpecs DrawnDataset::specs() const {
  return specs_for(size_);
}

void DrawnDataset::fill(std::int64_t index, std::int64_t epoch, std::span<bevel::Tensor> slots) const {
  const Drawn drawn = draw_picture(seed_, static_cast<std::uint64_t>(epoch * count_ + index), size_);
  write_sample(drawn.image, {}, to_centre(drawn.box), slots);
}

}  // namespace bbox
