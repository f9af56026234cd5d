#include <bevel/core/error.h>
#include <bevel/ops/conv2d/detail/conv.h>
#include <bevel/ops/conv2d/settings.h>

#include <mutex>

namespace bevel {

namespace {
std::mutex mutex;
ConvSettings& current() {
  static ConvSettings settings;
  return settings;
}
}  // namespace

void set_conv_settings(const ConvSettings& settings) {
  require(has_cudnn || settings.backend != ConvBackend::cudnn, "set_conv_settings: this build of Bevel has no cuDNN");
  const std::lock_guard lock(mutex);
  current() = settings;
}

ConvSettings conv_settings() {
  const std::lock_guard lock(mutex);
  return current();
}

std::string& detail::last_conv_engine() {
  thread_local std::string engine;
  return engine;
}

}  // namespace bevel
