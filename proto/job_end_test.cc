#include "proto/job_end.h"

#include <string>

#include "gtest/gtest.h"

#include "proto/refusal.h"
#include "proto/stopped_job.h"

namespace paramd {
namespace {

TEST(JobEndTest, WhatMayPassOrIsOfOneProcessAloneEndsNoJob) {
  EXPECT_FALSE(EndsTheJob(absl::OkStatus()));
  EXPECT_FALSE(EndsTheJob(absl::UnavailableError("storage")));
  EXPECT_FALSE(EndsTheJob(absl::AbortedError("replaced")));
  EXPECT_FALSE(EndsTheJob(absl::DeadlineExceededError("not started")));
  EXPECT_FALSE(EndsTheJob(absl::CancelledError("stopped by SIGTERM")));
  EXPECT_FALSE(EndsTheJob(absl::AlreadyExistsError("another chief")));
  EXPECT_TRUE(EndsTheJob(absl::FailedPreconditionError("the loss is nan")));
  EXPECT_TRUE(EndsTheJob(absl::InvalidArgumentError("another run's")));
}

TEST(JobEndTest, WhoIsToldEndsWithTheSameSentence) {
  const absl::Status failed = absl::OutOfRangeError("label 7 of 3 classes");
  const absl::Status told = EndFor(ToFinished(failed));
  EXPECT_FALSE(told.ok());
  EXPECT_EQ(told.message(), failed.message());
  const absl::Status refused =
      EndFor(RefuseFinished("worker-1", ToFinished(failed)));
  EXPECT_EQ(refused.code(), told.code());
  EXPECT_EQ(refused.message(), failed.message());
}

TEST(JobEndTest, AJobThatAnOperatorStoppedIsNeitherFailedNorFinished) {
  const absl::Status stopped = StoppedJob("stopped at step 7");
  EXPECT_TRUE(EndsTheJob(stopped));
  const v1::Finished finished = ToFinished(stopped);
  EXPECT_EQ(finished.exit_code(), 0);
  EXPECT_TRUE(finished.stopped());
  for (const absl::Status& told :
       {EndFor(finished), EndFor(RefuseFinished("job", finished))}) {
    EXPECT_TRUE(IsStoppedJob(told)) << told;
    EXPECT_EQ(told.message(), "stopped at step 7");
  }
  EXPECT_FALSE(IsStoppedJob(absl::CancelledError("stopped by SIGTERM")));
  EXPECT_FALSE(IsStoppedJob(absl::OkStatus()));
  EXPECT_FALSE(ToFinished(absl::OkStatus()).stopped());
}

TEST(JobEndTest, WhoIsToldNoReasonSaysSo) {
  v1::Finished finished;
  finished.set_exit_code(1);
  EXPECT_EQ(EndFor(finished).message(), "the job has ended; nobody said why");
  EXPECT_EQ(RefuseFinished("ps-0", finished).message(),
            "the job has ended; nobody said why");
}

TEST(JobEndTest, AGoodEndIsOne) {
  EXPECT_TRUE(EndFor(ToFinished(absl::OkStatus())).ok());
  const absl::Status refusal = RefuseFinished("job", v1::Finished());
  EXPECT_EQ(RefusalOf(refusal).reason(), v1::Refusal::JOB_FINISHED);
  EXPECT_EQ(refusal.message(), "the job is finished");
  EXPECT_TRUE(EndFor(refusal).ok());
}

}  // namespace
}  // namespace paramd
