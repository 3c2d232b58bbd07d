#include "tensor/fuzz/events.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "google/protobuf/message.h"

#include "base/fuzz/pieces.h"
#include "base/random.h"
#include "tensor/fuzz/mutate_message.h"

namespace paramd::fuzz {
namespace {

// More are never needed to reach what fewer do not.
constexpr size_t kMostEvents = 64;

// REQUIRES: there are some.
template <typename T>
T& OneOf(std::vector<T>* things, RandomStream* random) {
  return (*things)[random->Below(things->size())];
}

void MutateHead(RandomStream* random, Event* event) {
  const std::unique_ptr<google::protobuf::Message> message =
      NewMessage(event->type);
  if (message == nullptr) return;
  message->ParsePartialFromString(event->head);
  MutateMessage(random, message.get());
  event->head = message->SerializePartialAsString();
}

void MutatePayload(RandomStream* random, Event* event) {
  std::string& payload = event->payload;
  switch (random->Below(3)) {
    case 0:
      payload.resize(random->Below(2 * payload.size() + 16));
      break;
    case 1:
      payload.append(random->Below(9), '\0');
      break;
    default:
      if (payload.empty()) break;
      payload[random->Below(payload.size())] =
          static_cast<char>(random->Bits());
  }
}

void MutateEvent(RandomStream* random, Event* event) {
  const uint64_t choice = random->Below(16);
  if (choice < 11) {
    MutateHead(random, event);
  } else if (choice == 11) {
    MutatePayload(random, event);
  } else if (choice == 12) {
    event->kind = static_cast<Event::Kind>(random->Below(Event::kKinds));
  } else if (choice == 13) {
    event->which = static_cast<uint8_t>(random->Below(4));
  } else {
    event->who = static_cast<uint8_t>(random->Below(80));
  }
}

void MutateOrder(RandomStream* random, std::vector<Event>* events) {
  const size_t at = random->Below(events->size());
  switch (random->Below(4)) {
    case 0:
      if (events->size() > 1) events->erase(events->begin() + at);
      break;
    case 1:
      std::swap((*events)[at], OneOf(events, random));
      break;
    case 2: {
      Event time;
      time.who = static_cast<uint8_t>(random->Below(80));
      events->insert(events->begin() + at, std::move(time));
      break;
    }
    default: {
      Event again = OneOf(events, random);
      events->insert(events->begin() + at, std::move(again));
    }
  }
}

}  // namespace

std::vector<Event> ReadEvents(absl::string_view bytes) {
  std::vector<Event> events;
  Pieces pieces(bytes);
  while (!pieces.done() && events.size() < kMostEvents) {
    Event event;
    event.kind = static_cast<Event::Kind>(pieces.Byte() % Event::kKinds);
    event.who = pieces.Byte();
    event.which = pieces.Byte();
    event.type = std::string(pieces.Take(pieces.Byte()));
    event.head = std::string(pieces.TakeSized());
    event.payload = std::string(pieces.TakeSized());
    events.push_back(std::move(event));
  }
  return events;
}

std::string WriteEvents(const std::vector<Event>& events) {
  std::string bytes;
  for (const Event& event : events) {
    const absl::string_view type = absl::string_view(event.type).substr(0, 255);
    AddNumber(static_cast<uint64_t>(event.kind), 1, &bytes);
    AddNumber(event.who, 1, &bytes);
    AddNumber(event.which, 1, &bytes);
    AddNumber(type.size(), 1, &bytes);
    bytes.append(type.data(), type.size());
    AddSized(event.head, &bytes);
    AddSized(event.payload, &bytes);
  }
  return bytes;
}

void MutateEvents(uint64_t seed, std::vector<Event>* events) {
  RandomStream random(seed);
  if (events->empty()) events->emplace_back();
  for (uint64_t left = 1 + random.Below(3); left > 0; --left) {
    if (random.Chance(0.75)) {
      MutateEvent(&random, &OneOf(events, &random));
    } else {
      MutateOrder(&random, events);
    }
  }
}

}  // namespace paramd::fuzz
