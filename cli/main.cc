#include "cli/main.h"

int main(int argc, char** argv) {
  return paramd::Main(argc, argv, paramd::BuiltInModels());
}
