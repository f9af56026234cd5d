// Signed distances of plane shapes, in pixels: negative inside. Points are relative to the shape's centre.
// Formulas in the manner of Inigo Quilez's articles on two-dimensional distance functions.
#pragma once

#include <algorithm>
#include <cmath>

namespace bbox::shapes {

struct Point {
  float x = 0, y = 0;
};

inline float length(Point p) {
  return std::sqrt(p.x * p.x + p.y * p.y);
}

// Turns by the angle whose cosine and sine are given.
inline Point turned(Point p, float c, float s) {
  return {c * p.x - s * p.y, s * p.x + c * p.y};
}

// To first order: exact on the outline, which is what antialiasing needs.
inline float ellipse(Point p, float a, float b) {
  const float k = length({p.x / a, p.y / b});
  const float slope = length({p.x / (a * a), p.y / (b * b)});
  return slope > 0 ? k * (k - 1) / slope : -std::min(a, b);
}

inline float rectangle(Point p, float a, float b) {
  const Point q{std::abs(p.x) - a, std::abs(p.y) - b};
  return length({std::max(q.x, 0.0f), std::max(q.y, 0.0f)}) + std::min(std::max(q.x, q.y), 0.0f);
}

inline float cross(Point p, float arm, float thickness) {
  return std::min(rectangle(p, arm, thickness), rectangle(p, thickness, arm));
}

inline float ring(Point p, float radius, float thickness) {
  return std::abs(length(p) - radius) - thickness;
}

// Equilateral, `radius` from the centre to each edge; as a bound, sharp at its corners.
inline float triangle(Point p, float radius) {
  const float slanted = 0.8660254f * std::abs(p.x) + 0.5f * p.y;
  return std::max(slanted, -p.y) - radius;
}

}  // namespace bbox::shapes
