#ifndef PARAMD_TENSOR_FUZZ_MAKE_EVENTS_H_
#define PARAMD_TENSOR_FUZZ_MAKE_EVENTS_H_

#include "google/protobuf/message.h"

#include "tensor/fuzz/core_run.h"
#include "tensor/fuzz/events.h"

namespace paramd::fuzz {

// Events of which corpora are made.
Event CallOf(PeerId from, const google::protobuf::Message& request,
             const BufferChain& payload = {});
// Of the oldest call, or work, or of a later one.
Event AnswerOf(const google::protobuf::Message& reply,
               const BufferChain& payload = {}, uint8_t which = 0);
Event DoneOf(const google::protobuf::Message& result,
             const BufferChain& payload = {}, uint8_t which = 0);
// Work that has no result.
Event Done(uint8_t which = 0);
// Until the core wants it.
Event TimePasses();

// Delivers events to a core as they are made, so that whoever makes them sees
// what the core wants next.
class Recorder {
 public:
  Recorder(Core* core, std::vector<absl::string_view> methods)
      : run_(core, std::move(methods)) {
    run_.Start();
  }

  void set_work(CoreRun::Work work) { run_.set_work(std::move(work)); }

  void Add(const Event& event) {
    events_.push_back(event);
    run_.Deliver(event);
  }
  const CoreRun& run() const { return run_; }
  std::string bytes() const { return WriteEvents(events_); }

 private:
  CoreRun run_;
  std::vector<Event> events_;
};

}  // namespace paramd::fuzz

#endif  // PARAMD_TENSOR_FUZZ_MAKE_EVENTS_H_
