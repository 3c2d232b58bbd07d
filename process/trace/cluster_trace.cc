#include "process/trace/cluster_trace.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"

#include "base/chrome_trace.h"
#include "base/escape.h"
#include "base/status_macros.h"

namespace paramd {
namespace {

constexpr size_t kMostNames = 4096;
// Of a monotonic clock, 36 years: sums of a few such times have room.
constexpr int64_t kLatest = int64_t{1} << 60;

// A text of JSON, of what a stranger may have sent.
std::string Quoted(absl::string_view text) {
  return nlohmann::json(EscapeLine(text))
      .dump(-1, ' ', /*ensure_ascii=*/false,
            nlohmann::json::error_handler_t::replace);
}

std::string Quoted(const std::vector<std::string>& texts) {
  std::vector<std::string> quoted;
  for (const std::string& text : texts) quoted.push_back(Quoted(text));
  return absl::StrCat("[", absl::StrJoin(quoted, ","), "]");
}

std::string InMicroseconds(absl::Duration duration) {
  return absl::StrFormat("%.3f", absl::ToDoubleMicroseconds(duration));
}

bool HasName(const v1::TraceReply& reply, uint32_t name) {
  return name < static_cast<uint32_t>(reply.names_size());
}

absl::Status CheckPiece(const v1::TraceReply& piece) {
  if (piece.clock_ns() < -kLatest || piece.clock_ns() > kLatest) {
    return absl::DataLossError(
        "its trace is damaged: it says a time that no clock shows");
  }
  for (const v1::TraceEvent& event : piece.events()) {
    if (event.begin_ns() < -kLatest || event.begin_ns() > kLatest ||
        event.duration_ns() > uint64_t{kLatest}) {
      return absl::DataLossError(
          "its trace is damaged: an event is at a time that no clock shows");
    }
    bool are_there =
        HasName(piece, event.name()) && HasName(piece, event.lane());
    for (const v1::TraceNumber& number : event.numbers()) {
      are_there &= HasName(piece, number.name());
    }
    if (!are_there) {
      return absl::DataLossError(
          "its trace is damaged: an event has a name that is not there");
    }
  }
  return absl::OkStatus();
}

// Where lanes stand below each other: as the process has them.
size_t RankOf(absl::string_view lane) {
  for (size_t i = 0; i < ChromeTrace::kLanes; ++i) {
    if (lane == ChromeTrace::NameOf(static_cast<ChromeTrace::Lane>(i))) {
      return i;
    }
  }
  return ChromeTrace::kLanes;
}

// In the middle of its event, so that it lies in it.
Time TimeOfFlows(const ProcessTrace& process, const v1::TraceEvent& event) {
  return process.clock.ToOurs(event.begin_ns() +
                              static_cast<int64_t>(event.duration_ns() / 2));
}

class TraceText {
 public:
  explicit TraceText(const ClusterTrace& trace) : trace_(trace) {
    FindOrigin();
    FindFlows();
  }

  std::string Write() {
    text_ = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[";
    for (size_t i = 0; i < trace_.processes.size(); ++i) {
      AddProcess(trace_.processes[i], i + 1);
    }
    absl::StrAppend(&text_, "\n],\"otherData\":", OtherData(), "}\n");
    return std::move(text_);
  }

 private:
  // When a chunk left its worker first, and in how many events it passed
  // besides.
  struct Flow {
    Time start = Time::Never();
    absl::Duration error;  // Of that worker's clock.
    uint64_t others = 0;
  };
  using Thread = std::pair<size_t, uint32_t>;  // Of a lane, by its rank.

  void FindOrigin();
  void FindFlows();
  bool IsDrawn(const v1::TraceFlow& flow, Time at, absl::Duration error) const;
  // As a piece of JSON: the time since the first event.
  std::string At(Time time) const { return InMicroseconds(time - origin_); }
  void AddLine(absl::string_view line) {
    absl::StrAppend(&text_, is_first_ ? "\n" : ",\n", line);
    is_first_ = false;
  }
  void AddProcess(const ProcessTrace& process, size_t pid);
  void AddName(absl::string_view what, size_t pid, size_t tid,
               absl::string_view value);
  std::map<Thread, size_t> NameThreads(const ProcessTrace& process, size_t pid);
  void AddEvent(const ProcessTrace& process, const v1::TraceEvent& event,
                size_t pid, size_t tid);
  void AddFlow(const v1::TraceFlow& flow, Time at, size_t pid, size_t tid);
  std::string NumbersOf(const ProcessTrace& process,
                        const v1::TraceEvent& event) const;
  std::string VariableName(uint64_t variable) const;
  std::string BlockName(uint64_t slice, uint64_t block) const;
  std::string OtherData() const;

  const ClusterTrace& trace_;
  Time origin_;
  absl::flat_hash_map<uint64_t, Flow> flows_;
  bool is_first_ = true;
  std::string text_;
};

void TraceText::FindOrigin() {
  Time first = Time::Never();
  for (const ProcessTrace& process : trace_.processes) {
    for (const v1::TraceEvent& event : process.events.events()) {
      first = std::min(first, process.clock.ToOurs(event.begin_ns()));
    }
  }
  if (first != Time::Never()) origin_ = first;
}

void TraceText::FindFlows() {
  for (const ProcessTrace& process : trace_.processes) {
    for (const v1::TraceEvent& event : process.events.events()) {
      for (const v1::TraceFlow& flow : event.flows()) {
        Flow& found = flows_[flow.id()];
        if (flow.phase() != v1::TraceFlow::START) {
          ++found.others;
          continue;
        }
        found.start = std::min(found.start, TimeOfFlows(process, event));
        found.error = process.clock.error();
      }
    }
  }
}

// Of one that was on its way when recording began nobody knows the beginning,
// also if it is sent again.
bool TraceText::IsDrawn(const v1::TraceFlow& flow, Time at,
                        absl::Duration error) const {
  const Flow& found = flows_.at(flow.id());
  if (found.start == Time::Never() || found.others == 0) return false;
  return flow.phase() == v1::TraceFlow::START ||
         at + (error + found.error) >= found.start;
}

void TraceText::AddName(absl::string_view what, size_t pid, size_t tid,
                        absl::string_view value) {
  AddLine(absl::StrFormat(
      "{\"name\":\"%s\",\"ph\":\"M\",\"pid\":%d,\"tid\":%d,\"args\":{%s}}",
      what, pid, tid, value));
}

std::map<TraceText::Thread, size_t> TraceText::NameThreads(
    const ProcessTrace& process, size_t pid) {
  std::map<Thread, size_t> threads;
  std::map<size_t, std::string> lanes;
  for (const v1::TraceEvent& event : process.events.events()) {
    const std::string& lane =
        process.events.names(static_cast<int>(event.lane()));
    threads.emplace(Thread(RankOf(lane), event.thread()), 0);
    lanes.emplace(RankOf(lane), lane);
  }
  std::map<size_t, size_t> of_lane;
  for (const auto& [thread, tid] : threads) ++of_lane[thread.first];
  std::map<size_t, size_t> place;
  size_t next = 0;
  for (auto& [thread, tid] : threads) {
    tid = ++next;
    const std::string& lane = lanes[thread.first];
    const size_t number = ++place[thread.first];
    AddName("thread_name", pid, tid,
            absl::StrCat("\"name\":",
                         Quoted(of_lane[thread.first] == 1
                                    ? lane
                                    : absl::StrCat(lane, " ", number))));
    AddName("thread_sort_index", pid, tid,
            absl::StrCat("\"sort_index\":", tid));
  }
  return threads;
}

void TraceText::AddProcess(const ProcessTrace& process, size_t pid) {
  AddName("process_name", pid, 0,
          absl::StrCat("\"name\":", Quoted(process.process)));
  AddName("process_sort_index", pid, 0, absl::StrCat("\"sort_index\":", pid));
  std::string label = absl::StrFormat("clock within %s us",
                                      InMicroseconds(process.clock.error()));
  if (process.events.left_out() > 0) {
    absl::StrAppend(&label, ", ", process.events.left_out(),
                    " events left out");
  }
  AddName("process_labels", pid, 0, absl::StrCat("\"labels\":", Quoted(label)));
  const std::map<Thread, size_t> threads = NameThreads(process, pid);
  for (const v1::TraceEvent& event : process.events.events()) {
    const std::string& lane =
        process.events.names(static_cast<int>(event.lane()));
    AddEvent(process, event, pid,
             threads.at(Thread(RankOf(lane), event.thread())));
  }
}

void TraceText::AddEvent(const ProcessTrace& process,
                         const v1::TraceEvent& event, size_t pid, size_t tid) {
  std::string line = absl::StrFormat(
      "{\"name\":%s,\"ph\":\"X\",\"pid\":%d,\"tid\":%d,\"ts\":%s,\"dur\":%s",
      Quoted(process.events.names(static_cast<int>(event.name()))), pid, tid,
      At(process.clock.ToOurs(event.begin_ns())),
      InMicroseconds(
          absl::Nanoseconds(static_cast<int64_t>(event.duration_ns()))));
  if (event.numbers_size() > 0) {
    absl::StrAppend(&line, ",\"args\":", NumbersOf(process, event));
  }
  AddLine(absl::StrCat(line, "}"));
  const Time at = TimeOfFlows(process, event);
  for (const v1::TraceFlow& flow : event.flows()) {
    if (!IsDrawn(flow, at, process.clock.error())) continue;
    AddFlow(flow, at, pid, tid);
  }
}

void TraceText::AddFlow(const v1::TraceFlow& flow, Time at, size_t pid,
                        size_t tid) {
  const char* const phase = flow.phase() == v1::TraceFlow::START ? "s"
                            : flow.phase() == v1::TraceFlow::END ? "f"
                                                                 : "t";
  AddLine(absl::StrFormat(
      "{\"name\":\"push\",\"cat\":\"push\",\"ph\":\"%s\",\"bp\":\"e\","
      "\"id\":\"0x%x\",\"pid\":%d,\"tid\":%d,\"ts\":%s}",
      phase, flow.id(), pid, tid, At(at)));
}

// Blocks and variables by name, the rest as it is.
std::string TraceText::NumbersOf(const ProcessTrace& process,
                                 const v1::TraceEvent& event) const {
  std::vector<std::string> variables;
  std::vector<std::string> blocks;
  std::map<std::string, uint64_t> others;
  for (int i = 0; i < event.numbers_size(); ++i) {
    const v1::TraceNumber& number = event.numbers(i);
    const auto name_of = [&](int place) {
      return process.events.names(
          static_cast<int>(event.numbers(place).name()));
    };
    const std::string name = name_of(i);
    if (name == "variable") {
      variables.push_back(VariableName(number.value()));
    } else if (name == "slice" && i + 1 < event.numbers_size() &&
               name_of(i + 1) == "block") {
      blocks.push_back(BlockName(number.value(), event.numbers(++i).value()));
    } else {
      others.emplace(name, number.value());
    }
  }
  std::vector<std::string> members;
  if (!variables.empty()) {
    members.push_back(absl::StrCat("\"variables\":", Quoted(variables)));
  }
  if (!blocks.empty()) {
    members.push_back(absl::StrCat("\"blocks\":", Quoted(blocks)));
  }
  for (const auto& [name, value] : others) {
    members.push_back(absl::StrCat(Quoted(name), ":", value));
  }
  return absl::StrCat("{", absl::StrJoin(members, ","), "}");
}

std::string TraceText::VariableName(uint64_t variable) const {
  if (variable >= static_cast<uint64_t>(trace_.layout.variables_size())) {
    return absl::StrCat("variable ", variable);
  }
  return trace_.layout.variables(static_cast<int>(variable)).name();
}

std::string TraceText::BlockName(uint64_t slice, uint64_t block) const {
  const std::string place = absl::StrCat("slice ", slice, ", block ", block);
  if (slice >= static_cast<uint64_t>(trace_.layout.slices_size())) return place;
  const v1::Slice& found = trace_.layout.slices(static_cast<int>(slice));
  return absl::StrCat(VariableName(found.variable()), ": ", place);
}

std::string TraceText::OtherData() const {
  std::vector<std::string> clocks;
  std::vector<std::string> left_out;
  std::set<std::string> seen;
  for (const ProcessTrace& process : trace_.processes) {
    const std::string name = Quoted(process.process);
    if (!seen.insert(name).second) continue;
    clocks.push_back(absl::StrFormat(
        "%s:{\"offset_us\":%s,\"error_us\":%s,\"calls\":%d}", name,
        InMicroseconds(process.clock.offset()),
        InMicroseconds(process.clock.error()), process.clock.calls()));
    left_out.push_back(absl::StrCat(name, ":", process.events.left_out()));
  }
  return absl::StrCat("{\"clocks\":{", absl::StrJoin(clocks, ","),
                      "},\"left_out\":{", absl::StrJoin(left_out, ","),
                      "},\"missing\":", Quoted(trace_.missing), "}");
}

}  // namespace

absl::Status AddPiece(const v1::TraceReply& piece, ProcessTrace* trace) {
  RETURN_IF_ERROR(CheckPiece(piece));
  v1::TraceReply& all = trace->events;
  const auto events =
      static_cast<size_t>(all.events_size() + piece.events_size());
  const auto names = static_cast<size_t>(all.names_size() + piece.names_size());
  // Pieces have names of their own, mostly the same.
  if (events > ChromeTrace::kMostRecorded || names > kMostNames) {
    return absl::DataLossError(
        "its trace has more events, or names, than any process records");
  }
  absl::flat_hash_map<std::string, uint32_t> known;
  for (int i = 0; i < all.names_size(); ++i) {
    known.emplace(all.names(i), static_cast<uint32_t>(i));
  }
  std::vector<uint32_t> index;
  for (const std::string& name : piece.names()) {
    const auto [it, is_new] =
        known.emplace(name, static_cast<uint32_t>(all.names_size()));
    if (is_new) all.add_names(name);
    index.push_back(it->second);
  }
  for (const v1::TraceEvent& event : piece.events()) {
    v1::TraceEvent* const added = all.add_events();
    *added = event;
    added->set_name(index[event.name()]);
    added->set_lane(index[event.lane()]);
    for (v1::TraceNumber& number : *added->mutable_numbers()) {
      number.set_name(index[number.name()]);
    }
  }
  all.set_total(piece.total());
  all.set_left_out(piece.left_out());
  return absl::OkStatus();
}

size_t EventsIn(const ClusterTrace& trace) {
  size_t events = 0;
  for (const ProcessTrace& process : trace.processes) {
    events += static_cast<size_t>(process.events.events_size());
  }
  return events;
}

uint64_t LeftOutOf(const ClusterTrace& trace) {
  uint64_t left_out = 0;
  for (const ProcessTrace& process : trace.processes) {
    left_out += process.events.left_out();
  }
  return left_out;
}

// Those of the two that are known worst.
absl::Duration ErrorOf(const ClusterTrace& trace) {
  std::vector<absl::Duration> errors(2);
  for (const ProcessTrace& process : trace.processes) {
    errors.push_back(process.clock.error());
  }
  std::sort(errors.rbegin(), errors.rend());
  return errors[0] + errors[1];
}

std::string TraceJson(const ClusterTrace& trace) {
  return TraceText(trace).Write();
}

}  // namespace paramd
