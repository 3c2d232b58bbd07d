// paramd, whose workers sleep for SLEEP_MS (milliseconds, from the environment)
// in each step instead of computing it, and write how many they have begun to
// the file STEP_COUNT, if that is given.
#include <cstdio>
#include <cstdlib>

#include "absl/strings/numbers.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

#include "bench/overhead/sleeping_model.h"
#include "cli/main.h"

int main(int argc, char** argv) {
  const char* const text = std::getenv("SLEEP_MS");
  int milliseconds = 0;
  if (text == nullptr || !absl::SimpleAtoi(text, &milliseconds) ||
      milliseconds < 0) {
    std::fprintf(stderr, "SLEEP_MS has to say how long a step takes\n");
    return 2;
  }
  const char* const count = std::getenv("STEP_COUNT");
  return paramd::Main(argc, argv,
                      paramd::SleepingModels(absl::Milliseconds(milliseconds),
                                             count == nullptr ? "" : count));
}
