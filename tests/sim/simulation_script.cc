// What a script does to the nodes of a simulation, and what it is told of them.
#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"

#include "base/check.h"
#include "tests/sim/simulation.h"

namespace paramd {
uint64_t Simulation::AddNode(PeerId self, Core* core,
                             absl::Duration start_within) {
  CHECK(Living({self}) == nullptr, "a task has one node at a time");
  Node& node = nodes_[self] = Node();
  node.core = core;
  node.self = {self, ++lives_};
  node.clock_offset = Draw(absl::ZeroDuration(), absl::Hours(1000));
  Event event;
  event.kind = Kind::kStart;
  event.node = node.self;
  Schedule(now_ + Draw(absl::ZeroDuration(), start_within), std::move(event));
  return lives_;
}

void Simulation::Crash(PeerId self, bool late_work) {
  Node* const node = Living({self});
  CHECK(node != nullptr, "only a living node crashes");
  CloseIncoming(node);
  if (late_work) late_work_.insert(node->self.life);
  nodes_.erase(self);
}

void Simulation::Orphan(PeerId self, absl::Duration stick) {
  Node* const node = Living({self});
  CHECK(node != nullptr, "only a living node is orphaned");
  const int64_t until = now_ + absl::ToInt64Nanoseconds(stick);
  for (const auto& [peer, other] : nodes_) {
    if (random_.Chance(0.5)) stuck_[{peer, self}] = {node->self.life, until};
  }
  // What is its own, should it start only now: its successor brings other work.
  if (!node->started) node->works = works_[self];
  orphans_[node->self.life] = std::move(*node);
  nodes_.erase(self);
}

void Simulation::Drain(PeerId self) {
  Node* const node = Living({self});
  if (node == nullptr || !node->started) return;
  Outbox out;
  node->core->Drain(NodeTime(*node), &out);
  Empty(node, std::move(out));
}

void Simulation::FailBeside(PeerId self, const absl::Status& why) {
  Node* const node = Living({self});
  if (node == nullptr || !node->started) return;
  Outbox out;
  node->core->Fail(why, NodeTime(*node), &out);
  Empty(node, std::move(out));
}

void Simulation::Stop(const SimProcess& process, const absl::Status& status) {
  Node* const node = Living(process);
  if (node != nullptr) Exit(node, status);
}

bool Simulation::HasExited(PeerId self) const {
  const auto found = nodes_.find(self);
  return found != nodes_.end() && found->second.exited;
}

bool Simulation::IsUp(PeerId self) const {
  const auto found = nodes_.find(self);
  return found != nodes_.end() && found->second.started &&
         !found->second.exited;
}

void Simulation::CutOff(PeerId self, absl::Duration time) {
  network_.CutOff(self, now_ + absl::ToInt64Nanoseconds(time));
}

void Simulation::CutLink(PeerId from, PeerId to, absl::Duration time) {
  network_.CutLink(from, to, now_ + absl::ToInt64Nanoseconds(time));
}

void Simulation::Slow(PeerId self, absl::Duration time) {
  network_.Slow(self, now_ + absl::ToInt64Nanoseconds(time));
}

void Simulation::Route(PeerId from, PeerId to, uint64_t life) {
  stuck_[{from, to}] = {life, std::numeric_limits<int64_t>::max()};
}

void Simulation::Reset(PeerId a, PeerId b) {
  for (const auto& [one, other] : {std::pair(a, b), std::pair(b, a)}) {
    Node* const node = Living({one});
    if (node != nullptr) ResetCalls(node, other);
  }
}

void Simulation::ResetCalls(Node* node, PeerId with) {
  for (const auto& [id, call] : node->calls) {
    if (call->to != with || call->settled || call->reset) continue;
    FailCall(call, now_ + network_.DrawDelay(), "connection reset");
    call->reset = true;
    network_.Count("reset", call->type());
  }
}

void Simulation::Pause(PeerId self, absl::Duration time) {
  Node* const node = Living({self});
  if (node == nullptr) return;
  node->paused_until =
      std::max(node->paused_until, now_ + absl::ToInt64Nanoseconds(time));
}

void Simulation::JumpClock(PeerId self, absl::Duration ahead) {
  Node* const node = Living({self});
  if (node == nullptr || !node->started) return;
  node->clock_offset += absl::ToInt64Nanoseconds(ahead);
  if (watcher_ != nullptr && ahead > absl::ZeroDuration()) {
    watcher_->ClockJumped(self);
  }
  ScheduleTick(node);
}

void Simulation::HandleIo(PeerId self, const google::protobuf::Descriptor* type,
                          IoDelay delay, IoHandler handler) {
  works_[self][type] =
      std::make_shared<const Io>(Io{delay, std::move(handler)});
}

std::string Simulation::Waits() const {
  std::string text;
  for (const auto& [peer, node] : nodes_) AppendWaits(node, &text);
  return text;
}

void Simulation::AppendWaits(const Node& node, std::string* text) const {
  absl::StrAppend(text, "  ", PeerName(node.self.peer),
                  node.exited    ? " has exited\n"
                  : node.started ? " waits for:\n"
                                 : " has not started\n");
  for (const auto& [id, call] : node.calls) {
    absl::StrAppend(text, "    ", PeerName(call->to), ": ", call->type(),
                    ", sent ", Age(now_, call->sent_at), " ago\n");
  }
  for (const auto& [id, delivery] : node.incoming) {
    absl::StrAppend(text, "    (has not answered ", delivery.call->type(),
                    " of ", PeerName(delivery.call->from.peer), ", received ",
                    Age(now_, delivery.since), " ago)\n");
  }
  for (const auto& [id, io] : node.ios) {
    absl::StrAppend(text, "    its own ", io.type->name(), ", started ",
                    Age(now_, io.since), " ago\n");
  }
  if (node.tick_at != 0) {
    absl::StrAppend(text, "    a tick in ", Age(node.tick_at, now_), "\n");
  }
}

}  // namespace paramd
