#ifndef PARAMD_BENCH_OVERLOAD_HONEST_WORKER_H_
#define PARAMD_BENCH_OVERLOAD_HONEST_WORKER_H_

#include <string>

#include "bench/harness/child.h"

namespace paramd {

// A process with one worker of the job, which does nothing but steps, one after
// the other: it pulls four blocks of 1 MiB, by four calls at once, and pushes
// as many in bf16. What is refused for now it asks again after as long as the
// refusal says, 10 ms at least. It configures the server first.
class HonestWorker {
 public:
  explicit HonestWorker(const std::string& address);

  // Of so many steps.
  struct Figures {
    double p50_seconds = 0;
    double p99_seconds = 0;
  };
  Figures Step(int times);

 private:
  Child child_;
};

}  // namespace paramd

#endif  // PARAMD_BENCH_OVERLOAD_HONEST_WORKER_H_
