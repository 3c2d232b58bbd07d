// Whatever bytes a call has, in whatever pieces they come, they are a message
// of the method's type with its payload, which can be written again, or are
// refused. The first byte chooses the type, the second how they are cut.

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "grpcpp/support/slice.h"

#include "base/check.h"
#include "base/fuzz/pieces.h"
#include "net/method_table.h"
#include "net/wire_message.h"

namespace paramd {
namespace {

grpc::ByteBuffer Cut(absl::string_view bytes, size_t piece) {
  std::vector<grpc::Slice> slices;
  for (size_t at = 0; at < bytes.size(); at += piece) {
    slices.emplace_back(bytes.data() + at, std::min(piece, bytes.size() - at));
  }
  return grpc::ByteBuffer(slices.data(), slices.size());
}

void Check(absl::string_view bytes, const google::protobuf::Message& prototype,
           size_t piece) {
  const auto whole = DecodeMessage(Cut(bytes, bytes.size() + 1), prototype);
  const auto cut = DecodeMessage(Cut(bytes, piece), prototype);
  CHECK(whole.ok() == cut.ok(), "cuts change nothing");
  if (!whole.ok()) return fuzz::CheckRefusal(whole.status());
  const std::string payload = FlattenForTest(whole->payload);
  CHECK(payload == FlattenForTest(cut->payload), "nor in the payload");
  CHECK(payload.empty() || HasPayloadField(prototype.GetDescriptor()),
        "only messages with a payload field carry one");
  const auto again =
      DecodeMessage(EncodeMessage(*whole->head, cut->payload), prototype);
  CHECK(again.ok(), "what is read can be written");
  CHECK(FlattenForTest(again->payload) == payload, "with its payload");
  CHECK(again->head->SerializeAsString() == whole->head->SerializeAsString(),
        "and is the same");
}

}  // namespace
}  // namespace paramd

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto& methods = paramd::MethodTable::Get().methods();
  paramd::fuzz::Pieces pieces(data, size);
  const auto& method = methods[pieces.Byte() % methods.size()];
  const uint8_t choice = pieces.Byte();
  paramd::Check(pieces.Rest(),
                choice % 2 == 0 ? *method.request : *method.reply,
                1 + choice / 2);
  return 0;
}
