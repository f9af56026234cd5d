// What an optimiser keeps in the memory of one device beside the moments: learning rates, progress of all parameters,
// and the numbers of gradient clipping.
#pragma once

#include <bevel/core/detail/recording.h>
#include <bevel/core/tensor.h>
#include <bevel/nn/detail/chunks.h>
#include <bevel/nn/optim/detail/update.h>

#include <cstdint>
#include <span>
#include <vector>

namespace bevel::optim::detail {

// The groups' learning rates, shared with captured steps.
struct Rates {
  std::vector<double> base;  // as given
  std::vector<double> now;
};

class Place {
 public:
  // For `items` parameters in `groups` groups.
  Place(Device device, std::size_t items, std::size_t groups);

  Device device() const { return device_; }
  std::size_t items() const { return progress_.size(); }
  std::size_t groups() const { return uploaded_.size(); }

  // Where numbers lie, on the device.
  Progress* progress(std::size_t item) const { return progress_address() + item; }
  const double* rate(std::size_t group) const { return rates_.data<double>() + group; }
  double* factor() const { return numbers_.data<double>(); }
  double* norm() const { return numbers_.data<double>() + 1; }
  unsigned* arrived() const { return reinterpret_cast<unsigned*>(numbers_.data<double>() + 2); }

  // Another place has taken over; a captured step that counts here cannot go on.
  void retire() { retired_ = true; }
  bool is_retired() const { return retired_; }

  // Sets the progress of one parameter when write() is called next.
  void set_progress(std::size_t item, const Progress& progress);
  // Adds to `transfers` what the host knows better than the device.
  void write(const std::vector<double>& rates, bevel::detail::Transfers& transfers);
  // The same, at once. Not while a step is recorded.
  void write_now(const std::vector<double>& rates);
  // The step counts of all parameters. Waits for the device.
  std::vector<std::int64_t> steps() const;

  bevel::detail::TableMemory table_f32;
  bevel::detail::TableMemory table_f64;
  bevel::detail::TableMemory gradient_table;
  Tensor norm_tensor() const;

 private:
  Progress* progress_address() const { return static_cast<Progress*>(memory_.raw()); }

  Device device_;
  Tensor memory_;   // Progress of each parameter
  Tensor rates_;    // f64 [groups]
  Tensor numbers_;  // f64: the gradients' factor, their norm, and the blocks that have arrived
  std::vector<Progress> progress_;
  std::vector<std::size_t> to_write_;
  std::vector<double> uploaded_;
  bool retired_ = false;
};

}  // namespace bevel::optim::detail
