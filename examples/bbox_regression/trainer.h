// Training: from settings to weights in a folder.
#pragma once

#include <cstdint>
#include <iosfwd>

#include "box.h"
#include "settings.h"

namespace bbox {

struct TrainingResult {
  Metrics last;                          // of the network after the last epoch, on the held-out pictures
  Metrics best;                          // after the epoch in which that was highest
  int best_epoch = 0;                    // counted from 1
  Metrics mean_box;                      // of the mean training box, always
  double first_loss = 0, last_loss = 0;  // mean over the first and the last epoch
  double waiting = 0;                    // share of the training time for which the device waited for pictures
  std::uint64_t checksum = 0;            // of the last weights
};

// Trains and reports on `out`; `terminal` says whether that can redraw a line. Files in settings.out:
//   log.csv              a line an epoch: loss, learning rate, figures on the held-out pictures
//   best.safetensors     the weights after the best epoch so far, replaced as a whole
//   last.safetensors     the weights after the last epoch
//   held_out.png         a sheet of held-out pictures with true and predicted boxes
//   profile.txt          where asked for: time by operator (bevel::Profiler)
// The same settings on the same device give the same weights, bit for bit, whatever the number of workers.
// Errors: those of the settings, of reading the pictures and of writing the files.
TrainingResult train(const Settings& settings, std::ostream& out, bool terminal);

}  // namespace bbox
