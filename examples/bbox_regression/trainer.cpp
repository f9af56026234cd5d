#include "trainer.h"

#include <bevel/core/profile.h>
#include <bevel/core/random.h>
#include <bevel/core/stream_clock.h>
#include <bevel/nn/data/loader.h>
#include <bevel/nn/optim/adam.h>
#include <bevel/nn/schedule.h>

#include <cstdio>
#include <fstream>
#include <optional>
#include <ostream>

#include "batches.h"
#include "evaluate.h"
#include "files.h"
#include "image_io.h"
#include "progress.h"
#include "step.h"
#include "weights.h"

namespace bbox {
namespace {

// A line an epoch, readable while the training runs.
class Log {
 public:
  explicit Log(const std::filesystem::path& path) : path_(path), file_(path) {
    file_ << "epoch,loss,learning_rate,held_out_mean_iou,held_out_above_half\n";
    flush();
  }

  void add(int epoch, double loss, double lr, const Metrics& metrics) {
    char line[160];
    std::snprintf(line, sizeof line, "%d,%.9g,%.9g,%.6f,%.6f\n", epoch, loss, lr, metrics.mean_iou, metrics.above_half);
    file_ << line;
    flush();
  }

 private:
  void flush() {
    file_.flush();
    bevel::require(file_.good(), path_.string(), ": cannot be written");
  }

  std::filesystem::path path_;
  std::ofstream file_;
};

struct Training {
  const Settings& settings;
  const PictureSet& held_out;
  std::string class_name;
  std::ostream& out;
  bool terminal;
};

// How long the device trained, and how much of that it had nothing to do because the next batch was not there.
struct Clocks {
  explicit Clocks(bevel::Device device) : training(device), waiting(device) {}
  double share() { return training.seconds() > 0 ? waiting.seconds() / training.seconds() : 0; }

  bevel::StreamClock training, waiting;
};

// One pass over the loader; returns the mean loss of its batches.
template <class Loader>
double train_epoch(Loader& loader, TrainingStep& step, bevel::optim::Schedule& schedule, Clocks& clocks) {
  std::vector<bevel::Tensor> losses;  // read at the end, so that a GPU need not wait for the host in each step
  clocks.training.start();
  clocks.waiting.start();
  for (auto& [pictures, warps, boxes] : loader) {
    clocks.waiting.stop();
    losses.push_back(step(pictures, warps, boxes));
    schedule.step();
    clocks.waiting.start();
  }
  clocks.training.stop();
  double sum = 0;
  for (const bevel::Tensor& loss : losses) sum += loss.item();
  return sum / static_cast<double>(losses.size());
}

std::string note(int epoch, const Settings& settings, double loss, const Metrics& metrics) {
  char text[120];
  std::snprintf(text, sizeof text, "epoch %d/%d  loss %.5f  held-out IoU %.3f", epoch, settings.epochs, loss,
                metrics.mean_iou);
  return text;
}

template <class Dataset>
TrainingResult run(const Training& training, const Dataset& dataset) {
  const Settings& settings = training.settings;
  bevel::manual_seed(settings.seed);
  Regressor model(settings.model);
  model.to(settings.device);
  training.out << "network: " << model.num_parameters() << " parameters, norm " << settings.model.norm << ", on "
               << settings.device << '\n';
  bevel::DataLoader loader{dataset,
                           {.batch = settings.batch,
                            .shuffle = true,
                            .seed = settings.seed,
                            .workers = settings.workers,
                            .device = settings.device}};
  bevel::optim::AdamW optimizer{model.parameters(), {.lr = settings.lr, .weight_decay = settings.weight_decay}};
  bevel::optim::Schedule schedule{
      optimizer, bevel::optim::OneCycle{.max_lr = settings.lr, .steps = settings.epochs * loader.size()}};
  TrainingStep step(model, optimizer, settings);
  make_folder(settings.out);
  Log log(settings.out / "log.csv");
  Progress progress(training.out, training.terminal, "training", settings.epochs);
  Clocks clocks(settings.device);
  std::optional<bevel::Profiler> profiler;
  if (settings.profile) profiler.emplace(settings.device);
  TrainingResult result;
  std::vector<CentreBox> predicted;
  for (int epoch = 1; epoch <= settings.epochs; ++epoch) {
    const double lr = optimizer.lr();
    result.last_loss = train_epoch(loader, step, schedule, clocks);
    if (epoch == 1) result.first_loss = result.last_loss;
    predicted = predict_boxes(model, training.held_out);
    result.last = score(predicted, training.held_out.boxes);
    const Card card{training.class_name, settings.seed, epoch, result.last.mean_iou};
    if (epoch == 1 || result.last.mean_iou > result.best.mean_iou) {
      result.best = result.last;
      result.best_epoch = epoch;
      save_weights(settings.out / "best.safetensors", model, card);
    }
    if (epoch == settings.epochs) save_weights(settings.out / "last.safetensors", model, card);
    log.add(epoch, result.last_loss, lr, result.last);
    progress.update(epoch, note(epoch, settings, result.last_loss, result.last));
  }
  write_png(settings.out / "held_out.png", prediction_sheet(training.held_out, predicted));
  result.checksum = checksum(model);
  result.waiting = clocks.share();
  if (profiler) write_text(settings.out / "profile.txt", bevel::profile_table(profiler->rows()));
  return result;
}

void print_result(const Training& training, const TrainingResult& result) {
  std::ostream& out = training.out;
  out << '\n';
  print_table(out, {{"the network after the last epoch", result.last},
                    {"the network after its best epoch, " + std::to_string(result.best_epoch), result.best},
                    {"always the mean training box", result.mean_box}});
  char waited[32];
  std::snprintf(waited, sizeof waited, "%.1f %%", 100 * result.waiting);
  char text[64];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(result.checksum));
  out << "\nThe best epoch was chosen by these very pictures: judge by the last.\n"
      << "of the training time " << waited << " went by waiting for pictures\n"
      << "checksum of the last weights: " << text << '\n'
      << "weights, log and a sheet of predictions: " << training.settings.out.string() << '\n';
}

TrainingResult train_on_files(const Settings& settings, std::ostream& out, bool terminal) {
  const Pictures pictures = load_voc_pictures(settings.data, settings.class_name, settings.model.size);
  out << settings.data.string() << ": " << pictures.report << '\n'
      << pictures.train.size() << " to train on, " << pictures.held_out.size() << " held out\n";
  const Training training{settings, pictures.held_out, pictures.class_name, out, terminal};
  TrainingResult result = run(training, PictureDataset(pictures.train, settings.augment, settings.seed));
  result.mean_box = score_constant(mean_box(pictures.train.boxes), pictures.held_out.boxes);
  print_result(training, result);
  return result;
}

TrainingResult train_on_drawn(const Settings& settings, std::ostream& out, bool terminal) {
  const auto count = static_cast<std::size_t>(settings.drawn_pictures);
  const auto held_out_count = static_cast<std::size_t>(settings.drawn_held_out);
  const int size = settings.model.size;
  const PictureSet held_out = draw_pictures(held_out_series(settings.seed), 0, held_out_count, size);
  out << "drawn pictures of " << size << " x " << size << " pixels: " << count << " new ones an epoch to train on, "
      << held_out_count << " held out\n";
  const Training training{settings, held_out, drawn_class, out, terminal};
  TrainingResult result = run(training, DrawnDataset(settings.seed, settings.drawn_pictures, size));
  const PictureSet first = draw_pictures(settings.seed, 0, count, size);
  result.mean_box = score_constant(mean_box(first.boxes), held_out.boxes);
  print_result(training, result);
  return result;
}

}  // namespace

TrainingResult train(const Settings& settings, std::ostream& out, bool terminal) {
  check(settings);
  return settings.data.empty() ? train_on_drawn(settings, out, terminal) : train_on_files(settings, out, terminal);
}

}  // namespace bbox
