// Whatever calls a parameter server gets, it answers each once, and what it
// refuses changes no value.

#include <cstdint>
#include <utility>

#include "base/check.h"
#include "proto/paramd/v1/data.pb.h"
#include "proto/paramd/v1/status.pb.h"
#include "server/core/shard.h"
#include "tensor/fuzz/core_run.h"

namespace paramd {
namespace {

Shard::Options Options() {
  Shard::Options options;
  options.incarnation = 100;
  options.life_seed = 1000;
  options.memory_limit_bytes = uint64_t{64} << 20;
  return options;
}

bool Refuses(CallId call, const Outbox& out) {
  return out.replies.size() == 1 && out.replies[0].call == call &&
         !out.replies[0].status.ok();
}

// A shard that looks whether refusals change it.
class CheckedShard : public Core {
 public:
  CheckedShard() : shard_(Options()) {}

  void Start(Time now, Outbox* out) override { shard_.Start(now, out); }
  void Receive(Message message, Time now, Outbox* out) override {
    const bool is_push =
        !message.is_reply &&
        dynamic_cast<const v1::PushRequest*>(message.head) != nullptr;
    const CallId call = message.call;
    const uint32_t before = is_push ? Checksum() : 0;
    shard_.Receive(std::move(message), now, out);
    CHECK(!is_push || !Refuses(call, *out) || before == Checksum(),
          "a refused push changes nothing");
  }
  void Completed(IoResult result, Time now, Outbox* out) override {
    shard_.Completed(std::move(result), now, out);
  }
  void Tick(Time now, Outbox* out) override { shard_.Tick(now, out); }
  Time next_tick() const override { return shard_.next_tick(); }
  void Drain(Time now, Outbox* out) override { shard_.Drain(now, out); }

 private:
  // Of what it holds, when it holds all of it.
  uint32_t Checksum() const {
    v1::StatusReply status;
    shard_.FillStatus(&status);
    return status.server().restored() ? shard_.Checksum() : 0;
  }

  Shard shard_;
};

void Run(absl::string_view bytes) {
  CheckedShard shard;
  fuzz::CoreRun run(&shard, {"Pull", "Push", "Recall", "Configure", "Seal",
                             "Written", "FetchShard", "Fill", "Replicate",
                             "Decide", "TellClock", "Finish", "Watch"});
  run.Run(bytes);
}

}  // namespace
}  // namespace paramd

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  paramd::Run({reinterpret_cast<const char*>(data), size});
  return 0;
}
