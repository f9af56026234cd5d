#include <exception>
#include <iostream>
#include <memory>

#include "commands.h"

namespace bbox {
namespace {

// Options as "--size NUMBER    What it is [default]".
class Formatter : public CLI::Formatter {
 public:
  std::string make_option_opts(const CLI::Option* option) const override {
    if (option->get_expected_max() == 0) return "";
    const bool several = option->get_expected_max() > 1;
    return " " + option->get_type_name() + (several ? " ..." : "");
  }
  std::string make_option_desc(const CLI::Option* option) const override {
    const std::string value = option->get_default_str();
    return option->get_description() + (value.empty() ? "" : " [" + value + "]");
  }
};

}  // namespace

int run_command_line(int argc, const char* const* argv) {
  CLI::App app{"Finds the one object of a class in pictures: trains a small network that predicts its box.", "bbox"};
  app.require_subcommand(1);
  const auto formatter = std::make_shared<Formatter>();
  formatter->column_width(27);
  app.formatter(formatter);
  add_train(app);
  add_eval(app);
  add_predict(app);
  app.footer(
      "First steps:\n"
      "  bbox train                                            on pictures that the program draws, a minute or so\n"
      "  bbox train --data photos --class raccoon              on yours, annotated in the Pascal VOC form\n"
      "  bbox eval --data photos                               how good the weights are\n"
      "  bbox predict --image a.jpg b.png --out predictions    boxes drawn on pictures\n"
      "bbox train --help and the like list the options of a command.");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error);
  } catch (const std::exception& error) {
    std::cout << std::flush;
    std::cerr << "error: " << error.what() << '\n';
    return 1;
  }
  return 0;
}

}  // namespace bbox
