#include "tests/sim/step_witness.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "base/status_macros.h"
#include "config/consistency.h"
#include "proto/paramd/v1/compute.pb.h"
#include "proto/refusal.h"
#include "tests/sim/answered_blocks.h"

namespace paramd {

template <typename... Parts>
void StepWitness::Wrong(const Parts&... parts) {
  fail_(absl::DataLossError(absl::StrCat(parts...)));
}

void StepWitness::Sent(const SimProcess& self, PeerId to, const Head& request) {
  if (const auto* decide = dynamic_cast<const v1::DecideRequest*>(&request)) {
    if (decide->step() > 0) CheckDecision(to, *decide);
  } else if (const auto* push =
                 dynamic_cast<const v1::PushRequest*>(&request)) {
    ++report_.pushes;
    if (push->step() > 0 && push->examples() == 0) {
      report_.probes.Hit("sync: an empty share");
    }
  } else if (const auto* configure =
                 dynamic_cast<const v1::ConfigureRequest*>(&request)) {
    if (self.peer == PeerId::Coordinator()) {
      const v1::Contributors& told = configure->configuration().contributors();
      contributors_[VersionName(told.version())] = told;
      CheckMode(configure->configuration());
    }
  } else if (const auto* beat =
                 dynamic_cast<const v1::HeartbeatRequest*>(&request)) {
    CheckEvaluation(self, *beat);
  }
}

void StepWitness::Started(const SimProcess& self, const Head& work) {
  if (dynamic_cast<const v1::EvaluateWeights*>(&work) != nullptr) {
    evaluates_[self] = session_[self];
  }
}

void StepWitness::CheckEvaluation(const SimProcess& self,
                                  const v1::HeartbeatRequest& beat) {
  const v1::SessionId& session = beat.header().generation();
  session_[self] = session;
  if (beat.evaluation().epoch() == 0 || evaluates_[self] == session) return;
  Wrong("generation ", VersionName(session), " of ", PeerName(self.peer),
        " reports an evaluation of weights of generation ",
        VersionName(evaluates_[self]));
}

// The newest step of the contributors before them is told again with theirs.
void StepWitness::NoteDecision(const v1::DecideRequest& decide) {
  const auto told = contributors_.find(VersionName(decide.contributors()));
  if (told == contributors_.end() || decide.workers().empty() ||
      decide.step() < told->second.first_step()) {
    return;
  }
  Decided& known = steps_[decide.step()][decide.contributors().term()];
  if (known.contributors > decide.contributors()) return;
  known = {decide.contributors(),
           {{told->second.workers().begin(), told->second.workers().end()},
            {decide.workers().begin(), decide.workers().end()}}};
}

absl::StatusOr<std::vector<DecidedStep>> StepWitness::StepsOf(
    const v1::Manifest& manifest) const {
  std::vector<DecidedStep> steps(manifest.global_step());
  uint64_t term = manifest.snapshot().term();
  for (uint64_t s = steps.size(); s > 0; --s) {
    const auto decided = steps_.find(s);
    if (decided == steps_.end()) {
      return absl::DataLossError(absl::StrCat("step ", s, " was not decided"));
    }
    while (term > 0 && !decided->second.contains(term)) {
      term = TermBefore(term, s);
    }
    const auto of_term = decided->second.find(term);
    if (of_term == decided->second.end()) {
      return absl::DataLossError(absl::StrCat(
          "step ", s, " was decided by none that the checkpoint goes back to"));
    }
    steps[s - 1] = of_term->second.step;
  }
  return steps;
}

absl::Status StepWitness::CheckBits(const IntegerJob& job,
                                    const v1::Manifest& manifest) const {
  ASSIGN_OR_RETURN(const std::vector<DecidedStep> steps, StepsOf(manifest));
  SequentialSteps sequential(job);
  for (const DecidedStep& step : steps) sequential.Apply(step);
  const BatchPlace next = {manifest.input().next_epoch(),
                           manifest.input().next_offset()};
  if (next != sequential.next()) {
    return absl::DataLossError(
        absl::StrCat("its input begins at epoch ", next.epoch, ", ", next.begin,
                     "; what its ", steps.size(), " steps leave at epoch ",
                     sequential.next().epoch, ", ", sequential.next().begin));
  }
  for (size_t v = 0; v < job.variables().size(); ++v) {
    for (const std::string& name : sequential.names(v)) {
      ASSIGN_OR_RETURN(
          const std::vector<float> numbers,
          storage_.ReadVariable(manifest, job.variables()[v].name(), name));
      // As bytes: a zero has a sign.
      const std::vector<float> wanted = sequential.Numbers(v, name);
      if (numbers.size() != wanted.size() ||
          std::memcmp(numbers.data(), wanted.data(),
                      numbers.size() * sizeof(float)) != 0) {
        return absl::DataLossError(
            absl::StrCat("'", job.variables()[v].name(), "' ", name,
                         " has other bits than in one process"));
      }
    }
  }
  return absl::OkStatus();
}

uint64_t StepWitness::TermBefore(uint64_t term, uint64_t step) const {
  uint64_t before = 0;
  for (const v1::Manifest& manifest : storage_.committed()) {
    const uint64_t other = manifest.snapshot().term();
    if (manifest.global_step() == step && other < term) {
      before = std::max(before, other);
    }
  }
  return before;
}

void StepWitness::CheckDecision(PeerId to, const v1::DecideRequest& decide) {
  NoteDecision(decide);
  const auto key =
      std::make_pair(VersionName(decide.contributors()), decide.step());
  std::string what = absl::StrCat(absl::StrJoin(decide.workers(), ","), " of ",
                                  decide.examples(), " examples");
  for (const v1::PruningThreshold& threshold : decide.thresholds()) {
    absl::StrAppend(&what, ", zero below ", threshold.magnitude());
    report_.probes.Hit("sync: one threshold for all servers");
  }
  for (const v1::PrunedChannels& pruned : decide.channels()) {
    absl::StrAppend(&what, ", zero of variable ", pruned.variable(), ": ",
                    absl::StrJoin(pruned.channels(), ","));
  }
  const auto [known, added] = decided_.try_emplace(key, what);
  if (known->second == what || decide.workers().empty()) return;
  Wrong("step ", decide.step(), " is of workers ", what, " for ", PeerName(to),
        ", of ", known->second, " for others");
}

void StepWitness::CheckMode(const v1::Configuration& configuration) {
  for (; log_read_ < storage_.log().size(); ++log_read_) {
    const v1::Configuration& logged = storage_.log()[log_read_].configuration();
    logged_modes_.emplace(logged.version().term(),
                          StalenessText(logged.consistency()));
  }
  const std::string mode = StalenessText(configuration.consistency());
  if (logged_modes_.contains({configuration.version().term(), mode})) return;
  Wrong("configuration ", VersionName(configuration.version()),
        " has staleness ", mode, ", which is not in the log");
}

void StepWitness::Answered(const SimProcess& self, PeerId /*from*/,
                           const Head& request, const BufferChain& /*payload*/,
                           const Outbox::ReplyItem& reply) {
  if (const auto* push = dynamic_cast<const v1::PushRequest*>(&request)) {
    const auto* pushed = dynamic_cast<const v1::PushReply*>(reply.head.get());
    pushed == nullptr ? CountRefusal(reply.status)
                      : CheckPush(self, *push, *pushed);
  } else if (const auto* pull =
                 dynamic_cast<const v1::PullRequest*>(&request)) {
    const auto* pulled = dynamic_cast<const v1::PullReply*>(reply.head.get());
    if (pulled != nullptr) CheckPull(self, *pull, *pulled);
  } else if (const auto* beat =
                 dynamic_cast<const v1::HeartbeatRequest*>(&request)) {
    const auto* news =
        dynamic_cast<const v1::HeartbeatReply*>(reply.head.get());
    if (news != nullptr && news->left_out_step() > beat->left_out_step()) {
      report_.probes.Hit("sync: a worker hears that it is left out");
    }
  } else if (const auto* decided =
                 dynamic_cast<const v1::DecideReply*>(reply.head.get())) {
    uint64_t& applied =
        applied_[{self.peer, VersionName(decided->contributors())}];
    applied = std::max(applied, decided->step());
  }
}

void StepWitness::CheckPull(const SimProcess& self, const v1::PullRequest& pull,
                            const v1::PullReply& reply) {
  for (const v1::PulledBlock& block : reply.blocks()) {
    if (block.has_nonzero()) report_.probes.Hit("sync: a block comes packed");
  }
  if (reply.step() >= pull.after_step()) return;
  Wrong(PeerName(self.peer), " answers a pull after step ", pull.after_step(),
        " with step ", reply.step());
}

void StepWitness::CheckPush(const SimProcess& self, const v1::PushRequest& push,
                            const v1::PushReply& reply) {
  bool held = false;
  bool repeated = false;
  for (const AnsweredBlock& block : AnsweredBlocks(push, reply)) {
    const bool is_applied = block.result == v1::PushedBlock::APPLIED;
    held |= block.result == v1::PushedBlock::HELD;
    repeated |= !is_applied && block.result != v1::PushedBlock::HELD;
    if (is_applied && push.step() > 0) {
      return Wrong(PeerName(self.peer), " applies what was pushed to step ",
                   push.step(), " by itself");
    }
  }
  if (held && push.step() == 0) {
    return Wrong(PeerName(self.peer), " keeps a push that is of no step");
  }
  const auto applied =
      applied_.find({self.peer, VersionName(push.contributors())});
  if (held && applied != applied_.end() && push.step() <= applied->second) {
    return Wrong(PeerName(self.peer), " keeps a contribution of worker-",
                 push.header().worker(), " to step ", push.step(),
                 ", and has applied step ", applied->second);
  }
  if (push.step() > 0 && repeated) {
    report_.probes.Hit("sync: a share comes again when its step is in");
  } else if (!repeated) {
    ++report_.chunks_applied;
  }
}

void StepWitness::CountRefusal(const absl::Status& status) {
  switch (RefusalOf(status).reason()) {
    case v1::Refusal::LATE:
      return report_.probes.Hit("sync: a share is late");
    case v1::Refusal::NOT_READY:
      return report_.probes.Hit("sync: a share comes too early or too late");
    default:
      return;
  }
}

}  // namespace paramd
