#include "bench/scale/simulated_job.h"

#include <malloc.h>
#include <time.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

#include "base/check.h"
#include "coordinator/core/server_places.h"
#include "proto/paramd/v1/storage.pb.h"
#include "proto/refusal.h"

namespace paramd {
namespace {

using ::google::protobuf::DynamicCastToGenerated;

constexpr uint32_t kWorkersPerServer = 10;
constexpr uint32_t kBatch = 32;
constexpr uint32_t kPortionBatches = 16;
constexpr absl::Duration kPortionEvery = absl::Seconds(10);  // On average.
// When all servers are filled, and not in one moment.
constexpr absl::Duration kJoinAfter = absl::Seconds(2);
constexpr absl::Duration kJoinWithin = absl::Seconds(10);
constexpr absl::Duration kPatience = absl::Minutes(1);

// Half of that to one and a half times that: no two workers are as fast, so
// portions are not used up in the order in which they were handed out.
absl::Duration PortionEvery(uint32_t worker) {
  const double golden = 0.6180339887 * worker;
  return kPortionEvery * (0.5 + golden - std::floor(golden));
}

double ThreadSeconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * now.tv_nsec;
}

uint64_t HeapBytes() {
  const struct mallinfo2 info = mallinfo2();
  return info.uordblks + info.hblkhd;
}

CoordinatorOptions OptionsOf(uint32_t servers) {
  CoordinatorOptions options;
  v1::JobConfig& job = options.job;
  job.set_name("scale");
  job.set_batch_per_replica(kBatch);
  job.set_staleness("async");
  job.set_portion_batches(kPortionBatches);
  job.set_epochs(1000);
  job.set_lease_ms(10000);
  job.set_heartbeat_ms(1000);
  job.set_start_timeout_ms(600000);
  job.set_finish_timeout_ms(10000);
  job.set_drain_timeout_ms(30000);
  job.set_replication(2);
  job.mutable_checkpoint()->set_keep(3);
  job.mutable_optimizer()->mutable_sgd();
  job.mutable_optimizer()->set_learning_rate(0.1);
  options.job_digest = "0123456789abcdef";
  options.run_id = "run";
  for (uint32_t s = 0; s < servers; ++s) {
    v1::Variable& variable = options.variables.emplace_back();
    variable.set_name(absl::StrCat("layer_", s, "/kernel"));
    variable.set_dtype(v1::FLOAT32);
    variable.add_shape(16);
  }
  options.servers = servers;
  options.places = PlacesOf(servers, /*shards=*/1);
  options.workers = servers * kWorkersPerServer;
  options.examples = 1 << 30;
  options.nonce_seed = 1;
  return options;
}

// The place of a server in what a configuration lists.
const v1::ServerMember* Find(const v1::Configuration& told, uint32_t server) {
  const int at = static_cast<int>(server);
  if (at < told.servers_size() && told.servers(at).index() == server) {
    return &told.servers(at);
  }
  for (const v1::ServerMember& member : told.servers()) {
    if (member.index() == server) return &member;
  }
  return nullptr;
}

}  // namespace

CoordinatorWork operator-(const CoordinatorWork& a, const CoordinatorWork& b) {
  return {a.cpu_s - b.cpu_s, a.messages - b.messages, a.bytes - b.bytes};
}

SimulatedJob::SimulatedJob(uint32_t servers)
    : tasks_(servers),
      places_(2 * servers),
      acknowledged_(servers),
      workers_(servers * kWorkersPerServer) {
  const CoordinatorOptions options = OptionsOf(servers);
  for (uint32_t s = 0; s < servers; ++s) {
    tasks_[s].incarnation = next_incarnation_++;
    places_[options.places[s].home].server = s;
    places_[options.places[s].away].server = s;
  }
  core_ = std::make_unique<Coordinator>(options);
}

void SimulatedJob::Begin() {
  Enter([this](Outbox* out) { core_->Start(now_, out); });
  for (uint32_t w = 0; w < workers_.size(); ++w) {
    After(kJoinAfter + kJoinWithin * (static_cast<double>(w) / workers_.size()),
          [this, w] { Join(w); });
  }
  const Time end = now_ + kPatience;
  while (!IsComplete()) {
    CHECK(now_ < end, absl::StrCat("all members are there within a minute: ",
                                   core_->waiting_for()));
    Run(absl::Milliseconds(100));
  }
}

bool SimulatedJob::IsComplete() const {
  if (joined_ < workers_.size()) return false;
  for (uint32_t peer = 0; peer < places_.size(); ++peer) {
    if (IsPrimary(peer) && !places_[peer].member.backup().member()) {
      return false;
    }
  }
  return true;
}

void SimulatedJob::Run(absl::Duration duration) {
  const Time end = now_ + duration;
  for (;;) {
    const Time tick = core_->next_tick();
    const Time event = events_.empty() ? Time::Never() : events_.top().at;
    if (std::min(tick, event) > end) break;
    if (event <= tick) {
      now_ = event;
      Step();
    } else {
      now_ = std::max(now_, tick);
      Enter([this](Outbox* out) { core_->Tick(now_, out); });
    }
  }
  now_ = end;
}

uint64_t SimulatedJob::End() {
  const uint64_t before = HeapBytes();
  core_.reset();
  return before - HeapBytes();
}

// ---- events -----------------------------------------------------------------

void SimulatedJob::After(absl::Duration delay, std::function<void()> happen) {
  events_.push({now_ + delay, ++order_, std::move(happen)});
}

void SimulatedJob::Step() {
  const std::function<void()> happen = std::move(events_.top().happen);
  events_.pop();
  happen();
}

// ---- the coordinator --------------------------------------------------------

// A host asks for the next tick after each event too.
void SimulatedJob::Enter(const std::function<void(Outbox*)>& call) {
  Outbox out;
  const double begin = ThreadSeconds();
  call(&out);
  core_->next_tick();
  work_.cpu_s += ThreadSeconds() - begin;
  CHECK(!out.exited,
        absl::StrCat("the job goes on: ", out.exit_status.ToString()));
  Collect(&out);
}

void SimulatedJob::Deliver(PeerId from, CallId call, bool is_reply,
                           const google::protobuf::Message& head) {
  Message message;
  message.from = from;
  message.call = call;
  message.is_reply = is_reply;
  message.head = &head;
  ++work_.messages;
  work_.bytes += head.ByteSizeLong();
  Enter([&](Outbox* out) { core_->Receive(std::move(message), now_, out); });
}

void SimulatedJob::Fail(uint32_t peer, CallId call) {
  Message message;
  message.from = PeerId::Ps(peer);
  message.call = call;
  message.is_reply = true;
  message.status = absl::UnavailableError("nobody listens there");
  MarkEnded(&message.status);
  Enter([&](Outbox* out) { core_->Receive(std::move(message), now_, out); });
}

void SimulatedJob::Collect(Outbox* out) {
  for (const Outbox::ReplyItem& item : out->replies) Carry(item);
  for (const Outbox::SendItem& item : out->sends) Carry(item);
  for (const Outbox::IoItem& item : out->ios) Do(item);
}

// What a message says is taken from it here; it is heard when it arrives.
void SimulatedJob::Carry(const Outbox::SendItem& item) {
  ++work_.messages;
  work_.bytes += item.head->ByteSizeLong();
  const uint32_t peer = item.to.index;
  const CallId call = item.call;
  if (DynamicCastToGenerated<v1::RecallRequest>(item.head.get()) != nullptr) {
    After(kLatency, [this, peer, call] {
      v1::RecallReply reply;
      reply.set_incarnation(IncarnationAt(peer));
      Answer(peer, call, &reply);
    });
  } else if (const auto* watch =
                 DynamicCastToGenerated<v1::WatchRequest>(item.head.get())) {
    After(kLatency,
          [this, peer, call, wait = absl::Milliseconds(watch->wait_ms())] {
            OnWatch(peer, call, wait);
          });
  } else {
    const auto* told =
        DynamicCastToGenerated<v1::ConfigureRequest>(item.head.get());
    CHECK(told != nullptr, "a server is recalled, configured and watched");
    const v1::Configuration& configuration = told->configuration();
    const v1::ServerMember* member = Find(configuration, places_[peer].server);
    std::shared_ptr<const v1::ServerMember> news;
    if (member != nullptr) {
      news = std::make_shared<const v1::ServerMember>(*member);
    }
    After(kLatency, [this, peer, call, news, version = configuration.version(),
                     since = configuration.changes_since()] {
      CHECK(IncarnationAt(peer) == 0 || !(places_[peer].known < since),
            "a server has the configuration since which it is told what "
            "has changed");
      if (news != nullptr) places_[peer].member = *news;
      OnConfigure(peer, call, version);
    });
  }
}

void SimulatedJob::Carry(const Outbox::ReplyItem& item) {
  CHECK(item.status.ok(), item.status.ToString());
  ++work_.messages;
  work_.bytes += item.head->ByteSizeLong();
  // A worker's calls are numbered by who calls.
  const auto index = static_cast<uint32_t>(item.call % workers_.size());
  if (const auto* joined =
          DynamicCastToGenerated<v1::JoinReply>(item.head.get())) {
    v1::JoinReply reply;
    *reply.mutable_generation() = joined->generation();
    *reply.mutable_configuration()->mutable_version() =
        joined->configuration().version();
    After(kLatency, [this, index, reply] { OnJoined(index, reply); });
  } else if (const auto* news =
                 DynamicCastToGenerated<v1::HeartbeatReply>(item.head.get())) {
    v1::HeartbeatReply reply;
    reply.set_state(news->state());
    if (news->has_configuration()) {
      *reply.mutable_configuration()->mutable_version() =
          news->configuration().version();
    }
    After(kLatency, [this, index, reply] { OnNews(index, reply); });
  } else if (const auto* portion =
                 DynamicCastToGenerated<v1::PortionReply>(item.head.get())) {
    workers_[index].held = portion->portion().id();
  }
}

void SimulatedJob::Do(const Outbox::IoItem& item) {
  const google::protobuf::Message* const head = item.head.get();
  Outbox::Head result;
  if (DynamicCastToGenerated<v1::ReadLog>(head) != nullptr) {
    result = std::make_unique<v1::ReadLogResult>();
  } else if (DynamicCastToGenerated<v1::FindCheckpoint>(head) != nullptr) {
    result = std::make_unique<v1::FindCheckpointResult>();
  } else {
    CHECK(
        DynamicCastToGenerated<v1::AppendLog>(head) != nullptr,
        absl::StrCat("the storage of a scaled job does ", head->GetTypeName()));
  }
  const auto shared = std::make_shared<Outbox::Head>(std::move(result));
  After(kLogWrite,
        [this, io = item.io, shared] { Completed(io, std::move(*shared)); });
}

void SimulatedJob::Completed(IoId io, Outbox::Head head) {
  IoResult result;
  result.io = io;
  result.head = std::move(head);
  Enter([&](Outbox* out) { core_->Completed(std::move(result), now_, out); });
}

// ---- a ps -------------------------------------------------------------------

void SimulatedJob::Lose(uint32_t task, absl::Duration back_after) {
  CHECK(!awaited_, "one server is lost at a time");
  for (const uint32_t peer : {2 * task, 2 * task + 1}) {
    if (IsPrimary(peer)) lost_ = places_[peer].server;
    places_[peer].member.Clear();
    places_[peer].known.Clear();
    const CallId watch = std::exchange(places_[peer].watch, 0);
    if (watch == 0) continue;
    After(kLatency, [this, peer, watch] { Fail(peer, watch); });
  }
  tasks_[task].incarnation = 0;
  awaited_ = true;
  version_ = 0;
  lost_at_ = now_;
  before_ = work_;
  After(back_after,
        [this, task] { tasks_[task].incarnation = next_incarnation_++; });
}

bool SimulatedJob::IsPrimary(uint32_t peer) const {
  const Task& task = tasks_[peer / 2];
  const v1::ServerMember& member = places_[peer].member;
  return task.incarnation != 0 && member.has_peer() && member.peer() == peer &&
         member.incarnation() == task.incarnation;
}

void SimulatedJob::Answer(uint32_t peer, CallId call,
                          google::protobuf::Message* reply) {
  if (IncarnationAt(peer) == 0) {
    After(kLatency, [this, peer, call] { Fail(peer, call); });
    return;
  }
  std::shared_ptr<google::protobuf::Message> kept(reply->New());
  kept->CopyFrom(*reply);
  After(kLatency, [this, peer, call, kept] {
    Deliver(PeerId::Ps(peer), call, /*is_reply=*/true, *kept);
    const auto* told = DynamicCastToGenerated<v1::ConfigureReply>(kept.get());
    if (told == nullptr || !told->restored()) return;
    const uint32_t server = places_[peer].server;
    if (IsPrimary(peer)) {
      Acknowledge(told->configuration().counter(), &acknowledged_[server]);
    }
  });
}

// A backup has everything as soon as its server knows of it.
void SimulatedJob::OnConfigure(uint32_t peer, CallId call,
                               const v1::ConfigurationVersion& version) {
  Place& place = places_[peer];
  v1::ConfigureReply reply;
  reply.set_incarnation(IncarnationAt(peer));
  reply.set_takes_changes(true);
  const v1::ServerMember& member = place.member;
  const bool is_backup = member.backup().peer() == peer &&
                         member.backup().incarnation() == reply.incarnation();
  if (IsPrimary(peer) || is_backup) {
    *reply.mutable_configuration() = version;
    place.known = version;
  }
  if (IsPrimary(peer)) {
    reply.set_restored(true);
    reply.set_processor_us(1000);
    if (member.has_backup()) {
      *reply.mutable_backup()->mutable_since() = member.backup().since();
      reply.mutable_backup()->set_whole(true);
    }
    if (awaited_ && version_ == 0 && place.server == lost_) {
      BeginToCount(version.counter());
    }
  }
  Answer(peer, call, &reply);
}

void SimulatedJob::OnWatch(uint32_t peer, CallId call, absl::Duration wait) {
  const uint64_t incarnation = IncarnationAt(peer);
  v1::WatchReply reply;
  reply.set_incarnation(incarnation);
  if (incarnation == 0 || wait == absl::ZeroDuration()) {
    return Answer(peer, call, &reply);
  }
  places_[peer].watch = call;
  After(wait, [this, peer, call, reply]() mutable {
    if (places_[peer].watch != call) return;  // Its process has ended.
    places_[peer].watch = 0;
    Answer(peer, call, &reply);
  });
}

// ---- a worker ---------------------------------------------------------------

void SimulatedJob::Join(uint32_t index) {
  v1::JoinRequest request;
  request.mutable_task()->set_type(v1::WORKER);
  request.mutable_task()->set_index(index);
  request.set_incarnation(next_incarnation_++);
  request.set_host(absl::StrCat("node-", index / 8, ".cluster"));
  request.set_pid(1000 + index);
  request.set_job_digest("0123456789abcdef");
  Deliver(PeerId::Worker(index), next_call_++ * workers_.size() + index,
          /*is_reply=*/false, request);
}

void SimulatedJob::OnJoined(uint32_t index, const v1::JoinReply& reply) {
  ++joined_;
  v1::Header* const header = workers_[index].beat.mutable_header();
  header->set_worker(index);
  *header->mutable_generation() = reply.generation();
  *header->mutable_configuration() = reply.configuration().version();
  header->set_term(reply.configuration().version().term());
  workers_[index].beat.set_takes_changes(true);
  Beat(index);
  // Not all in one moment.
  After(kPortionEvery * (static_cast<double>(index) / workers_.size()),
        [this, index] { TakePortion(index); });
}

void SimulatedJob::OnNews(uint32_t index, const v1::HeartbeatReply& reply) {
  v1::HeartbeatRequest& beat = workers_[index].beat;
  if (reply.has_configuration()) {
    *beat.mutable_header()->mutable_configuration() =
        reply.configuration().version();
  }
  beat.set_state(reply.state());
  Beat(index);
}

void SimulatedJob::Beat(uint32_t index) {
  Worker& worker = workers_[index];
  worker.beat.set_number(worker.beat.number() + 1);
  After(kLatency, [this, index, beat = worker.beat] {
    Deliver(PeerId::Worker(index), next_call_++ * workers_.size() + index,
            /*is_reply=*/false, beat);
    Acknowledge(beat.header().configuration().counter(),
                &workers_[index].acknowledged);
  });
}

void SimulatedJob::TakePortion(uint32_t index) {
  Worker& worker = workers_[index];
  v1::Header* const header = worker.beat.mutable_header();
  if (worker.held != 0) {
    header->set_sequence(header->sequence() + kPortionBatches);
    worker.beat.mutable_stats()->set_pushes(header->sequence());
  }
  v1::PortionRequest request;
  *request.mutable_header() = *header;
  request.set_number(++worker.portion);
  request.set_finished_id(worker.held);
  Deliver(PeerId::Worker(index), next_call_++ * workers_.size() + index,
          /*is_reply=*/false, request);
  After(PortionEvery(index), [this, index] { TakePortion(index); });
}

// ---- a take-over ------------------------------------------------------------

void SimulatedJob::BeginToCount(uint64_t version) {
  version_ = version;
  unaware_ = 0;
  for (const Worker& worker : workers_) {
    unaware_ += worker.acknowledged < version;
  }
  for (const uint64_t acknowledged : acknowledged_) {
    unaware_ += acknowledged < version;
  }
}

void SimulatedJob::Acknowledge(uint64_t version, uint64_t* acknowledged) {
  const uint64_t before = std::exchange(*acknowledged, version);
  if (!awaited_ || version_ == 0 || before >= version_ || version < version_) {
    return;
  }
  if (--unaware_ > 0) return;
  awaited_ = false;
  seen_.push_back({now_ - lost_at_, work_ - before_});
}

}  // namespace paramd
