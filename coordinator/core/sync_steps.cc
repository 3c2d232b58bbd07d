#include "coordinator/core/sync_steps.h"

#include <algorithm>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"

#include "config/channel_norms.h"
#include "config/magnitudes.h"
#include "proto/member_name.h"
#include "proto/refusal.h"

namespace paramd {

SyncSteps::SyncSteps(const Options& options)
    : options_(options),
      input_(v1::SavedInput(), options.examples, options.epochs),
      servers_(options.servers) {}

void SyncSteps::Restore(uint64_t step, const v1::SavedInput& input) {
  input_ = InputCursor(input, options_.examples, options_.epochs);
  step_ = step;
  decided_.clear();
  decided_examples_ = 0;
  thresholds_.clear();
  channels_.clear();
  left_out_.clear();
  contributors_.Clear();
  servers_.assign(
      servers_.size(),
      {.applied = step, .complete = {}, .magnitudes = {}, .channels = {}});
}

v1::Contributors SyncSteps::Propose(
    const std::vector<uint32_t>& workers,
    const v1::ContributorsVersion& version) const {
  v1::Contributors proposed;
  *proposed.mutable_version() = version;
  proposed.set_first_step(step_ + 1);
  proposed.mutable_workers()->Assign(workers.begin(), workers.end());
  *proposed.mutable_input() = input_.left();
  return proposed;
}

void SyncSteps::SetContributors(const v1::Contributors& contributors,
                                Time now) {
  contributors_ = contributors;
  decided_at_ = now;
  for (Server& server : servers_) server.complete.clear();
}

bool SyncSteps::settled() const {
  return absl::c_all_of(servers_,
                        [this](const Server& s) { return s.applied == step_; });
}

std::vector<uint32_t> SyncSteps::CompleteEverywhere() const {
  std::vector<uint32_t> complete;
  for (const uint32_t worker : contributors_.workers()) {
    const bool everywhere =
        absl::c_all_of(servers_, [worker](const Server& server) {
          return absl::c_count(server.complete, worker) > 0;
        });
    if (everywhere) complete.push_back(worker);
  }
  return complete;
}

// A short step leaves the last contributors without any.
bool SyncSteps::HaveExamples(const std::vector<uint32_t>& workers) const {
  const uint64_t examples = input_.Next(StepExamples()).size();
  const auto& order = contributors_.workers();
  return absl::c_any_of(workers, [&](uint32_t worker) {
    const uint64_t rank = absl::c_find(order, worker) - order.begin();
    return rank * options_.batch < examples;
  });
}

absl::optional<float> SyncSteps::ThresholdOf(uint32_t pruning) const {
  absl::optional<Magnitudes> all;
  double share = 0;
  for (const Server& server : servers_) {
    for (const v1::MagnitudeCounts& counts : server.magnitudes) {
      if (counts.pruning() != pruning) continue;
      if (!all.has_value()) all.emplace();
      if (!all->AddCounts(counts)) return absl::nullopt;
      share = std::max(share, counts.share());
    }
  }
  if (!all.has_value()) return absl::nullopt;
  return all->ThresholdFor(std::min(share, 1.0));
}

std::vector<v1::PruningThreshold> SyncSteps::FindThresholds() const {
  std::vector<v1::PruningThreshold> thresholds;
  for (uint32_t p = 0; p < options_.pruning; ++p) {
    const absl::optional<float> magnitude = ThresholdOf(p);
    if (!magnitude.has_value()) continue;
    v1::PruningThreshold& threshold = thresholds.emplace_back();
    threshold.set_pruning(p);
    threshold.set_magnitude(*magnitude);
  }
  return thresholds;
}

std::vector<v1::PrunedChannels> SyncSteps::FindChannels() const {
  std::map<uint32_t, std::vector<const v1::ChannelSizes*>> said;
  for (const Server& server : servers_) {
    for (const v1::ChannelSizes& sizes : server.channels) {
      said[sizes.variable()].push_back(&sizes);
    }
  }
  std::vector<v1::PrunedChannels> pruned;
  for (const auto& [variable, parts] : said) {
    ChannelNorms all(static_cast<size_t>(parts.front()->squares_size()));
    double share = 0;
    const bool fits = absl::c_all_of(parts, [&](const auto* sizes) {
      share = std::max(share, sizes->share());
      return all.AddSizes(*sizes);
    });
    if (!fits) continue;
    const std::vector<uint32_t> smallest = all.Smallest(std::min(share, 1.0));
    if (smallest.empty()) continue;
    v1::PrunedChannels& of_layer = pruned.emplace_back();
    of_layer.set_variable(variable);
    of_layer.mutable_channels()->Assign(smallest.begin(), smallest.end());
  }
  return pruned;
}

bool SyncSteps::Decide(Time now) {
  if (!settled() || finished() || contributors_.workers().empty()) return false;
  std::vector<uint32_t> complete = CompleteEverywhere();
  const size_t contributors = contributors_.workers_size();
  const size_t backup = options_.backup_workers;
  const size_t needed = contributors > backup ? contributors - backup : 1;
  if (complete.size() < needed || !HaveExamples(complete)) return false;
  decided_ = std::move(complete);
  decided_examples_ = input_.Next(StepExamples()).size();
  thresholds_ = FindThresholds();
  channels_ = FindChannels();
  decided_at_ = now;
  ++step_;
  input_.Advance(StepExamples());
  for (const uint32_t worker : contributors_.workers()) {
    if (absl::c_count(decided_, worker) == 0) left_out_[worker] = step_;
  }
  for (Server& server : servers_) {
    server.complete.clear();
    server.magnitudes.clear();
    server.channels.clear();
  }
  return true;
}

uint64_t SyncSteps::LeftOutStep(uint32_t worker) const {
  const auto found = left_out_.find(worker);
  return found == left_out_.end() ? 0 : found->second;
}

v1::DecideRequest SyncSteps::RequestFor(uint32_t server) const {
  v1::DecideRequest request;
  *request.mutable_contributors() = contributors_.version();
  request.set_step(step_);
  request.mutable_workers()->Assign(decided_.begin(), decided_.end());
  request.set_examples(decided_examples_);
  for (const v1::PruningThreshold& threshold : thresholds_) {
    *request.add_thresholds() = threshold;
  }
  for (const v1::PrunedChannels& pruned : channels_) {
    *request.add_channels() = pruned;
  }
  const std::vector<uint32_t>& complete = servers_[server].complete;
  request.mutable_known_complete()->Assign(complete.begin(), complete.end());
  return request;
}

void SyncSteps::Answered(uint32_t server, const v1::DecideReply& reply) {
  if (reply.contributors() != contributors_.version() || reply.step() > step_ ||
      reply.step() < servers_[server].applied) {
    return;
  }
  servers_[server].applied = reply.step();
  // Of another step: it says nothing.
  servers_[server].complete.clear();
  servers_[server].magnitudes.clear();
  servers_[server].channels.clear();
  if (reply.step() == step_) {
    servers_[server].complete.assign(reply.complete().begin(),
                                     reply.complete().end());
    servers_[server].magnitudes.assign(reply.magnitudes().begin(),
                                       reply.magnitudes().end());
    servers_[server].channels.assign(reply.channels().begin(),
                                     reply.channels().end());
  }
}

bool SyncSteps::MustAsk(uint32_t server) const {
  if (servers_[server].applied != step_) return true;
  return !finished() && servers_[server].complete.size() <
                            static_cast<size_t>(contributors_.workers_size());
}

std::string SyncSteps::waiting_for(
    const std::map<uint32_t, v1::SessionId>& sessions,
    const std::vector<v1::ServerLife>& lives) const {
  for (size_t s = 0; s < servers_.size(); ++s) {
    if (servers_[s].applied == step_) continue;
    const v1::ServerLife life = s < lives.size() ? lives[s] : v1::ServerLife();
    return absl::StrCat(ServerName(s, life), " to apply step ", step_);
  }
  const absl::optional<uint32_t> worker = missing();
  if (!worker.has_value()) return "";
  const auto session = sessions.find(*worker);
  return absl::StrCat(
      WorkerName(*worker,
                 session == sessions.end() ? v1::SessionId() : session->second),
      " to contribute to step ", step_ + 1);
}

absl::optional<uint32_t> SyncSteps::missing() const {
  if (!settled() || finished()) return absl::nullopt;
  const std::vector<uint32_t> complete = CompleteEverywhere();
  for (const uint32_t worker : contributors_.workers()) {
    if (absl::c_count(complete, worker) == 0) return worker;
  }
  return absl::nullopt;
}

}  // namespace paramd
