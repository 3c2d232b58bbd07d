#include "tensor/fuzz/make_events.h"

namespace paramd::fuzz {
namespace {

// Of kTime: until the core wants it.
constexpr uint8_t kUntilWanted = 79;

Event Make(Event::Kind kind, const google::protobuf::Message& head,
           const BufferChain& payload) {
  Event event;
  event.kind = kind;
  event.type = head.GetDescriptor()->name();
  event.head = head.SerializeAsString();
  event.payload = FlattenForTest(payload);
  return event;
}

}  // namespace

Event CallOf(PeerId from, const google::protobuf::Message& request,
             const BufferChain& payload) {
  Event event = Make(Event::Kind::kCall, request, payload);
  event.who = NumberOf(from);
  return event;
}

Event AnswerOf(const google::protobuf::Message& reply,
               const BufferChain& payload, uint8_t which) {
  Event event = Make(Event::Kind::kAnswer, reply, payload);
  event.which = which;
  return event;
}

Event DoneOf(const google::protobuf::Message& result,
             const BufferChain& payload, uint8_t which) {
  Event event = Make(Event::Kind::kDone, result, payload);
  event.which = which;
  return event;
}

Event Done(uint8_t which) {
  Event event;
  event.kind = Event::Kind::kDone;
  event.which = which;
  return event;
}

Event TimePasses() {
  Event event;
  event.who = kUntilWanted;
  return event;
}

}  // namespace paramd::fuzz
