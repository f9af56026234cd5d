// bbox: trains, judges and uses a network that finds the one object in a picture.
#include "commands.h"

int main(int argc, char** argv) {
  return bbox::run_command_line(argc, argv);
}
