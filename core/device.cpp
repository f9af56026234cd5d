#include <bevel/core/cuda/backend.h>
#include <bevel/core/device.h>

#include <charconv>

namespace bevel {

std::ostream& operator<<(std::ostream& out, Device device) {
  if (!device.is_cuda()) return out << "cpu";
  return out << "cuda:" << static_cast<int>(device.index);
}

int cuda_device_count() {
  if constexpr (has_cuda) {
    static const int count = gpu::device_count();
    return count;
  }
  return 0;
}

Device best_device() {
  return cuda_device_count() > 0 ? cuda(0) : cpu;
}

Device parse_device(const std::string& text) {
  if (text == "auto") return best_device();
  if (text == "cpu") return cpu;
  const int count = cuda_device_count();
  int index = text == "cuda" ? 0 : -1;
  if (text.starts_with("cuda:")) {
    const char* end = text.data() + text.size();
    const auto [stop, status] = std::from_chars(text.data() + 5, end, index);
    if (status != std::errc{} || stop != end) index = -1;
  }
  require(index >= 0, "device: expected auto, cpu, cuda or cuda:N; got \"", text, "\"");
  require(index < count, "device: \"", text, "\" is not here; CUDA devices usable: ", count,
          has_cuda ? "" : " (this build has no CUDA)");
  return cuda(index);
}

void synchronize(Device device) {
  if constexpr (has_cuda)
    if (device.is_cuda()) gpu::synchronize(device);
}

}  // namespace bevel
