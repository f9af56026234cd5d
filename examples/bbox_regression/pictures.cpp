#include "pictures.h"

#include <bevel/core/error.h>
#include <bevel/core/parallel.h>

#include "drawn.h"
#include "image_io.h"
#include "voc.h"

namespace bbox {
namespace {

PictureSet room_for(std::size_t count) {
  return {std::vector<Image>(count), std::vector<CentreBox>(count), std::vector<std::string>(count)};
}

PictureSet squeeze(const std::vector<const Sample*>& samples, int size) {
  PictureSet set = room_for(samples.size());
  bevel::parallel_for(static_cast<std::int64_t>(samples.size()), [&](std::int64_t at) {
    const auto i = static_cast<std::size_t>(at);
    const Sample& sample = *samples[i];
    const float width = static_cast<float>(sample.width), height = static_cast<float>(sample.height);
    set.images[i] = resize(load_image(sample.picture), size, size);
    set.boxes[i] = to_centre(scaled(sample.box, 1 / width, 1 / height));
    set.names[i] = sample.picture.filename().string();
  });
  return set;
}

}  // namespace

Pictures load_voc_pictures(const std::filesystem::path& folder, const std::string& class_name, int size) {
  bevel::require(size >= 16 && size <= 1024, "the size of pictures must be 16 to 1024 pixels, not ", size);
  const VocFolder voc = read_voc(folder, class_name);
  std::vector<const Sample*> train, held_out;
  for (std::size_t i = 0; i < voc.samples.size(); ++i) {
    (VocFolder::held_out(i) ? held_out : train).push_back(&voc.samples[i]);
  }
  bevel::require(!train.empty(), folder.string(), ": one usable picture is not enough to train and to judge. ",
                 voc.report());
  return {squeeze(train, size), squeeze(held_out, size), voc.class_name, voc.report()};
}

PictureSet draw_pictures(std::uint64_t seed, std::uint64_t first, std::size_t count, int size) {
  PictureSet set = room_for(count);
  bevel::parallel_for(static_cast<std::int64_t>(count), [&](std::int64_t at) {
    const auto i = static_cast<std::size_t>(at);
    Drawn drawn = draw_picture(seed, first + i, size);
    set.images[i] = std::move(drawn.image);
    set.boxes[i] = to_centre(drawn.box);
    set.names[i] = std::to_string(first + i);
  });
  return set;
}

}  // namespace bbox
