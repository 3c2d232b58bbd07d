#include "server/core/watched_place.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"

#include "base/status_macros.h"
#include "proto/refusal.h"

namespace paramd {
namespace {

// Before the coordinator's call ends.
constexpr absl::Duration kMostWatchPark = absl::Milliseconds(500);
// Several of its calls may be lost.
constexpr absl::Duration kWatchPatience = absl::Seconds(2);

}  // namespace

// What lets a process go must not reach the one that follows it, of which
// nothing is known before it is configured.
absl::Status WatchedPlace::Check(const v1::WatchRequest& request) const {
  const v1::Header& header = request.header();
  RETURN_IF_ERROR(view_.checks.CheckRunning());
  RETURN_IF_ERROR(view_.checks.CheckTerm(header.term()));
  const uint64_t meant = header.server_incarnation();
  if (meant == 0 || meant == view_.options.incarnation) {
    return absl::OkStatus();
  }
  return view_.NotReady(
      "coordinator",
      absl::StrCat("process ", absl::Hex(meant, absl::kZeroPad16),
                   " is watched; this ", view_.Name(), " is process ",
                   absl::Hex(view_.options.incarnation, absl::kZeroPad16)));
}

void WatchedPlace::Keep(CallId call, const v1::WatchRequest& request,
                        ShardTurn* turn) {
  if (call_ != 0) Answer(turn);
  call_ = call;
  request_ = request;
  until_ = turn->now +
           std::min(absl::Milliseconds(request.wait_ms()), kMostWatchPark);
  watched_until_ = turn->now + kWatchPatience;
}

v1::ConfigurationVersion WatchedPlace::StoppedFor() const {
  const BackupStream* const stream = view_.data.backup.get();
  return stream != nullptr && stream->handed_over()
             ? stream->backup().since()
             : v1::ConfigurationVersion();
}

bool WatchedPlace::HasNews() const {
  return request_.leaving() != view_.draining ||
         request_.stopped() != StoppedFor();
}

void WatchedPlace::Advance(ShardTurn* turn) {
  if (call_ != 0 && (turn->now >= until_ || HasNews())) Answer(turn);
}

void WatchedPlace::Answer(ShardTurn* turn) {
  auto reply = std::make_unique<v1::WatchReply>();
  reply->set_incarnation(view_.options.incarnation);
  reply->set_leaving(view_.draining);
  *reply->mutable_stopped() = StoppedFor();
  turn->out->Reply(std::exchange(call_, CallId{0}), std::move(reply));
}

}  // namespace paramd
