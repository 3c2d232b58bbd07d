#include "tests/sim/trace.h"

#include <cstdio>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"

#include "base/check.h"
#include "base/crc32c.h"
#include "base/random.h"

namespace paramd {
namespace {

constexpr size_t kLongestHead = 300;  // Printed of a head.

// The same bytes every time, maps included.
std::string Serialized(const google::protobuf::Message& head) {
  std::string bytes;
  google::protobuf::io::StringOutputStream stream(&bytes);
  google::protobuf::io::CodedOutputStream coded(&stream);
  coded.SetSerializationDeterministic(true);
  CHECK(head.SerializeToCodedStream(&coded), "heads are complete");
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

uint64_t EventTrace::HashOf(const google::protobuf::Message* head) {
  if (head == nullptr) return 0;
  const std::string bytes = Serialized(*head);
  const uint32_t crc = Crc32c(absl::MakeConstSpan(
      reinterpret_cast<const std::byte*>(bytes.data()), bytes.size()));
  return StableHash(head->GetDescriptor()->name(),
                    uint64_t{crc} << 32 | bytes.size());
}

void EventTrace::Add(const Event& event) {
  Mix(event.at);
  Mix(StableHash(event.kind));
  for (const PeerId peer : {event.from, event.node}) {
    Mix(uint64_t{peer.index} << 8 | static_cast<uint8_t>(peer.kind));
  }
  Mix(event.head_hash != 0 ? event.head_hash : HashOf(event.head));
  Mix(event.payload_crc);
  if (!event.status.ok()) Mix(StableHash(event.status.ToString()));
  if (verbose_) Print(event);
}

// The finaliser of SplitMix64.
void EventTrace::Mix(uint64_t value) {
  hash_ = (hash_ ^ value) + 0x9E3779B97F4A7C15;
  hash_ = (hash_ ^ hash_ >> 30) * 0xBF58476D1CE4E5B9;
  hash_ = (hash_ ^ hash_ >> 27) * 0x94D049BB133111EB;
  hash_ ^= hash_ >> 31;
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
