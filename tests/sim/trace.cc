#include "tests/sim/trace.h"

#include <cstdio>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"

#include "base/check.h"
#include "base/random.h"

namespace paramd {
namespace {

constexpr size_t kLongestHead = 300;  // Printed of a head.

// The same bytes every time, maps included.
std::string Serialized(const google::protobuf::Message* head) {
  std::string bytes;
  if (head == nullptr) return bytes;
  google::protobuf::io::StringOutputStream stream(&bytes);
  google::protobuf::io::CodedOutputStream coded(&stream);
  coded.SetSerializationDeterministic(true);
  CHECK(head->SerializeToCodedStream(&coded), "heads are complete");
  coded.Trim();
  return bytes;
}

std::string TypeName(const google::protobuf::Message* head) {
  return head == nullptr ? "" : head->GetDescriptor()->name();
}

std::string Clock(int64_t at) {
  return absl::FormatDuration(absl::Nanoseconds(at));
}

}  // namespace

void EventTrace::Add(const Event& event) {
  hash_ = StableHash(
      absl::StrCat(event.at, " ", event.kind, " ", PeerName(event.from), " ",
                   PeerName(event.node), " ", TypeName(event.head), " ",
                   event.payload_crc, " ", event.status.ToString(), " ",
                   Serialized(event.head)),
      hash_);
  if (verbose_) Print(event);
}

void EventTrace::AddNote(int64_t at, PeerId node,
                         absl::string_view note) const {
  if (!verbose_) return;
  std::printf("%14s note     %s: %s\n", Clock(at).c_str(),
              PeerName(node).c_str(), std::string(note).c_str());
}

void EventTrace::Print(const Event& event) const {
  std::string text =
      event.head == nullptr ? "" : event.head->ShortDebugString();
  if (text.size() > kLongestHead) text = text.substr(0, kLongestHead) + "…";
  std::printf("%14s %-8s %s%s%s %s %s %s[%zu bytes]\n", Clock(event.at).c_str(),
              std::string(event.kind).c_str(), PeerName(event.from).c_str(),
              event.is_message ? " -> " : "",
              event.is_message ? PeerName(event.node).c_str() : "",
              TypeName(event.head).c_str(), text.c_str(),
              event.status.ok() ? "" : event.status.ToString().c_str(),
              event.payload_bytes);
}

}  // namespace paramd
