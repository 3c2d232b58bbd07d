#ifndef PARAMD_BENCH_OVERLOAD_OPEN_LOOP_H_
#define PARAMD_BENCH_OVERLOAD_OPEN_LOOP_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "grpcpp/channel.h"
#include "grpcpp/completion_queue.h"

#include "base/time.h"
#include "bench/harness/child.h"
#include "tensor/buffer.h"

namespace paramd {

// Whoever has no answer by then counts as not served, and gives up.
inline constexpr absl::Duration kInTime = absl::Milliseconds(500);

// What came of calls that were offered at a rate, in calls a second.
struct Offered {
  double due = 0;   // That the rate had.
  double sent = 0;  // Of those: some worker was free to make it.
  double good = 0;  // Acknowledged no later than kInTime after it was due.
  std::vector<double> seconds;  // Those took, from when they were due.
};

// Workers that push and pull blocks when it is due, whatever became of what was
// due before: three pushes, then a pull. A worker has one push open and up to
// four pulls, and a connection of its own; what is due while none is free is
// not sent. A push that was not acknowledged is sent again, with its number, as
// the worker's next one.
//
// Not thread-safe.
class OpenLoop {
 public:
  // Workers [first, first + count) of the job at `address`.
  OpenLoop(const std::string& address, uint32_t first, uint32_t count);

  // Offers so many calls a second, for so long, and waits for the answers. The
  // first fifth of the time does not count.
  Offered Offer(double rate, absl::Duration length);
  // Sends what is not acknowledged until it is. How many pushes there were.
  uint64_t Settle();

 private:
  struct Worker {
    uint32_t index = 0;
    std::shared_ptr<grpc::Channel> channel;
    uint64_t sequence = 1;  // Of its next push.
    bool unacknowledged = false;
  };
  struct Call;

  // False: no worker is free.
  bool Begin(bool is_push, Time due);
  void Send(Worker* worker, bool is_push, Time due, absl::Duration patience);
  // One answer, if one comes before `until`.
  bool TakeOne(Time until);
  void Ended(const Call& call);

  const Buffer gradient_;
  grpc::CompletionQueue queue_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::deque<Worker*> may_push_;
  std::deque<Worker*> may_pull_;  // One of them as often as it may pull.
  int open_ = 0;
  // Answers count from and until then.
  Time counts_from_;
  Time counts_until_;
  std::vector<double> seconds_;  // Of those that are good.
};

// A process with all workers of the job, on all CPUs but the server's, a thread
// on each. It configures the server first.
class Load {
 public:
  explicit Load(const std::string& address);

  // As OpenLoop's; `seconds` are the median and the 99th percentile.
  struct Figures {
    double due = 0;
    double sent = 0;
    double good = 0;
    double p50_seconds = 0;
    double p99_seconds = 0;
  };
  Figures Offer(double rate, absl::Duration length);
  uint64_t Settle();

 private:
  Child child_;
};

}  // namespace paramd

#endif  // PARAMD_BENCH_OVERLOAD_OPEN_LOOP_H_
