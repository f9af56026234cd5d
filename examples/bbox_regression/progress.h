// A progress bar for people who watch, a few lines for log files.
#pragma once

#include <chrono>
#include <cstdint>
#include <iosfwd>
#include <string>

namespace bbox {

// On a terminal one line that is redrawn at most ten times a second:
//   training  [=========>          ]  46 %  0:12 left  loss 0.0123
// Elsewhere a line each tenth of the way.
class Progress {
 public:
  // `total` is at least 1.
  Progress(std::ostream& out, bool terminal, std::string label, std::int64_t total);
  // Ends the line.
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // `done` of `total` steps are done; `note` is shown behind the bar.
  void update(std::int64_t done, const std::string& note);

 private:
  using Clock = std::chrono::steady_clock;

  std::string line(std::int64_t done, const std::string& note) const;

  std::ostream& out_;
  bool terminal_;
  std::string label_;
  std::int64_t total_;
  Clock::time_point start_ = Clock::now();
  Clock::time_point drawn_;
  std::int64_t tenth_ = 0;
  std::size_t length_ = 0;  // of the line on the screen
};

// Whether standard output is a terminal that can redraw a line.
bool is_terminal();

// "1:05" or "2:00:07".
std::string clock_text(double seconds);

}  // namespace bbox
