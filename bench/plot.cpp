// The picture: above, bandwidth over bytes under the roof that plain kernels reach at the same sizes; below, a bar for
// each case with its share of that roof.
#include "bench/result.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <map>
#include <sstream>

namespace bevel::bench {

namespace {

constexpr double width = 1180;
constexpr double left = 70;
constexpr double right = 30;
constexpr double roof_top = 70;
constexpr double roof_height = 330;
constexpr double row_height = 22;
constexpr double bar_left = 440;
constexpr double bar_width = 400;
constexpr const char* colours[] = {"#0b6e99", "#d1495b", "#3c8d4f", "#8d5bb0", "#c77d0a", "#59636e"};

std::string escape(const std::string& text) {
  std::string result;
  for (const char c : text) result += c == '<' ? "&lt;" : c == '&' ? "&amp;" : std::string(1, c);
  return result;
}

std::string text(double x, double y, const std::string& words, const char* anchor = "start", double size = 13,
                 const char* colour = "#222") {
  std::ostringstream out;
  out << "<text x=\"" << x << "\" y=\"" << y << "\" text-anchor=\"" << anchor << "\" font-size=\"" << size
      << "\" fill=\"" << colour << "\">" << escape(words) << "</text>\n";
  return out.str();
}

std::string line(double x1, double y1, double x2, double y2, const char* colour, const char* extra = "") {
  std::ostringstream out;
  out << "<line x1=\"" << x1 << "\" y1=\"" << y1 << "\" x2=\"" << x2 << "\" y2=\"" << y2 << "\" stroke=\"" << colour
      << "\" " << extra << "/>\n";
  return out.str();
}

std::string digits(double value, int decimals) {
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, "%.*f", decimals, value);
  return buffer;
}

std::string bytes_text(double bytes) {
  constexpr const char* units[] = {"B", "kB", "MB", "GB", "TB"};
  int unit = 0;
  for (; bytes >= 1000 && unit < 4; ++unit) bytes /= 1000;
  return digits(bytes, bytes < 10 && unit > 0 ? 1 : 0) + " " + units[unit];
}

std::string bandwidth_text(double bandwidth) {
  return bandwidth >= 1e12 ? digits(bandwidth * 1e-12, 2) + " TB/s" : digits(bandwidth * 1e-9, 1) + " GB/s";
}

// One colour for each operator and dtype.
class Palette {
 public:
  const char* of(const Case& c) {
    const std::string key = c.op + " " + bevel::name(c.dtype);
    const auto [it, is_new] = chosen_.try_emplace(key, colours[chosen_.size() % std::size(colours)]);
    return it->second;
  }
  const std::map<std::string, const char*>& chosen() const { return chosen_; }

 private:
  std::map<std::string, const char*> chosen_;
};

// Axes of the upper picture: bytes, logarithmic; bandwidth, linear from 0.
struct Axes {
  double log_low;
  double log_high;
  double top_bandwidth;

  double x(double bytes) const {
    return left + (std::log10(bytes) - log_low) / (log_high - log_low) * (width - left - right);
  }
  double y(double bandwidth) const { return roof_top + roof_height * (1 - bandwidth / top_bandwidth); }
};

Axes axes_of(const Report& report, const std::vector<const Result*>& results) {
  double low = 1e300;
  double high = 0;
  double top = 0;
  for (const Result* result : results) {
    const auto bytes = static_cast<double>(result->measured.bytes());
    low = std::min(low, bytes);
    high = std::max(high, bytes);
    top = std::max({top, result->bandwidth(), bytes / result->plain});
  }
  for (const CeilingRow& row : report.ceilings) top = std::max(top, row.bandwidth);
  return {std::floor(std::log10(low) - 0.1), std::ceil(std::log10(high) + 0.1), top * 1.1};
}

std::string draw_axes(const Report& report, const Axes& axes) {
  std::string out;
  const double step = std::pow(10, std::floor(std::log10(axes.top_bandwidth)));
  const double tick = axes.top_bandwidth / step < 3 ? step / 2 : step;
  for (double value = 0; value < axes.top_bandwidth; value += tick) {
    out += line(left, axes.y(value), width - right, axes.y(value), "#e4e4e4");
    out +=
        text(left - 6, axes.y(value) + 4, bandwidth_text(value).substr(0, bandwidth_text(value).find(' ')), "end", 11);
  }
  for (double power = axes.log_low; power <= axes.log_high; power += 1) {
    const double x = axes.x(std::pow(10, power));
    out += line(x, roof_top, x, roof_top + roof_height, "#e4e4e4");
    out += text(x, roof_top + roof_height + 16, bytes_text(std::pow(10, power)), "middle", 11);
  }
  out += text(width / 2, roof_top + roof_height + 34, "bytes that a call must move", "middle", 12);
  out += text(left, roof_top - 10, axes.top_bandwidth >= 1e12 ? "TB/s" : "GB/s", "end", 11);
  const CeilingRow* copy = report.ceilings.empty() ? nullptr : &report.ceilings.front();
  if (copy) {
    out +=
        line(left, axes.y(copy->bandwidth), width - right, axes.y(copy->bandwidth), "#222", "stroke-dasharray=\"7 4\"");
    out +=
        text(left + 6, axes.y(copy->bandwidth) - 6, copy->name + ": " + bandwidth_text(copy->bandwidth), "start", 12);
  }
  return out;
}

// The roof: what plain kernels reach at each size. Sizes moved by several mixes of reads and writes show the best.
std::string draw_roof(const Axes& axes, const std::vector<const Result*>& results) {
  std::map<double, double> roof;
  for (const Result* result : results) {
    const auto bytes = static_cast<double>(result->measured.bytes());
    roof[bytes] = std::max(roof[bytes], bytes / result->plain);
  }
  std::ostringstream out;
  out << "<polyline fill=\"none\" stroke=\"#888\" stroke-width=\"2\" points=\"";
  for (const auto& [bytes, bandwidth] : roof) out << axes.x(bytes) << "," << axes.y(bandwidth) << " ";
  out << "\"/>\n";
  return out.str();
}

std::string draw_points(const Axes& axes, const std::vector<const Result*>& results, Palette& palette) {
  std::ostringstream out;
  for (std::size_t i = 0; i < results.size(); ++i) {
    const double x = axes.x(static_cast<double>(results[i]->measured.bytes()));
    const double y = axes.y(results[i]->bandwidth());
    const char* colour = palette.of(results[i]->measured);
    out << "<circle cx=\"" << x << "\" cy=\"" << y << "\" r=\"4.5\" fill=\"" << colour << "\" fill-opacity=\"0.85\"/>\n"
        << text(x + 6, y + 4, std::to_string(i + 1), "start", 10, colour);
  }
  return out.str();
}

std::string draw_legend(const Palette& palette) {
  std::ostringstream out;
  double x = left + 260;
  for (const auto& [name, colour] : palette.chosen()) {
    out << "<circle cx=\"" << x << "\" cy=\"48\" r=\"5\" fill=\"" << colour << "\"/>\n" << text(x + 9, 52, name);
    x += 40 + 8 * static_cast<double>(name.size());
  }
  return out.str();
}

std::string draw_bar(const Result& result, std::size_t number, double y, Palette& palette) {
  constexpr double numbers_left = bar_left + bar_width * 1.2 + 50;
  const double share = result.plain / result.time();
  const double micros = result.time() * 1e6;
  std::ostringstream out;
  out << text(left - 8, y + 15, std::to_string(number), "end", 12)
      << text(left, y + 15, result.measured.name(), "start", 12) << "<rect x=\"" << bar_left << "\" y=\"" << y + 3
      << "\" width=\"" << bar_width * std::min(share, 1.2) << "\" height=\"" << row_height - 7 << "\" fill=\""
      << palette.of(result.measured) << "\"/>\n"
      << text(numbers_left, y + 15, digits(100 * share, 0) + " %", "end", 12)
      << text(numbers_left + 90, y + 15, bandwidth_text(result.bandwidth()), "end", 12)
      << text(numbers_left + 190, y + 15, digits(micros, micros < 100 ? 1 : 0) + " us", "end", 12);
  return out.str();
}

}  // namespace

void write_plot(const Report& report, const std::string& path) {
  std::vector<const Result*> results;
  for (const Result& result : report.results)
    if (result.error.empty()) results.push_back(&result);
  require(!results.empty(), "bevel_bench: there is nothing to draw: every case failed");

  const Axes axes = axes_of(report, results);
  Palette palette;
  const double bars_top = roof_top + roof_height + 90;
  const double height = bars_top + row_height * static_cast<double>(results.size()) + 30;
  std::ostringstream out;
  out << "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" << width << "\" height=\"" << height
      << "\" font-family=\"DejaVu Sans, Helvetica, sans-serif\">\n<rect width=\"100%\" height=\"100%\" "
         "fill=\"white\"/>\n"
      << text(left, 28, "Bevel on " + report.device_name + ", " + report.date.substr(0, 10), "start", 17)
      << draw_axes(report, axes) << draw_roof(axes, results) << draw_points(axes, results, palette);
  if (palette.chosen().size() <= std::size(colours)) out << draw_legend(palette);  // the bars have the names, too
  out << line(left, 48, left + 24, 48, "#888", "stroke-width=\"2\"")
      << text(left + 30, 52, "plain kernels, same bytes", "start", 12)
      << text(left, bars_top - 12, "share of plain kernels that move the same bytes", "start", 14)
      << line(bar_left + bar_width, bars_top - 6, bar_left + bar_width, height - 20, "#222", "stroke-dasharray=\"7 4\"")
      << text(bar_left + bar_width, bars_top - 10, "100 %", "middle", 11);
  for (std::size_t i = 0; i < results.size(); ++i)
    out << draw_bar(*results[i], i + 1, bars_top + row_height * static_cast<double>(i), palette);
  out << "</svg>\n";
  std::ofstream file(path);
  file << out.str();
  file.close();
  require(!file.fail(), "bevel_bench: cannot write ", path);
}

}  // namespace bevel::bench
