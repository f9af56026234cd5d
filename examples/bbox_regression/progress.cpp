#include "progress.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ostream>
#include <string_view>

namespace bbox {

namespace {
constexpr std::int64_t bar_width = 28;
}

Progress::Progress(std::ostream& out, bool terminal, std::string label, std::int64_t total)
    : out_(out), terminal_(terminal), label_(std::move(label)), total_(std::max<std::int64_t>(total, 1)) {}

Progress::~Progress() {
  if (terminal_ && length_ > 0) out_ << '\n' << std::flush;
}

std::string Progress::line(std::int64_t done, const std::string& note) const {
  const double part = static_cast<double>(done) / static_cast<double>(total_);
  const double passed = std::chrono::duration<double>(Clock::now() - start_).count();
  std::string text = label_ + "  ";
  if (terminal_) {
    const auto full = static_cast<std::size_t>(part * bar_width);
    std::string bar(full, '=');
    if (full < bar_width) bar += '>';
    bar.resize(bar_width, ' ');
    text += "[" + bar + "]  ";
  }
  char percent[32];
  std::snprintf(percent, sizeof percent, "%3d %%  ", static_cast<int>(part * 100));
  text += percent;
  if (done >= total_) {
    text += "took " + clock_text(passed);
  } else if (done > 0) {
    text += clock_text(passed / part - passed) + " left";
  }
  return note.empty() ? text : text + "  " + note;
}

void Progress::update(std::int64_t done, const std::string& note) {
  done = std::clamp<std::int64_t>(done, 0, total_);
  if (terminal_) {
    const Clock::time_point now = Clock::now();
    if (done < total_ && now - drawn_ < std::chrono::milliseconds(100)) return;
    drawn_ = now;
    std::string text = line(done, note);
    const std::size_t length = text.size();
    if (text.size() < length_) text.resize(length_, ' ');  // covers what stood there
    length_ = length;
    out_ << '\r' << text << std::flush;
    return;
  }
  const std::int64_t tenth = done * 10 / total_;
  if (tenth == tenth_) return;
  tenth_ = tenth;
  out_ << line(done, note) << '\n' << std::flush;
}

bool is_terminal() {
  const char* term = std::getenv("TERM");
  return isatty(STDOUT_FILENO) != 0 && term != nullptr && std::string_view(term) != "dumb";
}

std::string clock_text(double seconds) {
  const auto whole = std::llround(std::max(seconds, 0.0));
  char text[48];
  if (whole >= 3600) {
    std::snprintf(text, sizeof text, "%lld:%02lld:%02lld", whole / 3600, whole / 60 % 60, whole % 60);
  } else {
    std::snprintf(text, sizeof text, "%lld:%02lld", whole / 60, whole % 60);
  }
  return text;
}

}  // namespace bbox
