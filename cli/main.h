#ifndef PARAMD_CLI_MAIN_H_
#define PARAMD_CLI_MAIN_H_

#include "worker/model_factory.h"

namespace paramd {

// The whole program `paramd`, whose jobs train what `models` makes:
//
//   int main(int argc, char** argv) {
//     return paramd::Main(argc, argv, MyModels());
//   }
//
// Returns the process's exit code. Called once, on the main thread, before the
// program starts others: it takes over SIGTERM and SIGINT.
int Main(int argc, char** argv, const ModelFactory& models);

}  // namespace paramd

#endif  // PARAMD_CLI_MAIN_H_
