// Writes what two lives of a chief would: the first one to step 50, the second
// one from step 30 on. write_events DIRECTORY
#include <cstdint>
#include <cstdio>

#include "coordinator/summary/summary_writer.h"

namespace paramd {
namespace {

bool Write(const char* directory, uint64_t begin, uint64_t end, double loss) {
  SummaryWriter writer(directory);
  v1::WriteSummary summary;
  summary.set_step(begin);
  summary.set_restarted(true);
  const absl::Time now = absl::FromUnixSeconds(1'700'000'000);
  bool written = writer.Write(summary, now).ok();
  summary.set_restarted(false);
  for (uint64_t step = begin + 10; step <= end; step += 10) {
    summary.set_step(step);
    (*summary.mutable_scalars())["train/loss"] = loss;
    (*summary.mutable_scalars())["workers"] = 2;
    (*summary.mutable_scalars())["staleness/mean"] = 0;
    summary.mutable_scalars()->erase("evaluation/accuracy");
    if (step == 20 || step == 50) {
      (*summary.mutable_scalars())["evaluation/accuracy"] = step / 100.0;
    }
    written &= writer.Write(summary, now).ok();
  }
  return written;
}

}  // namespace
}  // namespace paramd

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: write_events DIRECTORY\n");
    return 2;
  }
  return paramd::Write(argv[1], 0, 50, 1.0) &&
                 paramd::Write(argv[1], 30, 40, 0.5)
             ? 0
             : 1;
}
