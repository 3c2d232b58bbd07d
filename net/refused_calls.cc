#include "net/refused_calls.h"

#include "base/log.h"
#include "net/caller.h"
#include "proto/refusal.h"

namespace paramd {

void RefusedCalls::Count(const std::string& peer, const absl::Status& status) {
  const v1::Refusal::Reason reason = RefusalOf(status).reason();
  uint64_t* times = nullptr;
  const char* what = "";
  if (IsForAnotherProcess(status)) {
    times = &for_others_;
    what = "call for another process refused";
  } else if (reason == v1::Refusal::OTHER_JOB ||
             reason == v1::Refusal::PROTOCOL ||
             RefusalOf(status).entity() == "certificate") {
    times = &strangers_;
    what = "stranger refused";
  } else if (status.code() == absl::StatusCode::kResourceExhausted) {
    times = &over_limit_;
    what = "request over a limit";
  }
  if (times == nullptr) return;
  ++*times;
  if ((*times & (*times - 1)) != 0) return;
  Log(LogLevel::kWarning, what,
      {{"caller", IdentifyCaller("", peer)->address},
       {"times", *times},
       {"what", status.message()}});
}

}  // namespace paramd
