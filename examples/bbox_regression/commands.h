// The command line of the program. Each command adds itself with its options, and runs when it was given.
#pragma once

#include <CLI/CLI.hpp>

namespace bbox {

void add_train(CLI::App& app);
void add_eval(CLI::App& app);
void add_predict(CLI::App& app);

// Runs the program; the result is its exit status. Errors end it with a message on the error stream.
int run_command_line(int argc, const char* const* argv);

}  // namespace bbox
