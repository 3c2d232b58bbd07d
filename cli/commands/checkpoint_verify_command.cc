#include <cstdio>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "base/clock.h"
#include "base/escape.h"
#include "checkpoint/verify.h"
#include "cli/commands/command.h"
#include "process/exit_code.h"
#include "process/flags.h"
#include "process/terminal/byte_progress.h"
#include "process/terminal/console.h"
#include "process/terminal/dashboard.h"

namespace paramd {
namespace {

// "3 files, 12.3 MB, base 000001-00000001.step-10"
std::string Summary(const v1::Manifest& manifest) {
  std::set<std::string> bases;
  for (const v1::ShardFile& file : manifest.files()) {
    if (file.has_base()) bases.insert(file.base().directory());
  }
  return absl::StrCat(manifest.files_size(),
                      manifest.files_size() == 1 ? " file, " : " files, ",
                      BytesText(CheckpointBytes(manifest)),
                      bases.empty() ? "" : ", base ",
                      EscapeLine(absl::StrJoin(bases, ", ")));
}

// Says what was found; true if nothing is wrong.
bool VerifyOne(const std::string& path, CheckpointVerifier* verifier,
               ByteProgress* progress, Console* console) {
  progress->Begin(absl::StrCat("verifying ", path.substr(path.rfind('/') + 1)));
  const std::vector<absl::Status> faults = verifier->Faults(path);
  progress->End();
  if (faults.empty()) {
    const auto manifest = ReadManifest(path);
    console->Print(absl::StrCat("ok       ", EscapeLine(path),
                                manifest.ok() ? ": " : "",
                                manifest.ok() ? Summary(*manifest) : "", "\n"));
    return true;
  }
  std::string text = absl::StrCat("damaged  ", EscapeLine(path), "\n");
  for (const absl::Status& fault : faults) {
    absl::StrAppend(&text, "         ", EscapeLine(fault.message()), "\n");
  }
  console->Print(text);
  return false;
}

}  // namespace

int CheckpointVerifyCommand(const Invocation& invocation) {
  bool newest = false;
  Flags flags(
      "checkpoint verify", "PATH [--newest]",
      "Reads a checkpoint, or all of a run, and says everything that is "
      "wrong: sizes,\nchecksums, tensors, bases of incremental files, "
      "the index. Exits 1 if anything is.");
  flags.AddSwitch("newest", "only the newest of a run", &newest);
  flags.AllowArguments(1, 1, "PATH, the directory of a run or a checkpoint");
  if (const auto exit_code = ParseFlags(invocation, &flags)) return *exit_code;
  auto paths = CheckpointsAt(flags.arguments()[0]);
  PrintError(paths.status());
  if (!paths.ok()) return ExitCodeAtStart(paths.status());
  if (newest) paths->resize(1);
  Console console(stdout, stderr, StdoutIsTerminal());
  ByteProgress progress(&console, MonotonicNow);
  CheckpointVerifier::Options options;
  options.progress = [&](uint64_t bytes, uint64_t total) {
    progress.Update(bytes, total);
  };
  CheckpointVerifier verifier(options);
  bool all_ok = true;
  for (const std::string& path : *paths) {
    all_ok &= VerifyOne(path, &verifier, &progress, &console);
  }
  return all_ok ? kExitFinished : kExitFailed;
}

}  // namespace paramd
