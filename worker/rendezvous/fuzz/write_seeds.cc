// Writes the corpus of the target beside it: rounds that form and end.

#include <cstdint>
#include <string>

#include "base/fuzz/pieces.h"
#include "base/fuzz/seeds.h"
#include "proto/paramd/v1/membership.pb.h"

namespace paramd {
namespace {

// Choices of the target: a millisecond passes, or a minute; or none worth
// naming, and an answer comes.
constexpr uint8_t kSoon = 10;
constexpr uint8_t kLate = 26;
constexpr uint8_t kFinish = 0x80;
constexpr uint8_t kAnswer = 0x40;

void Add(uint8_t choice, const google::protobuf::Message& message,
         std::string* out) {
  fuzz::AddNumber(choice, 1, out);
  fuzz::AddSized(message.SerializeAsString(), out);
}

v1::BeatRequest Waiting(uint32_t worker) {
  v1::BeatRequest beat;
  beat.set_worker(worker);
  beat.set_incarnation(10 + worker);
  beat.mutable_next()->set_epoch(1);
  beat.set_waits(true);
  return beat;
}

std::string AllWait(uint8_t choice = kSoon) {
  std::string events;
  for (const uint32_t worker : {0, 1, 2}) {
    Add(choice, Waiting(worker), &events);
  }
  return events;
}

std::string AllLink() {
  std::string events = AllWait();
  for (const uint32_t worker : {0, 1, 2}) {
    v1::BeatRequest beat = Waiting(worker);
    beat.set_waits(false);
    beat.set_linking(1);
    for (int i = 0; i < 3; ++i) beat.add_links("a");
    Add(kSoon, beat, &events);
  }
  return events;
}

std::string OneLeaves() {
  std::string events = AllWait();
  v1::BeatRequest beat = Waiting(1);
  beat.set_left(1);
  Add(kSoon, beat, &events);
  return events + AllWait();
}

std::string AnotherProcess() {
  std::string events = AllWait();
  v1::BeatRequest beat = Waiting(2);
  beat.set_incarnation(99);
  Add(kSoon, beat, &events);
  return events + AllWait();
}

// A process that has no name would have taken the place of one that has.
std::string NoProcess() {
  std::string events = AllWait();
  v1::BeatRequest beat = Waiting(2);
  beat.clear_incarnation();
  Add(kSoon, beat, &events);
  return events + AllWait();
}

std::string Answers() {
  v1::BeatReply reply;
  reply.set_round(1);
  for (const uint32_t worker : {0, 1, 2}) reply.add_workers(worker);
  reply.mutable_next()->set_epoch(1);
  std::string events;
  Add(kAnswer, reply, &events);
  reply.set_round(2);
  Add(kAnswer, reply, &events);
  Add(kAnswer, v1::BeatReply(), &events);
  return events;
}

}  // namespace
}  // namespace paramd

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  paramd::fuzz::WriteSeeds(
      argv[1], "rendezvous",
      {{"all_wait", paramd::AllWait()},
       {"all_link", paramd::AllLink()},
       {"late", paramd::AllWait() + paramd::AllWait(paramd::kLate)},
       {"one_leaves", paramd::OneLeaves()},
       {"another_process", paramd::AnotherProcess()},
       {"no_process", paramd::NoProcess()},
       {"finished", paramd::AllWait() + paramd::AllWait(paramd::kFinish)},
       {"answers", paramd::Answers()}});
  return 0;
}
