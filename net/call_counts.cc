#include "net/call_counts.h"

#include "net/method_table.h"

namespace paramd {

CallCounts::CallCounts() : counts_(MethodTable::Get().methods().size()) {}

void CallCounts::Answered(int method, bool is_refused, absl::Duration took) {
  Count& count = Of(method);
  if (is_refused) ++count.refused;
  count.took.Add(took);
}

void CallCounts::Fill(v1::StatusReply* status) const {
  for (size_t i = 0; i < counts_.size(); ++i) {
    const Count& count = counts_[i];
    if (count.took.count() == 0) continue;
    v1::CallStats* const stats = status->add_calls();
    stats->set_method(MethodTable::Get().methods()[i].name);
    stats->set_refused(count.refused);
    stats->set_received_bytes(count.received);
    stats->set_sent_bytes(count.sent);
    count.took.Fill(stats->mutable_took());
  }
}

}  // namespace paramd
