#include "process/terminal/progress.h"

#include <utility>

#include "absl/strings/str_cat.h"

#include "base/clock.h"

namespace paramd {

Progress::Progress(ClusterView view, Console* console, Runtime* runtime,
                   absl::Duration period)
    : view_(std::move(view)),
      console_(console),
      runtime_(runtime),
      period_(period),
      thread_([this] { Loop(); }) {}

Progress::~Progress() {
  {
    MutexLock lock(&mutex_);
    stopped_ = true;
    changed_.NotifyAll();
  }
  thread_.join();
}

void Progress::Loop() {
  MutexLock lock(&mutex_);
  while (!stopped_) {
    changed_.WaitFor(&mutex_, period_);
    if (!stopped_) runtime_->Post([this] { Draw(); });
  }
}

void Progress::Draw() {
  const ProcessReport report = {runtime_->Status(), ""};
  FillView({report}, {report}, &view_);
  view_.left = remaining_.Take(view_.epochs_done, view_.epochs, MonotonicNow());
  console_->Print(absl::StrCat(RenderLine(view_), "\n"));
}

}  // namespace paramd
