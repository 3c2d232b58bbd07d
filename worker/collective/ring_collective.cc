#include "worker/collective/ring_collective.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/status_macros.h"

namespace paramd {
namespace {

// Between looks whether the ring has formed.
constexpr absl::Duration kLook = absl::Milliseconds(2);

// What a member says to all.
struct Word {
  enum Kind : uint64_t {
    kReady,    // It has an end; the end has formed.
    kWaits,    // Its end has not formed so far.
    kHasNone,  // Nothing is missing that could be had.
    kCannot,   // `why` says why not.
  };
  uint64_t kind = kReady;
  DeviceRing::Id id = {};  // Of the first member, that has an end.
  char engine[32] = {};    // Of its end.
  char why[208] = {};      // With its name, cut where it is longer.
};
static_assert(std::is_trivially_copyable_v<Word> &&
                  sizeof(Word) % sizeof(double) == 0,
              "words go where numbers go");

// Text of a member, in a place that may be too small or larger.
template <size_t kSize>
void SetText(absl::string_view text, char (&place)[kSize]) {
  std::memcpy(place, text.data(), std::min(text.size(), kSize));
}
template <size_t kSize>
absl::string_view TextOf(const char (&place)[kSize]) {
  return {place, strnlen(place, kSize)};
}

}  // namespace

struct RingCollectives::State {
  State(Options options_in, OpenRing open_in)
      : options(std::move(options_in)), open(std::move(open_in)) {}

  // An end, or why there is none.
  absl::StatusOr<std::unique_ptr<DeviceRing>> Open() const {
    RETURN_IF_ERROR(broken);
    return open();
  }
  // OK: devices sum.
  void Say(size_t members, absl::string_view engine, const absl::Status& why) {
    if (has_said && said == why) return;
    has_said = true;
    said = why;
    if (why.ok()) {
      Log(LogLevel::kInfo, "workers' devices sum their gradients",
          {{"workers", members}, {"by", engine}});
    } else if (!absl::IsUnimplemented(why)) {
      Log(LogLevel::kWarning,
          "gradients of workers are summed in host memory, not by their "
          "devices",
          {{"why", why.message()}});
    }
  }

  const Options options;
  const OpenRing open;
  absl::Status broken;  // Why no ring is tried any more.
  bool has_said = false;
  absl::Status said;
};

class RingCollective : public LinkedCollective {
 public:
  using State = RingCollectives::State;

  RingCollective(std::unique_ptr<LinkedCollective> links,
                 std::shared_ptr<State> state)
      : linked_(std::move(links)), state_(std::move(state)) {}

  size_t rank() const override { return linked_->rank(); }
  size_t size() const override { return linked_->size(); }
  const std::vector<std::string>& links() const override {
    return linked_->links();
  }
  std::shared_ptr<DeviceRing> ring() const override
      ABSL_LOCKS_EXCLUDED(mutex_) {
    const MutexLock lock(&mutex_);
    return ring_;
  }

  absl::Status Connect(
      const std::vector<std::vector<std::string>>& links) override {
    RETURN_IF_ERROR(linked_->Connect(links));
    if (size() == 1) return absl::OkStatus();
    return Say(Agree());
  }

  absl::Status Sum(absl::Span<float> values) override {
    const std::shared_ptr<DeviceRing> ring = this->ring();
    return Say(ring == nullptr ? linked_->Sum(values) : ring->Sum(values));
  }

  absl::Status Gather(absl::Span<const double> own,
                      absl::Span<double> all) override {
    const std::shared_ptr<DeviceRing> ring = this->ring();
    absl::Status status = ring == nullptr ? absl::OkStatus() : ring->status();
    if (status.ok()) status = linked_->Gather(own, all);
    return Say(status);
  }

  void Abort() override ABSL_LOCKS_EXCLUDED(mutex_) {
    linked_->Abort();
    const MutexLock lock(&mutex_);
    aborted_ = true;
    if (ring_ != nullptr) {
      ring_->Abort(absl::UnavailableError("it has been ended"));
    }
  }

 private:
  // Once one has failed all do.
  absl::Status Say(absl::Status status) {
    if (!status.ok()) Abort();
    return status;
  }

  void SetRing(std::shared_ptr<DeviceRing> ring) ABSL_LOCKS_EXCLUDED(mutex_) {
    const MutexLock lock(&mutex_);
    std::swap(ring_, ring);
    if (aborted_ && ring_ != nullptr) {
      ring_->Abort(absl::UnavailableError("it has been ended"));
    }
  }

  Word MakeWord(const absl::Status& why) const {
    Word word;
    word.kind = absl::IsUnimplemented(why) ? Word::kHasNone : Word::kCannot;
    // What broke a ring has a name already.
    const std::string text =
        why == state_->broken
            ? std::string(why.message())
            : absl::StrCat(state_->options.name, ": ", why.message());
    SetText(text, word.why);
    return word;
  }

  absl::StatusOr<std::vector<Word>> Exchange(const Word& own) {
    std::vector<double> said(sizeof(Word) / sizeof(double));
    std::vector<double> heard(said.size() * size());
    std::memcpy(said.data(), &own, sizeof(Word));
    RETURN_IF_ERROR(linked_->Gather(said, absl::MakeSpan(heard)));
    std::vector<Word> words(size());
    for (size_t r = 0; r < size(); ++r) {
      std::memcpy(static_cast<void*>(&words[r]), &heard[r * said.size()],
                  sizeof(Word));
    }
    return words;
  }

  // OK if all are ready; the first one's reason why not.
  static absl::Status Judge(const std::vector<Word>& words) {
    absl::Status why;
    for (const Word& word : words) {
      if (word.kind == Word::kCannot) {
        return absl::FailedPreconditionError(TextOf(word.why));
      }
      if (word.kind == Word::kHasNone) why = absl::UnimplementedError("");
    }
    return why;
  }

  static absl::Status CheckEngines(const std::vector<Word>& words) {
    const absl::string_view first = TextOf(words.front().engine);
    for (const Word& word : words) {
      const absl::string_view other = TextOf(word.engine);
      if (other == first) continue;
      return absl::FailedPreconditionError(
          absl::StrCat("one worker has ", first, ", another ", other,
                       ": give all the same version"));
    }
    return absl::OkStatus();
  }

  // Whether devices sum, which is the same for all. An error: a member is gone.
  absl::Status Agree() {
    auto opened = state_->Open();
    Word own;
    if (opened.ok()) SetText((*opened)->engine(), own.engine);
    if (opened.ok() && rank() == 0) {
      const auto id = (*opened)->MakeId();
      if (id.ok()) own.id = *id;
      if (!id.ok()) opened = id.status();
    }
    if (!opened.ok()) own = MakeWord(opened.status());
    ASSIGN_OR_RETURN(const std::vector<Word> words, Exchange(own));
    absl::Status why = Judge(words);
    if (why.ok()) why = CheckEngines(words);
    if (why.ok()) {
      SetRing(*std::move(opened));
      RETURN_IF_ERROR(Form(words.front().id, &why));
      state_->broken = why;
      if (!why.ok()) SetRing(nullptr);
    }
    state_->Say(size(), TextOf(own.engine), why);
    return absl::OkStatus();
  }

  // Members go step by step, so that one's error or patience is all others',
  // too.
  // `*why` becomes OK, or why the ring can't form though all members are there.
  absl::Status Form(const DeviceRing::Id& id, absl::Status* why) {
    const std::shared_ptr<DeviceRing> ring = this->ring();
    ring->Begin(id, rank(), size());
    const Time begun = MonotonicNow();
    bool all = false;
    while (!all && why->ok()) {
      ASSIGN_OR_RETURN(const std::vector<Word> words,
                       Exchange(HowItForms(ring.get(), begun)));
      *why = Judge(words);
      all = std::all_of(words.begin(), words.end(), [](const Word& word) {
        return word.kind == Word::kReady;
      });
      if (!all && why->ok()) absl::SleepFor(kLook);
    }
    // Or a member is lost, and that was why.
    return all ? absl::OkStatus() : Exchange(Word()).status();
  }

  Word HowItForms(DeviceRing* ring, Time begun) const {
    const absl::StatusOr<bool> formed = ring->HasFormed();
    if (!formed.ok()) return MakeWord(formed.status());
    if (*formed) return Word();
    if (MonotonicNow() - begun < state_->options.patience) {
      return Word{.kind = Word::kWaits};
    }
    return MakeWord(absl::DeadlineExceededError(
        absl::StrCat("NCCL did not connect the workers within ",
                     absl::FormatDuration(state_->options.patience),
                     "; NCCL_DEBUG=INFO in the environment has it say more")));
  }

  const std::unique_ptr<LinkedCollective> linked_;
  const std::shared_ptr<State> state_;
  mutable Mutex mutex_;
  std::shared_ptr<DeviceRing> ring_ ABSL_GUARDED_BY(mutex_);
  bool aborted_ ABSL_GUARDED_BY(mutex_) = false;
};

RingCollectives::RingCollectives(Options options, MakeLinked links,
                                 OpenRing open)
    : links_(std::move(links)),
      state_(std::make_shared<State>(std::move(options), std::move(open))) {}

RingCollectives::~RingCollectives() = default;

absl::StatusOr<std::unique_ptr<LinkedCollective>> RingCollectives::Make(
    size_t rank, size_t size) {
  ASSIGN_OR_RETURN(auto made, links_(rank, size));
  return std::unique_ptr<LinkedCollective>(
      std::make_unique<RingCollective>(std::move(made), state_));
}

}  // namespace paramd
