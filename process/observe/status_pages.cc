#include "process/observe/status_pages.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "process/observe/balance_text.h"
#include "process/observe/cluster_report.h"
#include "process/observe/process_row.h"
#include "process/terminal/dashboard.h"
#include "process/terminal/text_layout.h"
#include "proto/refusal.h"

namespace paramd {
namespace {

using Page = v1::StatusPage;

constexpr size_t kMostPoints = 480;
constexpr size_t kMostPointsAtOnce = 160;
constexpr size_t kMostEvents = 50;
constexpr size_t kMostProcesses = 64;
constexpr size_t kMostSlices = 10;
// Who waits for less than this is at work.
constexpr uint64_t kShortWaitMs = 2000;
constexpr uint64_t kLongWaitMs = 30000;

double UnixSeconds(absl::Time wall) {
  return std::round(10 * absl::ToDoubleSeconds(wall - absl::UnixEpoch())) / 10;
}

bool IsOver(const v1::ClusterReport& report) {
  return report.job().state() == v1::FINISHED;
}

// Nullptr: the chief was not asked.
const v1::Member* MemberAt(const v1::ClusterReport& report, int i) {
  return report.has_job() ? &report.job().members(i) : nullptr;
}

uint64_t LongestWait(const v1::ProcessAnswer& answer) {
  uint64_t longest = 0;
  for (const v1::Wait& wait : answer.status().waits()) {
    longest = std::max(longest, wait.since_ms());
  }
  return longest;
}

Page::Level LevelOfWait(uint64_t ms) {
  return ms >= kLongWaitMs    ? Page::BAD
         : ms >= kShortWaitMs ? Page::WARNING
                              : Page::GOOD;
}

// A worker that no list names: it comes and goes at will, and may listen
// nowhere.
bool IsJoined(const v1::Member* member) {
  return member != nullptr && member->joined();
}

bool IsMissing(const v1::Member* member, const v1::ProcessAnswer& answer) {
  if (IsJoined(member)) return false;
  return !answer.has_status() ||
         (member != nullptr && (member->state() == v1::Member::LOST ||
                                member->state() == v1::Member::AWAITED));
}

bool IsNearlyFull(const v1::ServerStats& server) {
  return server.memory_limit_bytes() > 0 &&
         10 * server.memory_bytes() > 9 * server.memory_limit_bytes();
}

// With replication: no other process has all that the server has.
bool IsAlone(const v1::Member& member) {
  return member.has_peer() && !member.backup_is_member();
}

Page::Level LevelOf(const v1::Member* member, const v1::ProcessAnswer& answer) {
  if (IsMissing(member, answer)) return Page::BAD;
  const Page::Level of_wait = LevelOfWait(LongestWait(answer));
  if (of_wait == Page::BAD) return Page::BAD;
  const v1::ServerStats& server = answer.status().server();
  const bool is_starting = member != nullptr && !IsJoined(member) &&
                           member->state() == v1::Member::STARTING;
  return is_starting || of_wait == Page::WARNING || server.pushes_lost() > 0 ||
                 IsNearlyFull(server) || (member != nullptr && IsAlone(*member))
             ? Page::WARNING
             : Page::GOOD;
}

Page::Process ProcessOf(const v1::ClusterReport& report, int i) {
  const v1::ProcessAnswer& answer = report.processes(i);
  const v1::Member* const member = MemberAt(report, i);
  const ProcessRow row = RowOf(answer, member);
  Page::Process process;
  process.set_name(row.name);
  process.set_is_server(answer.name().compare(0, 2, "ps") == 0);
  process.set_level(IsOver(report) ? Page::GOOD : LevelOf(member, answer));
  const bool is_away = !answer.has_status() && !IsJoined(member);
  process.set_state(is_away                               ? "no answer"
                    : LongestWait(answer) >= kShortWaitMs ? "waits"
                                                          : row.state);
  process.set_heard(row.heard);
  process.set_generation(row.generation);
  process.set_host(row.host);
  process.set_address(row.address);
  process.set_figures(row.figures);
  const v1::StatusReply& status = answer.status();
  process.set_examples_per_second(status.worker().examples_per_second());
  process.set_memory_bytes(status.server().memory_bytes());
  for (const v1::Wait& wait : answer.status().waits()) {
    process.add_waits(WaitText(answer, wait));
  }
  return process;
}

void FillProcesses(const v1::ClusterReport& report, Page* page) {
  std::vector<std::pair<uint64_t, Page::Process>> rows;
  for (int i = 0; i < report.processes_size(); ++i) {
    rows.emplace_back(LongestWait(report.processes(i)), ProcessOf(report, i));
  }
  std::stable_sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) {
    if (a.second.level() != b.second.level()) {
      return a.second.level() > b.second.level();
    }
    return a.second.level() != Page::GOOD && a.first > b.first;
  });
  const size_t shown = std::min(rows.size(), kMostProcesses);
  page->set_processes_left_out(static_cast<uint32_t>(rows.size() - shown));
  for (size_t i = 0; i < shown; ++i) {
    *page->add_processes() = std::move(rows[i].second);
  }
}

// A backup is named for what its server takes.
void FillSlices(const v1::ClusterReport& report, Page* page) {
  std::vector<Page::Slice> slices;
  for (const v1::ProcessAnswer& answer : report.processes()) {
    const v1::ServerStats& server = answer.status().server();
    if (server.replica() == v1::REPLICA_BACKUP) continue;
    for (const v1::SliceStats& stats : server.hottest_slices()) {
      Page::Slice& slice = slices.emplace_back();
      slice.set_server(answer.name());
      slice.set_name(stats.name());
      slice.set_named_blocks(stats.named_blocks());
    }
  }
  std::stable_sort(slices.begin(), slices.end(),
                   [](const auto& a, const auto& b) {
                     return a.named_blocks() > b.named_blocks();
                   });
  if (slices.size() > kMostSlices) slices.resize(kMostSlices);
  for (Page::Slice& slice : slices) *page->add_slices() = std::move(slice);
}

// Of a server. They count in powers of two: 0, 1, 2 to 3, 4 to 7 and so on.
std::vector<uint64_t> StalenessOf(const v1::ProcessAnswer& answer) {
  const auto& counts = answer.status().server().staleness().histogram();
  return {counts.begin(), counts.end()};
}

// Adds what a server has counted since it had `before`; all, if it began anew:
// then some count is lower.
void AddSince(const std::vector<uint64_t>& now, std::vector<uint64_t> before,
              std::vector<uint64_t>* sum) {
  before.resize(std::max(before.size(), now.size()));
  const bool goes_on =
      before.size() == now.size() &&
      std::equal(before.begin(), before.end(), now.begin(),
                 [](uint64_t was, uint64_t is) { return was <= is; });
  sum->resize(std::max(sum->size(), now.size()));
  for (size_t i = 0; i < now.size(); ++i) {
    (*sum)[i] += now[i] - (goes_on ? before[i] : 0);
  }
}

// What `share` of what was counted is at most; nullopt: nothing was counted.
absl::optional<float> Percentile(const std::vector<uint64_t>& counts,
                                 double share) {
  uint64_t all = 0;
  for (const uint64_t count : counts) all += count;
  uint64_t below = 0;
  for (size_t i = 0; i < counts.size(); ++i) {
    below += counts[i];
    if (all > 0 &&
        static_cast<double>(below) >= share * static_cast<double>(all)) {
      return static_cast<float>(std::exp2(i) - 1);
    }
  }
  return absl::nullopt;
}

double ExamplesPerSecond(const v1::ClusterReport& report) {
  double all = 0;
  for (const v1::ProcessAnswer& answer : report.processes()) {
    all += answer.status().worker().examples_per_second();
  }
  return all;
}

void AddFigure(const char* name, std::string value, std::string note,
               Page::Level level, Page* page) {
  Page::Figure* const figure = page->add_figures();
  figure->set_name(name);
  figure->set_value(std::move(value));
  figure->set_note(std::move(note));
  figure->set_level(level);
}

// What happened to a job between two reports.
std::vector<std::pair<Page::Level, std::string>> ChangesOf(
    const v1::JobStats& was, const v1::JobStats& is) {
  std::vector<std::pair<Page::Level, std::string>> changes;
  if (is.state() != was.state()) {
    changes.emplace_back(
        Page::GOOD,
        absl::StrCat("the job is ",
                     absl::AsciiStrToLower(v1::JobState_Name(is.state()))));
  }
  if (is.checkpoint_path() != was.checkpoint_path()) {
    changes.emplace_back(
        Page::GOOD,
        absl::StrCat("checkpoint: step ", WithCommas(is.checkpoint_step()),
                     ", ", BytesText(is.checkpoint_bytes()), " in ",
                     SecondsText(is.checkpoint_ms() / 1000)));
  }
  if (is.checkpoints_failed() > was.checkpoints_failed()) {
    changes.emplace_back(Page::BAD, absl::StrCat("a checkpoint failed: ",
                                                 is.checkpoint_failure()));
  }
  if (is.pushes_lost() > was.pushes_lost()) {
    changes.emplace_back(
        Page::BAD,
        absl::StrCat(WithCommas(is.pushes_lost() - was.pushes_lost()),
                     " pushes were lost with a server's memory"));
  }
  std::string moved = MovesNews(was.balance(), is.balance());
  if (!moved.empty()) changes.emplace_back(Page::WARNING, std::move(moved));
  const v1::Evaluation& tested = is.evaluation();
  if (tested.examples() > 0 && (tested.epoch() != was.evaluation().epoch() ||
                                tested.final() != was.evaluation().final())) {
    changes.emplace_back(Page::GOOD,
                         absl::StrCat("test ", TestText(tested, " "),
                                      " after epoch ", tested.epoch()));
  }
  if (is.staleness() != was.staleness()) {
    changes.emplace_back(Page::GOOD,
                         absl::StrCat("staleness is ", is.staleness()));
  }
  if (is.learning_rate_scale() != was.learning_rate_scale()) {
    changes.emplace_back(
        Page::GOOD,
        absl::StrCat(
            "learning rates are multiplied by ",
            is.has_learning_rate_scale() ? is.learning_rate_scale() : 1.0));
  }
  return changes;
}

void FillMissing(const v1::ClusterReport& report, Page* page) {
  if (!report.has_job()) {
    AddFigure("processes missing", "–", "the chief would know", Page::BAD,
              page);
    return;
  }
  int missing = 0;
  for (int i = 0; i < report.processes_size(); ++i) {
    missing += IsMissing(MemberAt(report, i), report.processes(i)) ? 1 : 0;
  }
  AddFigure("processes missing", absl::StrCat(missing),
            absl::StrCat("of ", report.processes_size()),
            missing > 0 && !IsOver(report) ? Page::BAD : Page::GOOD, page);
}

// With replication.
void FillBackups(const v1::ClusterReport& report, Page* page) {
  int servers = 0;
  int alone = 0;
  for (const v1::Member& member : report.job().members()) {
    servers += member.has_peer() ? 1 : 0;
    alone += IsAlone(member) ? 1 : 0;
  }
  if (servers == 0) return;
  AddFigure("servers without a whole backup", absl::StrCat(alone),
            absl::StrCat("of ", servers),
            alone > 0 && !IsOver(report) ? Page::WARNING : Page::GOOD, page);
}

void FillMemory(const v1::ClusterReport& report, Page* page) {
  const v1::ProcessAnswer* fullest = nullptr;
  bool is_full = false;
  for (const v1::ProcessAnswer& answer : report.processes()) {
    if (!answer.status().has_server()) continue;
    is_full |= IsNearlyFull(answer.status().server());
    if (fullest == nullptr || answer.status().server().memory_bytes() >
                                  fullest->status().server().memory_bytes()) {
      fullest = &answer;
    }
  }
  if (fullest == nullptr) return;
  const v1::ServerStats& server = fullest->status().server();
  AddFigure("memory of the fullest server", BytesText(server.memory_bytes()),
            server.memory_limit_bytes() == 0
                ? absl::StrCat(fullest->name(), ", no limit")
                : absl::StrCat(fullest->name(), ", limit ",
                               BytesText(server.memory_limit_bytes())),
            is_full ? Page::BAD : Page::GOOD, page);
}

// What is wrong, in a few words; none: `text` is empty.
struct Trouble {
  Page::Level level = Page::GOOD;
  bool is_wait = false;  // Of the coordinator.
  std::string text;
};

// `page` has its processes.
Trouble TroubleOf(const v1::ClusterReport& report, const Page& page) {
  uint64_t waits = 0;
  for (const v1::ProcessAnswer& answer : report.processes()) {
    for (const v1::Wait& wait : answer.status().waits()) {
      if (wait.who() == "coordinator") waits = wait.since_ms();
    }
  }
  Page::Level level = Page::GOOD;
  const Page::Process* bad = nullptr;  // The first of the worst.
  for (const Page::Process& process : page.processes()) {
    level = std::max(level, process.level());
    if (bad == nullptr && process.level() == Page::BAD) bad = &process;
  }
  const v1::JobStats& job = report.job();
  if (!job.waiting_for().empty() && waits >= kShortWaitMs) {
    return {std::max(level, LevelOfWait(waits)), /*is_wait=*/true,
            absl::StrCat("waits for ", job.waiting_for(), ", for ",
                         SecondsText(static_cast<double>(waits) / 1000))};
  }
  if (bad != nullptr) {
    return {level, /*is_wait=*/false,
            bad->waits().empty() ? absl::StrCat(bad->name(), ": ", bad->state())
                                 : bad->waits(0)};
  }
  if (!job.checkpoint_failure().empty()) {
    return {Page::WARNING, /*is_wait=*/false,
            absl::StrCat("the newest checkpoint failed: ",
                         job.checkpoint_failure())};
  }
  return {level, /*is_wait=*/false, ""};
}

}  // namespace

void StatusPages::Add(v1::ClusterReport report, Time now, absl::Time wall) {
  AddPoint(report, wall);
  AddEvents(report, wall);
  loads_.Add(report);
  const v1::JobStats& job = report.job();
  left_ = remaining_.Take(job.epochs_done(), job.epochs(), now);
  taken_ = now;
  report_ = std::move(report);
}

void StatusPages::AddPoint(const v1::ClusterReport& report, absl::Time wall) {
  Page::Point point;
  point.set_number(++newest_point_);
  point.set_unix_seconds(UnixSeconds(wall));
  point.set_examples_per_second(static_cast<float>(ExamplesPerSecond(report)));
  double loss = 0;
  int workers = 0;
  for (const v1::ProcessAnswer& answer : report.processes()) {
    const v1::WorkerStats& worker = answer.status().worker();
    if (worker.examples_per_second() <= 0) continue;
    loss += worker.loss();
    ++workers;
  }
  if (workers > 0 && std::isfinite(loss)) {
    point.set_loss(static_cast<float>(loss / workers));
  }
  for (const v1::ProcessAnswer& answer : report.processes()) {
    if (!answer.status().has_server()) continue;
    point.set_memory_bytes(
        std::max(point.memory_bytes(),
                 static_cast<float>(answer.status().server().memory_bytes())));
  }
  std::vector<uint64_t> counted;
  for (const v1::ProcessAnswer& answer : report.processes()) {
    const bool is_known =
        before_.has_value() && before_->staleness.contains(answer.name());
    AddSince(
        StalenessOf(answer),
        is_known ? before_->staleness[answer.name()] : std::vector<uint64_t>(),
        &counted);
  }
  if (const auto half = Percentile(counted, 0.5); half.has_value()) {
    point.set_staleness_p50(*half);
    point.set_staleness_p99(*Percentile(counted, 0.99));
  }
  points_.push_back(std::move(point));
  if (points_.size() <= kMostPoints) return;
  // Every other one of the older half goes.
  std::deque<Page::Point> kept;
  for (size_t i = 0; i < points_.size(); ++i) {
    if (i >= kMostPoints / 2 || i % 2 == 0) kept.push_back(points_[i]);
  }
  points_ = std::move(kept);
}

void StatusPages::AddEvents(const v1::ClusterReport& report, absl::Time wall) {
  Before now;
  // What a process that did not answer had counted stays known.
  if (before_.has_value()) now.staleness = before_->staleness;
  // A chief that is away for a moment has not taken back what it said.
  now.job = report.has_job() || !before_ ? report.job() : before_->job;
  for (int i = 0; i < report.processes_size(); ++i) {
    const v1::ProcessAnswer& answer = report.processes(i);
    const v1::Member* const member = MemberAt(report, i);
    const ProcessRow row = RowOf(answer, member);
    const bool is_away = !answer.has_status() && !IsJoined(member);
    const Before::Process& is = now.processes[row.name] = {
        is_away ? "no answer" : row.state, row.generation};
    if (!before_.has_value() || IsOver(report)) continue;
    const auto was = before_->processes.find(row.name);
    if (was == before_->processes.end()) continue;
    if (is.state != was->second.state) {
      AddEvent(
          wall, ProcessOf(report, i).level(),
          absl::StrCat(row.name, ": ", was->second.state, " → ", is.state,
                       is_away ? ", " : "", is_away ? answer.error() : ""));
    }
    if (is.generation != was->second.generation) {
      AddEvent(wall, Page::GOOD,
               absl::StrCat(row.name, ": generation ", was->second.generation,
                            " → ", is.generation));
    }
  }
  for (const v1::ProcessAnswer& answer : report.processes()) {
    if (answer.has_status()) now.staleness[answer.name()] = StalenessOf(answer);
    AddOperatorCalls(answer, &now);
  }
  if (before_.has_value() && before_->job.members_size() > 0) {
    for (auto& [level, text] : ChangesOf(before_->job, now.job)) {
      AddEvent(wall, level, std::move(text));
    }
  }
  before_ = std::move(now);
}

// What a process that did not answer had told stays told.
void StatusPages::AddOperatorCalls(const v1::ProcessAnswer& answer,
                                   Before* now) {
  uint64_t& told = now->operator_calls[answer.name()];
  const bool was_seen =
      before_.has_value() && before_->operator_calls.contains(answer.name());
  const uint64_t before = was_seen ? before_->operator_calls[answer.name()] : 0;
  told = answer.has_status() ? 0 : before;
  for (const v1::OperatorCall& call : answer.status().operator_calls()) {
    told = std::max(told, call.number());
    // One of a new life counts from 1.
    const uint64_t newest = answer.status().operator_calls().rbegin()->number();
    if (!was_seen || (newest >= before && call.number() <= before)) continue;
    AddEvent(
        absl::FromUnixMillis(static_cast<int64_t>(call.origin().unix_ms())),
        call.refused().empty() ? Page::GOOD : Page::WARNING,
        absl::StrCat(
            call.origin().who(), " at ", call.origin().address(), ": ",
            call.call(), " ", call.asks(),
            call.refused().empty() ? "" : ", refused: ", call.refused()));
  }
}

void StatusPages::AddEvent(absl::Time wall, Page::Level level,
                           std::string text) {
  Page::Event event;
  event.set_number(++newest_event_);
  event.set_unix_seconds(UnixSeconds(wall));
  event.set_level(level);
  event.set_text(std::move(text));
  events_.push_back(std::move(event));
  if (events_.size() > kMostEvents) events_.pop_front();
}

void StatusPages::FillVerdict(Page* page) const {
  const v1::JobStats& job = report_->job();
  if (!report_->has_job()) {
    page->set_level(Page::BAD);
    page->set_verdict(
        absl::StrCat("the job is not known: ", report_->job_error()));
    return;
  }
  std::string progress =
      absl::StrFormat("epoch %.2f of %d, step %s", job.epochs_done(),
                      job.epochs(), WithCommas(job.global_step()));
  if (IsOver(*report_) && !job.stopping().empty()) {
    page->set_verdict(job.stopping());
    return;
  }
  if (IsOver(*report_)) {
    page->set_verdict(absl::StrCat(
        "finished: ", progress,
        job.evaluation().examples() == 0
            ? ""
            : absl::StrCat(", test ", TestText(job.evaluation(), " "))));
    return;
  }
  if (!job.stopping().empty()) {
    page->set_level(Page::WARNING);
    page->set_verdict(absl::StrCat(
        job.stopping(), ": ", progress,
        job.waiting_for().empty() ? "" : "; waits for ", job.waiting_for()));
    return;
  }
  const Trouble trouble = TroubleOf(*report_, *page);
  page->set_level(trouble.level);
  const double rate = ExamplesPerSecond(*report_);
  if (trouble.is_wait && rate <= 0) {
    page->set_verdict(trouble.text);
    return;
  }
  if (rate > 0) {
    absl::StrAppend(&progress, ", ", WithCommas(static_cast<uint64_t>(rate)),
                    " examples/s");
  }
  if (left_.has_value()) {
    absl::StrAppend(&progress, ", ", SecondsText(absl::ToDoubleSeconds(*left_)),
                    " left");
  }
  page->set_verdict(absl::StrCat(job.state() == v1::STARTING    ? "starts: "
                                 : job.state() == v1::FINISHING ? "finishes: "
                                                                : "trains: ",
                                 progress, trouble.text.empty() ? "" : "; ",
                                 trouble.text));
}

void StatusPages::FillFigures(Page* page) const {
  FillMissing(*report_, page);
  if (report_->has_job()) {
    const v1::JobStats& job = report_->job();
    AddFigure(
        "pushes lost", WithCommas(job.pushes_lost()),
        absl::StrCat("doubled: ", WithCommas(job.pushes_doubled())),
        job.pushes_lost() + job.pushes_doubled() > 0 ? Page::BAD : Page::GOOD,
        page);
    const absl::Duration age =
        absl::Milliseconds(static_cast<int64_t>(job.checkpoint_ago_ms()));
    const bool is_late = job.has_checkpoint_ago_ms() && !IsOver(*report_) &&
                         checkpoint_interval_ > absl::ZeroDuration() &&
                         age > 2 * checkpoint_interval_;
    AddFigure(
        "since the newest checkpoint",
        job.has_checkpoint_ago_ms() ? SecondsText(absl::ToDoubleSeconds(age))
                                    : "–",
        job.checkpoint_path().empty()
            ? "none yet"
            : absl::StrCat("step ", WithCommas(job.checkpoint_step())),
        is_late || !job.checkpoint_failure().empty() ? Page::BAD : Page::GOOD,
        page);
  }
  FillBackups(*report_, page);
  FillMemory(*report_, page);
}

Page StatusPages::PageAt(Time now, uint64_t since) const {
  Page page;
  page.set_job(report_->job().name());
  page.set_age_seconds(absl::ToDoubleSeconds(now - taken_));
  for (const v1::ProcessAnswer& answer : report_->processes()) {
    if (answer.address() != report_->asked()) continue;
    page.set_seen_by(answer.name());
    page.set_build(answer.status().build());
    page.set_incarnation(answer.status().incarnation());
    break;
  }
  FillProcesses(*report_, &page);
  for (Page::Process& process : *page.mutable_processes()) {
    loads_.Fill(&process);
  }
  FillVerdict(&page);
  FillFigures(&page);
  *page.mutable_tables() = TablesOf(*report_);
  FillSlices(*report_, &page);
  std::vector<const Page::Point*> newer;
  for (const Page::Point& point : points_) {
    if (point.number() > since) newer.push_back(&point);
  }
  // The newest of each few, so that the last one is among them; and the first.
  const size_t each = 1 + newer.size() / (kMostPointsAtOnce - 1);
  for (size_t i = 0; i < newer.size(); ++i) {
    if (i == 0 || (newer.size() - 1 - i) % each == 0) {
      *page.add_points() = *newer[i];
    }
  }
  for (const Page::Event& event : events_) *page.add_events() = event;
  return page;
}

}  // namespace paramd
