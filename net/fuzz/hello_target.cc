// Whatever a process says of itself in a greeting, it is one of this job or is
// refused by a sentence of a length that can be read.

#include <cstdint>

#include "base/check.h"
#include "base/fuzz/pieces.h"
#include "net/hello.h"

namespace paramd {
namespace {

const Identity& Self() {
  static const auto* const self = [] {
    auto* const made = new Identity();
    made->task = TaskOf(PeerId::Ps(0));
    made->incarnation = 5;
    made->build = "1.0";
    made->job_name = "job";
    made->job_digest = "digest";
    made->job_settings = {"a=1", "b=2"};
    made->cluster = {"ps-0=a:1", "worker-0=b:1"};
    return made;
  }();
  return *self;
}

void CheckAnswer(const absl::Status& status) {
  if (status.ok()) return;
  fuzz::CheckRefusal(status);
  CHECK(status.message().size() < 4096, "a sentence can be read");
}

}  // namespace
}  // namespace paramd

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  paramd::v1::HelloRequest request;
  if (request.ParseFromArray(data, static_cast<int>(size))) {
    paramd::CheckAnswer(paramd::CheckHello(paramd::Self(), request));
  }
  paramd::v1::HelloReply reply;
  if (reply.ParseFromArray(data, static_cast<int>(size))) {
    paramd::CheckAnswer(paramd::CheckHelloReply(
        paramd::Self(), paramd::PeerId::Worker(0), reply));
  }
  return 0;
}
