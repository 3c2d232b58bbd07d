#include "server/core/step_gradients.h"

#include <algorithm>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "base/check.h"
#include "base/status_macros.h"
#include "config/wire_format.h"
#include "proto/member_name.h"
#include "proto/refusal.h"
#include "tensor/number_reader.h"

namespace paramd {
namespace {

constexpr size_t kMostNames = 3;

}  // namespace

StepGradients::StepGradients(const Options& options, ShardContent* content)
    : options_(options), content_(*content), spare_(content->spare()) {
  for (Slice* const slice : content_.owned()) {
    first_block_[slice] = blocks_.size();
    for (int b = 0; b < slice->block_count(); ++b) {
      BlockState& state = blocks_.emplace_back();
      state.slice = slice;
      state.block = b;
      if (slice->sparse()) {
        // Contributions are of the rows that are used, however many it has.
        state.sum.SetRows(slice->row_elements(), slice->row_id_bytes());
        continue;
      }
      const uint64_t bytes = slice->block_elements(b) * sizeof(float);
      const uint64_t sum_bytes = SpareBuffers::BudgetBytes(bytes);
      shard_bytes_ += bytes;
      shard_sum_bytes_ += sum_bytes;
      largest_sum_bytes_ = std::max(largest_sum_bytes_, sum_bytes);
    }
  }
}

// ---- who contributes --------------------------------------------------------

absl::Status StepGradients::CheckFits(int workers,
                                      uint32_t backup_workers) const {
  const uint64_t needed = shard_bytes_ * workers;
  if (backup_workers == 0 || needed <= options_.park_bytes) {
    return absl::OkStatus();
  }
  return Invalid("sync_park_bytes",
                 absl::StrCat("a step of ", workers, " workers has ", needed,
                              " bytes of gradients here; sync_park_bytes is ",
                              options_.park_bytes));
}

void StepGradients::Begin(const v1::Contributors& contributors,
                          uint32_t backup_workers) {
  Drop();
  contributors_ = contributors.version();
  workers_.assign(contributors.workers().begin(), contributors.workers().end());
  backup_workers_ = backup_workers;
}

void StepGradients::NoteSessions(const v1::Configuration& configuration) {
  sessions_.clear();
  for (const v1::WorkerMember& member : configuration.workers()) {
    sessions_[member.index()] = member.generation();
  }
}

absl::Status StepGradients::CheckContributor(uint32_t worker) const {
  if (absl::c_linear_search(workers_, worker)) return absl::OkStatus();
  return Invalid(
      WorkerName(worker),
      absl::StrCat(WorkerName(worker), " is not one of the ", workers_.size(),
                   " contributors ", VersionName(contributors_)));
}

std::string StepGradients::WaitingFor(uint64_t step) const {
  const std::vector<uint32_t> complete = Complete();
  std::vector<std::string> names;
  for (const uint32_t worker : workers_) {
    if (absl::c_linear_search(complete, worker)) continue;
    if (names.size() == kMostNames) {
      names.push_back("others");
      break;
    }
    const auto session = sessions_.find(worker);
    names.push_back(session == sessions_.end()
                        ? WorkerName(worker)
                        : WorkerName(worker, session->second));
  }
  if (names.empty()) {
    return absl::StrCat("the coordinator to decide step ", step);
  }
  return absl::StrCat(absl::StrJoin(names, ", "), " to contribute to step ",
                      step);
}

// ---- what they contribute ---------------------------------------------------

absl::Status StepGradients::Add(const v1::PushRequest& request,
                                const std::vector<PushDecision>& decisions,
                                const BufferChain& payload,
                                v1::PushReply* reply) {
  ASSIGN_OR_RETURN(Contribution* const contribution, Find(request));
  std::vector<Missing> missing;
  for (const PushDecision& decision : decisions) {
    const size_t index = IndexOf(decision);
    if (contribution->in[index]) continue;
    missing.push_back(
        {index, decision.id_bytes() + decision.elements * sizeof(float)});
  }
  RETURN_IF_ERROR(CheckRoom(*contribution, request.step(), missing));
  RETURN_IF_ERROR(MakeRoom(*contribution, request.step(), missing));
  ChainReader names(payload);
  ChainReader reader(payload);
  reader.Take(IdBytes(decisions));
  const NumberReader numbers(&reader, *FormatOf(request.encoding()));
  for (const PushDecision& decision : decisions) {
    const size_t index = IndexOf(decision);
    BufferChain gradient = names.Take(decision.id_bytes());
    for (Buffer& piece : numbers.Take(decision.elements)) {
      gradient.push_back(std::move(piece));
    }
    decision.Answer(v1::PushedBlock::HELD, reply);
    if (contribution->in[index]) continue;
    parked_bytes_ += ChainSize(gradient);
    contribution->gradient[index] = std::move(gradient);
    contribution->in[index] = true;
    --contribution->missing;
    ++taken_blocks_;
    if (eager()) AddInOrder(index);
  }
  CountKept();
  return absl::OkStatus();
}

absl::StatusOr<StepGradients::Contribution*> StepGradients::Find(
    const v1::PushRequest& request) {
  const v1::Header& header = request.header();
  const auto [it, added] = contributions_.try_emplace(header.worker());
  Contribution& contribution = it->second;
  if (added) {
    contribution.push = {header.worker(), header.generation(),
                         header.sequence()};
    contribution.examples = request.examples();
    contribution.missing = blocks_.size();
    contribution.in.assign(blocks_.size(), false);
    contribution.gradient.resize(blocks_.size());
  } else if (contribution.push.generation != header.generation()) {
    return RefuseForNow(
        v1::Refusal::NOT_READY, "coordinator", options_.retry_after,
        absl::StrCat("contributors ", VersionName(contributors_),
                     " are of another session of ",
                     WorkerName(header.worker())));
  } else if (contribution.push.sequence != header.sequence() ||
             contribution.examples != request.examples()) {
    return Invalid(
        WorkerName(header.worker()),
        absl::StrCat("push ", header.sequence(), " of ", request.examples(),
                     " examples is of step ", request.step(), "; push ",
                     contribution.push.sequence, " of ", contribution.examples,
                     " examples of ", WorkerName(header.worker()),
                     " is here for that"));
  }
  return &contribution;
}

bool StepGradients::IsNext(const BlockState& block, uint32_t worker) const {
  return eager() && block.next < workers_.size() &&
         workers_[block.next] == worker;
}

absl::Status StepGradients::CheckRoom(
    const Contribution& contribution, uint64_t step,
    const std::vector<Missing>& blocks) const {
  if (contribution.examples == 0) return absl::OkStatus();
  uint64_t wanted = 0;
  for (const auto& [index, bytes] : blocks) {
    if (IsNext(blocks_[index], contribution.push.worker)) continue;
    wanted += bytes;
  }
  if (parked_bytes_ + wanted <= options_.park_bytes || wanted == 0) {
    return absl::OkStatus();
  }
  const std::string awaited = WaitingFor(step);
  return RefuseForNow(
      v1::Refusal::RETRY, awaited, options_.retry_after,
      absl::StrCat("no room for ", wanted, " bytes: ", parked_bytes_, " of ",
                   options_.park_bytes, " wait for ", awaited));
}

// What waits must leave room for the sums, or nothing would ever be added.
absl::Status StepGradients::MakeRoom(const Contribution& contribution,
                                     uint64_t step,
                                     const std::vector<Missing>& blocks) {
  if (content_.memory() == nullptr || contribution.examples == 0) {
    return absl::OkStatus();
  }
  uint64_t wanted = 0;
  bool waits = false;
  for (const auto& [index, bytes] : blocks) {
    const BlockState& block = blocks_[index];
    const bool is_next = IsNext(block, contribution.push.worker);
    waits |= !is_next;
    if (block.slice->sparse()) {
      wanted += bytes + block.sum.size();  // The sum has the rows of both.
      continue;
    }
    if (is_next && block.sum.size() > 0 && block.sum.borrowed_bytes() == 0) {
      continue;
    }
    wanted += is_next ? SpareBuffers::BudgetBytes(bytes) : bytes;
  }
  if (wanted == 0) return absl::OkStatus();
  if (waits) {
    wanted += largest_sum_bytes_;
    if (eager()) wanted += shard_sum_bytes_ - summed_bytes_;
  }
  return content_.MakeRoom(absl::StrCat("a gradient of step ", step,
                                        ", which waits for ", WaitingFor(step)),
                           [wanted] { return wanted; });
}

void StepGradients::AddInOrder(size_t index) {
  BlockState& block = blocks_[index];
  for (; block.next < workers_.size(); ++block.next) {
    const auto it = contributions_.find(workers_[block.next]);
    if (it == contributions_.end() || !it->second.in[index]) return;
    BufferChain gradient = std::exchange(it->second.gradient[index], {});
    parked_bytes_ -= ChainSize(gradient);
    AddTo(&block, std::move(gradient));
  }
}

void StepGradients::AddTo(BlockState* block, BufferChain gradient) {
  summed_bytes_ -= BytesOfSum(*block);
  borrowed_bytes_ -= block->sum.borrowed_bytes();
  block->sum.Add(std::move(gradient), &spare_);
  summed_bytes_ += BytesOfSum(*block);
  borrowed_bytes_ += block->sum.borrowed_bytes();
}

void StepGradients::ClearSum(BlockState* block) {
  summed_bytes_ -= BytesOfSum(*block);
  borrowed_bytes_ -= block->sum.borrowed_bytes();
  block->sum.Clear(&spare_);
}

// Of memory that gRPC received: what waits, and sums of one gradient.
void StepGradients::CountKept() {
  if (content_.memory() == nullptr) return;
  content_.memory()->SetKept(parked_bytes_ + borrowed_bytes_);
}

// To a server without blocks nobody pushes anything.
std::vector<uint32_t> StepGradients::Complete() const {
  if (blocks_.empty()) return workers_;
  std::vector<uint32_t> complete;
  for (const uint32_t worker : workers_) {
    const auto it = contributions_.find(worker);
    if (it != contributions_.end() && it->second.missing == 0) {
      complete.push_back(worker);
    }
  }
  return complete;
}

// Its session may have been fenced since it came.
bool StepGradients::IsAdmitted(uint32_t worker) const {
  if (blocks_.empty()) return true;
  const PushId& push = contributions_.at(worker).push;
  return absl::c_all_of(first_block_, [&](const auto& slice) {
    const auto admission = slice.first->applied().Admit(push, 0);
    return admission.ok() && *admission == AppliedPushes::Admission::kApply;
  });
}

uint64_t StepGradients::ExamplesOf(const std::vector<uint32_t>& workers) const {
  uint64_t examples = 0;
  if (blocks_.empty()) return examples;
  for (const uint32_t worker : workers) {
    examples += contributions_.at(worker).examples;
  }
  return examples;
}

// ---- what becomes of them ---------------------------------------------------

size_t StepGradients::ElementsOf(size_t index) const {
  const BlockState& block = blocks_[index];
  return block.slice->sparse() ? block.sum.size() / sizeof(float)
                               : block.slice->block_elements(block.block);
}

absl::Status StepGradients::Apply(size_t index,
                                  const std::vector<uint32_t>& workers,
                                  float scale, uint64_t step) {
  BlockState& block = blocks_[index];
  RETURN_IF_ERROR(content_.MakeRoom(
      absl::StrCat("step ", step), [&] { return BytesToApply(block, scale); }));
  for (const uint32_t worker : workers) {
    AddTo(&block, std::exchange(contributions_.at(worker).gradient[index], {}));
  }
  if (scale != 1) block.sum.Scale(scale, &spare_);
  ChainReader reader(block.sum.chain());
  // A step of no rows counts, as a push of none does.
  if (block.slice->sparse() ? ExamplesOf(workers) > 0 : !block.sum.empty()) {
    content_.pushes().ApplySum(block.slice, block.block, block.sum.rows(),
                               &reader);
  }
  for (const uint32_t worker : workers) {
    const PushId& push = contributions_.at(worker).push;
    const auto admission = block.slice->applied().Admit(push, block.block);
    CHECK(admission.ok() && *admission == AppliedPushes::Admission::kApply,
          "sessions change only when the decided step is applied");
    block.slice->applied().MarkApplied(push, block.block);
  }
  ClearSum(&block);
  CountKept();
  return absl::OkStatus();
}

// At most: of what others read of the block, and of a sum of several.
uint64_t StepGradients::BytesToApply(const BlockState& block,
                                     float scale) const {
  const uint64_t read = block.slice->block(block.block).read_bytes();
  if (eager() && scale == 1) return read;
  if (!block.slice->sparse()) {
    return read + SpareBuffers::BudgetBytes(
                      block.slice->block_elements(block.block) * sizeof(float));
  }
  // Each sum is made beside the one before it.
  uint64_t bytes = block.sum.size();
  const size_t index = &block - blocks_.data();
  for (const auto& [worker, contribution] : contributions_) {
    bytes += ChainSize(contribution.gradient[index]);
  }
  return read + 2 * bytes;
}

void StepGradients::Drop() {
  contributions_.clear();
  parked_bytes_ = 0;
  for (BlockState& block : blocks_) {
    block.sum.Clear(&spare_);
    block.next = 0;
  }
  summed_bytes_ = borrowed_bytes_ = 0;
  CountKept();
}

size_t StepGradients::IndexOf(const PushDecision& decision) const {
  return first_block_.at(decision.slice) + decision.block;
}

}  // namespace paramd
