#include "net/outside_work.h"

#include "absl/strings/str_cat.h"

#include "base/check.h"

namespace paramd {
namespace {

constexpr size_t kMostOpen = 4096;

IoResult Failed(IoId io, absl::Status status) {
  IoResult result;
  result.io = io;
  result.status = std::move(status);
  return result;
}

}  // namespace

void OutsideWork::Begin(PeerId core, Outbox::IoItem item) {
  const IoId io = item.io;
  const google::protobuf::Descriptor* type = item.head->GetDescriptor();
  const auto handler = handlers_.find(type);
  if (handler == handlers_.end()) {
    ended_(core, Failed(io, absl::UnimplementedError(absl::StrCat(
                                "this process does not do ", type->name()))));
    return;
  }
  if (open_.size() >= kMostOpen) {
    ended_(core, Failed(io, absl::ResourceExhaustedError(absl::StrCat(
                                kMostOpen, " works are under way"))));
    return;
  }
  CHECK(open_.insert({core, io}).second, "an open work has its own id");
  // `this` is used on the loop thread only.
  Runtime::IoDone done = [this, core, io, mailbox = mailbox_](IoResult result) {
    result.io = io;
    // std::function copies what it holds, an IoResult cannot be copied.
    auto held = std::make_shared<IoResult>(std::move(result));
    mailbox->Post([this, core, held] { Complete(core, std::move(*held)); });
  };
  handler->second(std::move(item), std::move(done));
}

void OutsideWork::Complete(PeerId core, IoResult result) {
  CHECK(open_.erase({core, result.io}) == 1, "a work ends once");
  ended_(core, std::move(result));
}

}  // namespace paramd
