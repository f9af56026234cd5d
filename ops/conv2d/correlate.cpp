#include <bevel/core/parallel.h>
#include <bevel/ops/conv2d/detail/conv_tile.h>
#include <bevel/ops/conv2d/detail/correlate.h>
#include <bevel/ops/kernel/isa.h>

namespace bevel::detail {

namespace {

template <class T>
void run_strip(const ConvStrip<T>& strip) {
#if defined(BEVEL_HAS_X86_64_V3)
  if (has_x86_64_v3()) return x86_64_v3::conv_strip(strip);
#endif
  baseline::conv_strip(strip);
}

template <class T>
std::int64_t padded(std::int64_t columns) {
  return (columns + conv_lanes<T> - 1) / conv_lanes<T> * conv_lanes<T>;
}

// The weights as the inner loop reads them: for each group and block of result channels a panel [tap, in, lanes], and
// the bias behind them, padded likewise.
template <class T>
class Panels {
 public:
  explicit Panels(const Correlation<T>& c)
      : width_(padded<T>(c.out)), depth_(static_cast<std::int64_t>(c.taps.size()) * c.in), groups_(c.groups) {
    buffer_ = Buffer::allocate(static_cast<std::size_t>(groups_ * (depth_ + 1) * width_) * sizeof(T), cpu);
    data_ = static_cast<T*>(buffer_->data());
    const auto taps = static_cast<std::int64_t>(c.taps.size());
    const auto pack = [&](std::int64_t i) { pack_tap(c, i / taps, i % taps); };
    if (groups_ * depth_ * width_ < (1 << 15))
      for (std::int64_t i = 0; i < groups_ * taps; ++i) pack(i);
    else
      parallel_for(groups_ * taps, pack);
    for (std::int64_t g = 0; g < groups_; ++g)
      for (std::int64_t o = 0; o < width_; ++o) bias_of(g)[o] = c.bias && o < c.out ? c.bias[g * c.out + o] : T(0);
  }

  // Where the block of channels from `first` on begins.
  T* panel(std::int64_t group, std::int64_t first) const { return data_ + (group * width_ + first) * depth_; }
  T* bias_of(std::int64_t group) const { return data_ + (groups_ * depth_ + group) * width_; }

 private:
  void pack_tap(const Correlation<T>& c, std::int64_t group, std::int64_t tap) {
    const T* const from =
        c.weight + group * c.weight_group + c.taps[static_cast<std::size_t>(tap)].index * c.weight_tap;
    for (std::int64_t first = 0; first < width_; first += conv_block<T>) {
      const std::int64_t lanes = std::min(conv_block<T>, width_ - first);
      T* to = panel(group, first) + tap * c.in * lanes;
      for (std::int64_t l = 0; l < c.in; ++l)
        for (std::int64_t o = first; o < first + lanes; ++o)
          *to++ = o < c.out ? from[l * c.weight_in + o * c.weight_out] : T(0);
    }
  }

  std::int64_t width_, depth_, groups_;
  std::shared_ptr<Buffer> buffer_;
  T* data_;
};

struct Reach {
  std::int64_t top = 0, bottom = 0, left = 0, right = 0;  // of the taps, ends excluded

  explicit Reach(const std::vector<Tap>& taps) {
    if (taps.empty()) return;
    top = bottom = taps[0].row;
    left = right = taps[0].column;
    for (const Tap& tap : taps) {
      top = std::min(top, tap.row);
      bottom = std::max(bottom, tap.row + 1);
      left = std::min(left, tap.column);
      right = std::max(right, tap.column + 1);
    }
  }
};

// Neighbouring taps of one row lie one behind the other where a tap reads all channels.
template <class T>
std::vector<ConvRun> runs_of(const Correlation<T>& c, const Reach& reach, std::int64_t row_stride) {
  std::vector<ConvRun> runs;
  const std::int64_t channels = c.groups * c.in;
  for (const Tap& tap : c.taps) {
    const std::int64_t offset = (tap.row - reach.top) * row_stride + (tap.column - reach.left) * channels;
    if (!runs.empty() && runs.back().offset + runs.back().length == offset)
      runs.back().length += c.in;
    else
      runs.push_back({offset, c.in});
  }
  return runs;
}

// Rows i to end of the result of one picture.
template <class T>
void run_rows(const Correlation<T>& c, const Panels<T>& panels, const Reach& reach, std::int64_t picture,
              std::int64_t first, std::int64_t end) {
  const std::int64_t channels = c.groups * c.in;
  const Picture<T> source{c.source + picture * c.height * c.width * channels, c.height, c.width, channels};
  const WindowBounds bounds{first * c.step_h + reach.top, (end - 1) * c.step_h + reach.bottom, reach.left,
                            (c.columns - 1) * c.step_w + reach.right};
  std::shared_ptr<Buffer> scratch;
  std::int64_t row_stride = 0;
  const T* const corner = c.taps.empty() ? c.source : window(source, bounds, scratch, row_stride);
  const std::vector<ConvRun> runs = runs_of(c, reach, row_stride);
  for (std::int64_t g = 0; g < c.groups; ++g)
    for (std::int64_t o = 0; o < c.out; o += conv_block<T>)
      for (std::int64_t i = first; i < end; ++i)
        run_strip(ConvStrip<T>{
            .source = corner + (i - first) * c.step_h * row_stride + g * c.in,
            .source_step = c.step_w * channels,
            .runs = runs.data(),
            .run_count = static_cast<std::int64_t>(runs.size()),
            .panel = panels.panel(g, o),
            .bias = panels.bias_of(g) + o,
            .result = c.result + picture * c.result_picture + i * c.result_row + g * c.out + o,
            .result_step = c.result_pixel,
            .pixels = c.columns,
            .columns = std::min(conv_block<T>, c.out - o),
        });
}

template <class T>
void run(const Correlation<T>& c) {
  if (c.batch == 0 || c.rows == 0 || c.columns == 0 || c.out == 0) return;
  const Panels<T> panels(c);
  const Reach reach(c.taps);
  constexpr std::int64_t worthwhile = 1 << 20;  // multiply-adds of a task
  const std::int64_t row_work =
      c.columns * c.groups * c.out * std::max<std::int64_t>(1, static_cast<std::int64_t>(c.taps.size()) * c.in);
  const std::int64_t most = std::clamp<std::int64_t>(worthwhile / row_work, 1, c.rows);
  const std::int64_t parts = (c.rows + most - 1) / most;
  parallel_for(c.batch * parts, [&](std::int64_t task) {
    const std::int64_t part = task % parts;
    run_rows(c, panels, reach, task / parts, c.rows * part / parts, c.rows * (part + 1) / parts);
  });
}

}  // namespace

void correlate(const Correlation<float>& c) {
  run(c);
}
void correlate(const Correlation<double>& c) {
  run(c);
}

}  // namespace bevel::detail
