#include "cli/command.h"

int main(int argc, char** argv) {
  return paramd::Dispatch({argv, static_cast<size_t>(argc)});
}
