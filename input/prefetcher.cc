#include "input/prefetcher.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"

#include "base/check.h"
#include "base/clock.h"
#include "base/status_macros.h"

namespace paramd {
namespace {

// A window of the tuner lasts until both are reached.
constexpr uint64_t kWindowWorks = 4;  // Of each thread.
constexpr absl::Duration kWindow = absl::Milliseconds(100);
// Parts of a batch, at least: work that is waited for is soon shared.
constexpr uint32_t kParts = 8;

std::string RangeText(const Portion& range) {
  return absl::StrCat("examples [", range.begin, ", ", range.end, ") of epoch ",
                      range.epoch);
}

uint64_t ExampleBytes(const InputSpec& spec) {
  uint64_t bytes = 0;
  for (const FeatureSpec& feature : spec.features) {
    bytes += feature.size() * SizeOf(feature.dtype);
  }
  return std::max<uint64_t>(1, bytes);
}

// A batch lies there twice: as examples, and assembled. What teachers say of it
// is there once.
uint32_t DepthWithin(const Pipeline& pipeline,
                     const Prefetcher::Options& options) {
  const uint64_t wanted =
      options.depth > 0 ? options.depth : pipeline.prefetch();
  uint64_t example = 2 * ExampleBytes(pipeline.spec());
  for (const auto& taught : pipeline.taught()) {
    example += taught->spec().size() * sizeof(float);
  }
  const uint64_t batch = options.batch_size * example;
  return static_cast<uint32_t>(std::clamp<uint64_t>(
      options.memory_bytes / batch, 1, std::max<uint64_t>(1, wanted)));
}

uint32_t MostThreads(const Pipeline& pipeline,
                     const Prefetcher::Options& options) {
  if (options.threads > 0) return options.threads;
  // What a thread has under way beside the batches.
  const uint64_t example = 4 * ExampleBytes(pipeline.spec());
  return static_cast<uint32_t>(
      std::clamp<uint64_t>(options.memory_bytes / example, 1,
                           std::max<uint32_t>(1, options.most_threads)));
}

}  // namespace

struct Prefetcher::Slot {
  Portion range;
  std::vector<Example> examples;
  std::unique_ptr<Batch> batch;
  uint64_t taken = 0;  // Examples that threads have begun with.
  uint64_t read = 0;
  bool done = false;
  absl::Status status;     // Of the first example that failed,
  uint64_t failed_at = 0;  // which is this.
};

Prefetcher::Prefetcher(const Pipeline& pipeline, Options options)
    : pipeline_(pipeline),
      options_(std::move(options)),
      depth_(DepthWithin(pipeline, options_)),
      queue_(options_.batch_size, options_.max_portions),
      tuner_(MostThreads(pipeline, options_)),
      window_{.begin = MonotonicNow()} {
  MutexLock lock(&mutex_);
  slots_.reserve(depth_);
  spares_.reserve(depth_ + 1);
  spare_batches_.reserve(depth_ + 1);
  figures_.depth = depth_;
  figures_.threads = options_.threads > 0 ? options_.threads : 1;
  SpawnLocked();
}

Prefetcher::~Prefetcher() {
  std::vector<std::thread> threads;
  {
    MutexLock lock(&mutex_);
    stop_ = true;
    threads.swap(threads_);
  }
  work_.NotifyAll();
  parked_.NotifyAll();
  for (std::thread& thread : threads) thread.join();
}

absl::Status Prefetcher::Add(const Portion& portion) {
  RETURN_IF_ERROR(pipeline_.Check(portion));
  MutexLock lock(&mutex_);
  RETURN_IF_ERROR(queue_.Add(portion));
  examples_ahead_ += portion.size();
  work_.NotifyAll();
  return absl::OkStatus();
}

void Prefetcher::NoMore() {
  MutexLock lock(&mutex_);
  queue_.NoMore();
  work_.NotifyAll();
  ready_changed_.NotifyAll();
}

absl::StatusOr<Prefetcher::NextBatch> Prefetcher::Next() {
  MutexLock lock(&mutex_);
  ASSIGN_OR_RETURN(NextBatch next, TakeLocked());
  awaited_ = next.state == NextBatch::kNotYet;
  if (awaited_) ++window_.waits;
  if (awaited_) ++figures_.waits;
  return next;
}

absl::StatusOr<Prefetcher::NextBatch> Prefetcher::WaitForNext(
    absl::Duration timeout) {
  const Time begin = MonotonicNow();
  MutexLock lock(&mutex_);
  if (!first_wait_.has_value()) first_wait_ = begin;
  Time now = begin;
  for (bool first = true;; first = false) {
    ASSIGN_OR_RETURN(NextBatch next, TakeLocked());
    if (next.state != NextBatch::kNotYet) return next;
    if (first) ++window_.waits;
    if (first) ++figures_.waits;
    const absl::Duration left = begin + timeout - now;
    if (left <= absl::ZeroDuration()) {
      return absl::DeadlineExceededError(
          absl::StrCat("no batch came within ", absl::FormatDuration(timeout),
                       ": the prefetch thread is ", ActivityLocked()));
    }
    waiting_ = true;
    ready_changed_.WaitFor(&mutex_, left);
    waiting_ = false;
    const Time before = std::exchange(now, MonotonicNow());
    figures_.waited += now - before;
  }
}

const Batch* Prefetcher::Peek(size_t ahead) const {
  MutexLock lock(&mutex_);
  if (ahead >= slots_.size()) return nullptr;
  const Slot& slot = *slots_[ahead];
  return slot.done && slot.status.ok() ? slot.batch.get() : nullptr;
}

void Prefetcher::Recycle(std::unique_ptr<Batch> batch) {
  MutexLock lock(&mutex_);
  if (spare_batches_.size() <= depth_) {
    spare_batches_.push_back(std::move(batch));
  }
}

uint64_t Prefetcher::examples_ahead() const {
  MutexLock lock(&mutex_);
  return examples_ahead_;
}

std::string Prefetcher::activity() const {
  MutexLock lock(&mutex_);
  return ActivityLocked();
}

Prefetcher::Figures Prefetcher::figures() const {
  MutexLock lock(&mutex_);
  Figures figures = figures_;
  figures.ready_now = ReadyLocked();
  if (first_wait_.has_value()) figures.elapsed = MonotonicNow() - *first_wait_;
  return figures;
}

void Prefetcher::Run(uint32_t thread) {
  Time since = MonotonicNow();
  const auto lap = [&since] {
    const Time begin = std::exchange(since, MonotonicNow());
    return since - begin;
  };
  for (;;) {
    Work work;
    bool call = false;
    {
      MutexLock lock(&mutex_);
      for (;;) {
        if (stop_) return;
        call = awaited_ && options_.on_ready != nullptr &&
               (FrontIsDoneLocked() || EndedLocked());
        if (call) break;
        // The tuner took this one's work away: it hears of no work.
        if (thread >= figures_.threads) {
          parked_.Wait(&mutex_);
          since = MonotonicNow();
          continue;
        }
        work = TakeWorkLocked();
        if (work.slot != nullptr) break;
        work_.Wait(&mutex_);
        figures_.idle += lap();
      }
      if (call) awaited_ = false;
    }
    if (call) {
      options_.on_ready();
      continue;
    }
    Do(work);
    const absl::Duration busy = lap();
    MutexLock lock(&mutex_);
    figures_.busy += busy;
  }
}

// Examples of the oldest batch first: it is wanted first.
Prefetcher::Work Prefetcher::TakeWorkLocked() {
  Slot* open = nullptr;
  for (const std::unique_ptr<Slot>& slot : slots_) {
    if (slot->taken < slot->range.size()) open = slot.get();
    if (open != nullptr) break;
  }
  if (open == nullptr) open = OpenSlotLocked();
  if (open == nullptr) return {};
  const uint64_t size = open->range.size();
  const uint64_t share = pipeline_.takes_whole_batches()
                             ? size
                             : size / std::max(kParts, figures_.threads);
  Work work;
  work.slot = open;
  work.begin = open->taken;
  work.end = std::min(size, work.begin + std::max<uint64_t>(1, share));
  open->taken = work.end;
  return work;
}

Prefetcher::Slot* Prefetcher::OpenSlotLocked() {
  if (FailedLocked() || slots_.size() >= depth_ || queue_.examples() == 0) {
    return nullptr;
  }
  std::unique_ptr<Slot> slot;
  if (spares_.empty()) {
    slot = std::make_unique<Slot>();
  } else {
    slot = std::move(spares_.back());
    spares_.pop_back();
  }
  if (spare_batches_.empty()) {
    slot->batch = std::make_unique<Batch>();
  } else {
    slot->batch = std::move(spare_batches_.back());
    spare_batches_.pop_back();
  }
  slot->range = *queue_.Take();
  if (slot->examples.size() < slot->range.size()) {
    slot->examples.resize(slot->range.size());
  }
  slot->taken = 0;
  slot->read = 0;
  slot->done = false;
  slots_.push_back(std::move(slot));
  // There may be examples for others.
  if (figures_.threads > 1) work_.NotifyAll();
  return slots_.back().get();
}

void Prefetcher::Do(const Work& work) {
  Slot& slot = *work.slot;
  absl::Status status;
  uint64_t at = work.begin;
  for (; status.ok() && at < work.end; ++at) {
    status = pipeline_.ReadExample(slot.range.epoch, slot.range.begin + at,
                                   &slot.examples[at]);
  }
  bool last = false;
  {
    MutexLock lock(&mutex_);
    if (!status.ok() && (slot.status.ok() || at < slot.failed_at)) {
      slot.status = status;
      slot.failed_at = at;
    }
    slot.read += work.end - work.begin;
    last = slot.read == slot.range.size();
    ++window_.works;
    window_.examples += work.end - work.begin;
    if (options_.threads == 0) TuneLocked();
  }
  if (!last) return;
  if (slot.status.ok()) {
    status = pipeline_.Finish(
        slot.range, absl::MakeSpan(slot.examples.data(), slot.range.size()),
        slot.batch.get());
    if (status.ok() && options_.on_made) options_.on_made(*slot.batch);
  }
  MutexLock lock(&mutex_);
  slot.status.Update(status);
  slot.done = true;
  ++window_.batches;
  ready_changed_.NotifyAll();
  if (awaited_) work_.NotifyAll();
}

bool Prefetcher::FrontIsDoneLocked() const {
  return !slots_.empty() && slots_.front()->done;
}

bool Prefetcher::FailedLocked() const {
  return std::any_of(slots_.begin(), slots_.end(), [](const auto& slot) {
    return slot->done && !slot->status.ok();
  });
}

uint64_t Prefetcher::ReadyLocked() const {
  return static_cast<uint64_t>(
      std::count_if(slots_.begin(), slots_.end(),
                    [](const auto& slot) { return slot->done; }));
}

bool Prefetcher::EndedLocked() const {
  return queue_.ended() && slots_.empty();
}

absl::StatusOr<Prefetcher::NextBatch> Prefetcher::TakeLocked() {
  NextBatch next;
  if (!FrontIsDoneLocked()) {
    next.state = EndedLocked() ? NextBatch::kEnd : NextBatch::kNotYet;
    return next;
  }
  RETURN_IF_ERROR(slots_.front()->status);
  ++figures_.batches;
  figures_.batches_ready += ReadyLocked();
  std::unique_ptr<Slot> slot = std::move(slots_.front());
  slots_.erase(slots_.begin());
  next.state = NextBatch::kBatch;
  next.batch = std::move(slot->batch);
  examples_ahead_ -= slot->range.size();
  if (spares_.size() <= depth_) spares_.push_back(std::move(slot));
  work_.NotifyAll();
  return next;
}

std::string Prefetcher::ActivityLocked() const {
  if (FailedLocked()) return "stopped by an error";
  for (const std::unique_ptr<Slot>& slot : slots_) {
    if (!slot->done) {
      return absl::StrCat("assembling ", RangeText(slot->range));
    }
  }
  if (queue_.ended()) return "at the end of the input";
  if (queue_.examples() == 0) return "waiting for a portion of the input";
  if (slots_.size() >= depth_) {
    return absl::StrCat("waiting for one of ", slots_.size(),
                        " finished batches to be taken");
  }
  return "about to start";
}

void Prefetcher::TuneLocked() {
  const Time now = MonotonicNow();
  const absl::Duration time = now - window_.begin;
  if (window_.works < kWindowWorks * figures_.threads || time < kWindow) return;
  // Every eighth batch: more often than by chance.
  const bool waited =
      8 * window_.waits >= std::max<uint64_t>(1, window_.batches);
  tuner_.Observe(
      static_cast<double>(window_.examples) / absl::ToDoubleSeconds(time),
      waited);
  figures_.threads = tuner_.threads();
  SpawnLocked();
  window_ = {.begin = now};
  if (waiting_ || awaited_) window_.waits = 1;
}

void Prefetcher::SpawnLocked() {
  if (stop_) return;
  while (threads_.size() < figures_.threads) {
    const auto number = static_cast<uint32_t>(threads_.size());
    try {
      threads_.emplace_back([this, number] { Run(number); });
    } catch (const std::system_error&) {
      if (threads_.empty()) throw;
      // The system has no more of them: those that are there go on.
      figures_.threads = number;
    }
  }
  parked_.NotifyAll();
}

}  // namespace paramd
