#include "worker/collective/round_exchange.h"

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "base/clock.h"
#include "compute/device/testing/emulated_accelerator.h"
#include "worker/collective/gloo_collective.h"
#include "worker/collective/ring_collective.h"
#include "worker/rendezvous/rendezvous.h"

namespace paramd {
namespace {

using ::testing::ElementsAre;

constexpr size_t kElements = 5;

// Numbers whose sum depends on the order of adding.
float Term(uint32_t share, size_t i) {
  return static_cast<float>((share + 1) * (i + 3)) * 1e7f / 3 - 1.7f * share;
}

float SumOf(uint32_t shares, size_t i) {
  float sum = Term(0, i);
  for (uint32_t s = 1; s < shares; ++s) sum += Term(s, i);
  return sum;
}

// With and without devices that sum by rings, which add in the order of ranks.
class RoundExchangeTest : public ::testing::TestWithParam<bool> {
 protected:
  void Begin(uint32_t workers, Rendezvous::Options options = {}) {
    workers_ = workers;
    options.workers = workers;
    rendezvous_ = std::make_unique<Rendezvous>(options);
  }

  // A worker's process: its exchange, and a thread that beats.
  class Process {
   public:
    Process(RoundExchangeTest* test, uint32_t worker) : test_(test) {
      rings_ = std::make_unique<RingCollectives>(
          RingCollectives::Options{},
          [](size_t rank, size_t size) {
            return MakeGlooCollective("127.0.0.1", rank, size);
          },
          []() -> absl::StatusOr<std::unique_ptr<DeviceRing>> {
            if (GetParam()) return EmulatedAccelerator({}).OpenRing();
            return absl::UnimplementedError("a processor");
          });
      link_ = std::make_unique<RoundLink>(worker, ++test->incarnations_,
                                          [this](size_t rank, size_t size) {
                                            return rings_->Make(rank, size);
                                          });
      RoundExchange::Options options;
      options.shares = test->workers_;
      options.bucket_bytes = 8;
      options.check_every_steps = 2;
      options.checksum = [test] { return test->checksum_.load(); };
      exchange_ = std::make_unique<RoundExchange>(options, link_.get());
      beating_ = std::thread([this] { Beat(); });
    }
    ~Process() {
      stopping_ = true;
      link_->Fail(absl::CancelledError("it ends"));
      beating_.join();
    }
    RoundLink* link() { return link_.get(); }

    // All that is to be done for a step, until it is made or can't be.
    absl::Status Step(uint64_t number) {
      v1::ComputeGradient step;
      step.set_epoch(1);
      step.set_begin(number);
      std::vector<float> values(kElements);
      std::vector<absl::Span<float>> spans = {
          absl::MakeSpan(values).subspan(0, 2),
          absl::MakeSpan(values).subspan(2)};
      absl::Status ended;
      do {
        ended = Make(step, absl::MakeSpan(spans));
        again_ += absl::IsUnavailable(ended);
      } while (absl::IsUnavailable(ended));
      for (size_t i = 0; ended.ok() && i < kElements; ++i) {
        EXPECT_EQ(values[i], SumOf(test_->workers_, i));
      }
      return ended;
    }
    int again() const { return again_; }
    int by_devices() const { return by_devices_; }
    const std::vector<double>& figures() const { return figures_; }

   private:
    absl::Status Make(const v1::ComputeGradient& step,
                      absl::Span<absl::Span<float>> gradients) {
      absl::optional<std::vector<uint32_t>> shares =
          exchange_->Begin(step, gradients);
      absl::Status ended;
      for (; shares.has_value() && ended.ok();
           shares = ended.ok() ? exchange_->NextPass() : absl::nullopt) {
        const std::shared_ptr<DeviceRing> ring = exchange_->ring();
        if (ring != nullptr) exchange_->GradientsAreSums();
        by_devices_ += ring != nullptr;
        // Element i of all is element i - 2 of the second variable.
        for (size_t v = 2; v-- > 0;) {
          for (size_t i = 0; i < gradients[v].size(); ++i) {
            gradients[v][i] =
                shares->empty() ? -0.0f : Term(shares->front(), 2 * v + i);
          }
          // As a device, which does not know that a sum is none.
          if (ring != nullptr) ring->Sum(gradients[v]).IgnoreError();
          exchange_->Ready(v);
        }
        figures_ = {shares->empty() ? -1.0
                                    : static_cast<double>(shares->front())};
        ended = exchange_->End(&figures_);
      }
      return ended;
    }

    void Beat() {
      while (!stopping_) {
        const v1::BeatRequest said = link_->Say();
        absl::StatusOr<v1::BeatReply> reply;
        {
          const MutexLock lock(&test_->mutex_);
          reply = test_->rendezvous_->Beat(said, MonotonicNow());
        }
        ASSERT_TRUE(reply.ok()) << reply.status();
        link_->Hear(*reply);
        link_->AwaitNews(absl::Milliseconds(1));
      }
    }

    RoundExchangeTest* const test_;
    std::unique_ptr<RingCollectives> rings_;
    std::unique_ptr<RoundLink> link_;
    std::unique_ptr<RoundExchange> exchange_;
    std::atomic<bool> stopping_{false};
    std::vector<double> figures_;
    int again_ = 0;
    int by_devices_ = 0;  // Steps, and passes.
    std::thread beating_;
  };

  uint32_t workers_ = 1;
  std::atomic<uint64_t> incarnations_{0};
  std::atomic<uint32_t> checksum_{7};
  Mutex mutex_;
  std::unique_ptr<Rendezvous> rendezvous_;
};

TEST_P(RoundExchangeTest, AllGetTheSumInTheOrderOfShares) {
  Begin(3);
  std::vector<std::thread> threads;
  for (uint32_t w = 0; w < 3; ++w) {
    threads.emplace_back([this, w] {
      Process process(this, w);
      for (uint64_t step = 0; step < 9; ++step) {
        EXPECT_TRUE(process.Step(step).ok());
        EXPECT_THAT(process.figures(), ElementsAre(0, 1, 2));
      }
      EXPECT_GE(process.by_devices(), GetParam() ? 9 : 0);
      if (w == 0) {
        const MutexLock lock(&mutex_);
        rendezvous_->Finish();
      }
      EXPECT_TRUE(process.link()->AwaitEnd().ok());
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_P(RoundExchangeTest, AStepIsMadeAgainWhenALostWorkerIsBack) {
  Begin(2);
  std::thread lost([this] {
    {
      Process first(this, 1);
      EXPECT_TRUE(first.Step(0).ok());
    }
    Process second(this, 1);
    const auto content = second.link()->AwaitContent();
    ASSERT_TRUE(content.ok());
    EXPECT_FALSE(content->is_own);
    EXPECT_EQ(content->source, 0u);
    EXPECT_TRUE(second.Step(1).ok());
    EXPECT_TRUE(second.link()->AwaitEnd().ok());
  });
  Process stays(this, 0);
  EXPECT_TRUE(stays.Step(0).ok());
  EXPECT_TRUE(stays.Step(1).ok());
  EXPECT_LE(stays.again(), 2);
  {
    const MutexLock lock(&mutex_);
    rendezvous_->Finish();
  }
  lost.join();
}

TEST_P(RoundExchangeTest, FewerWorkersComputeTheSharesOfTheLostOneInOrder) {
  Begin(3, {.patience = absl::Seconds(1), .fewest = 2});
  std::vector<std::thread> threads;
  for (const uint32_t w : {0, 2}) {
    threads.emplace_back([this, w] {
      Process process(this, w);
      for (uint64_t step = 0; step < 5; ++step) {
        EXPECT_TRUE(process.Step(step).ok());
        EXPECT_THAT(process.figures(), ElementsAre(0, 1, 2, -1));
      }
      EXPECT_EQ(process.by_devices(), 0);
      if (w == 0) {
        const MutexLock lock(&mutex_);
        rendezvous_->Finish();
      }
      EXPECT_TRUE(process.link()->AwaitEnd().ok());
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_P(RoundExchangeTest, WithoutEnoughWorkersTheStepFails) {
  Begin(2, {.patience = absl::Milliseconds(50)});
  Process alone(this, 0);
  const absl::Status ended = alone.Step(0);
  EXPECT_EQ(ended.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(ended.message()),
              ::testing::HasSubstr("worker-1 did not come within 50ms"));
}

TEST_P(RoundExchangeTest, WhoSumsWithOneThatIsSilentEndsWhenTheWaitIsTooLong) {
  Begin(2);
  v1::BeatReply too_long;
  too_long.set_gave_up("the chief did not come back");
  absl::optional<Process> silent;
  silent.emplace(this, 1);
  Process waits(this, 0);
  std::thread joins([&] {
    v1::StepPosition first;
    first.set_epoch(1);
    EXPECT_TRUE(silent->link()->Join(first).ok());
    waits.link()->Hear(too_long);
  });
  EXPECT_EQ(waits.Step(0), absl::DeadlineExceededError(too_long.gave_up()));
  joins.join();
}

TEST_P(RoundExchangeTest, WhoWaitsSaysForWhomAndMayBeInterrupted) {
  Begin(2);
  Process alone(this, 0);
  std::thread other([&] {
    while (alone.link()->missing().empty()) std::this_thread::yield();
    EXPECT_EQ(alone.link()->missing()[0].worker(), 1u);
    alone.link()->Interrupt();
  });
  EXPECT_TRUE(absl::IsCancelled(alone.Step(0)));
  other.join();
}

INSTANTIATE_TEST_SUITE_P(All, RoundExchangeTest, ::testing::Bool());

}  // namespace
}  // namespace paramd
