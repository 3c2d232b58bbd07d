#include "worker/core/computation.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"

#include "base/check.h"
#include "proto/paramd/v1/compute.pb.h"

namespace paramd {

namespace {

// Steps of large models take a few seconds; one that never ends is to be named.
constexpr absl::Duration kLongComputation = absl::Seconds(30);

}  // namespace

void Computation::Begin(const v1::ComputeGradient& compute, Time now) {
  UnderWay& begun = under_way_.emplace_back();
  begun.since = now;
  begun.examples.set_epoch(compute.epoch());
  begun.examples.set_begin(compute.begin());
  begun.examples.set_end(compute.end());
}

bool Computation::IsResult(const IoResult& result) const {
  return std::any_of(
      under_way_.begin(), under_way_.end(),
      [&](const UnderWay& begun) { return begun.io == result.io; });
}

void Computation::End(IoId io) {
  for (auto begun = under_way_.begin(); begun != under_way_.end(); ++begun) {
    if (begun->io != io) continue;
    under_way_.erase(begun);
    return;
  }
}

std::string Computation::overdue(Time now) const {
  if (!busy() || now - under_way_.front().since < kLongComputation) return "";
  const v1::Portion& examples = under_way_.front().examples;
  return absl::StrCat("its own gradient of examples [", examples.begin(), ", ",
                      examples.end(), ") of epoch ", examples.epoch());
}

void Computation::Collect(const v1::ComputeGradient& compute,
                          WorkerTurn* turn) {
  CHECK(!busy(), "one gradient is computed at a time");
  Begin(compute, turn->now);
  auto collect = std::make_unique<v1::CollectRows>();
  *collect->mutable_compute() = compute;
  under_way_.back().io = turn->StartIo(std::move(collect));
}

void Computation::Start(std::unique_ptr<v1::ComputeGradient> compute,
                        BufferChain weights, size_t copy, bool by_layers,
                        WorkerTurn* turn) {
  CHECK(!busy() || !(by_layers || by_layers_),
        "one gradient at a time leaves by layers");
  Begin(*compute, turn->now);
  copy_ = copy;
  by_layers_ = by_layers;
  under_way_.back().io = turn->StartIo(std::move(compute), std::move(weights));
  AskForMore(turn);
}

void Computation::Abandon(WorkerTurn* turn) {
  if (!busy()) return;
  turn->StartIo(std::make_unique<v1::AbandonGradient>());
}

void Computation::AskForMore(WorkerTurn* turn) {
  if (take_io_ != 0 || !by_layers_) return;
  taken_from_ = io();
  auto take = std::make_unique<v1::TakeGradients>();
  take->set_computation(taken_from_);
  take_io_ = turn->StartIo(std::move(take));
}

bool Computation::TakePart(WorkerTurn* turn) {
  take_io_ = 0;
  if (!busy()) return false;
  if (taken_from_ == io()) return true;
  AskForMore(turn);  // That was of the one before.
  return false;
}

}  // namespace paramd
