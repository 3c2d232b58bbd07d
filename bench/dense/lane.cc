#include "bench/dense/lane.h"

#include <sstream>

#include "absl/strings/str_cat.h"

#include "base/check.h"
#include "bench/harness/samples.h"

namespace paramd {

Lane::Moved Lane::Move(Transfer transfer, int times) {
  const double cpu = CpuSeconds();
  const double faults = PageFaults();
  std::istringstream answer(client_->Call(
      absl::StrCat(transfer == Transfer::kPush ? "push " : "pull ", times)));
  Moved moved;
  answer >> moved.seconds >> moved.p50_seconds >> moved.p99_seconds;
  CHECK(!answer.fail(), "the client answered with three numbers");
  moved.cpu_seconds = CpuSeconds() - cpu;
  moved.page_faults = PageFaults() - faults;
  return moved;
}

double Lane::CpuSeconds() const {
  return server_->CpuSeconds() + client_->CpuSeconds();
}

double Lane::PageFaults() const {
  return static_cast<double>(server_->MinorFaults() + client_->MinorFaults());
}

MoveRequest ParseMoveRequest(const std::string& line) {
  std::istringstream in(line);
  std::string what;
  MoveRequest request;
  in >> what >> request.times;
  CHECK(!in.fail() && (what == "push" || what == "pull"),
        "a client is asked to push or to pull");
  request.transfer = what == "push" ? Transfer::kPush : Transfer::kPull;
  return request;
}

std::string MovedLine(const std::vector<double>& seconds) {
  Samples samples;
  double sum = 0;
  for (const double each : seconds) {
    samples.Add(each);
    sum += each;
  }
  return absl::StrCat(sum, " ", samples.Median(), " ", samples.Quantile(0.99));
}

}  // namespace paramd
