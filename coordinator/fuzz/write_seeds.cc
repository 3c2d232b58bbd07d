// Writes the corpus of the target beside it: logs, as a coordinator writes
// them.

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/fuzz/pieces.h"
#include "base/fuzz/seeds.h"
#include "coordinator/configuration_log.h"
#include "proto/paramd/v1/configuration.pb.h"
#include "proto/testing/pair.h"

namespace paramd {
namespace {

std::string ReadFile(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

// The files of a log with these entries; their JSON alone, if checksums are
// made later.
std::string Log(const std::vector<v1::LogEntry>& entries, bool json_alone) {
  const std::filesystem::path root =
      std::filesystem::temp_directory_path() / "seeds-log";
  std::filesystem::remove_all(root);
  DirectoryLog log(root);
  std::string bytes(1, json_alone ? '\1' : '\0');
  for (const v1::LogEntry& entry : entries) {
    CHECK(log.Append(entry).ok(), "an entry is appended");
  }
  for (size_t i = 1; i <= entries.size(); ++i) {
    const std::string text = ReadFile(root / ("0000000" + std::to_string(i)));
    fuzz::AddSized(json_alone ? text.substr(text.find('\n') + 1) : text,
                   &bytes);
  }
  std::filesystem::remove_all(root);
  return bytes;
}

v1::LogEntry Entry(uint64_t number) {
  v1::LogEntry entry;
  entry.set_number(number);
  entry.set_nonce(7);
  entry.set_term(number);
  return entry;
}

}  // namespace
}  // namespace paramd

int main(int argc, char** argv) {
  using namespace paramd;
  if (argc != 2) return 2;
  v1::LogEntry configured = Entry(2);
  v1::Configuration* const configuration = configured.mutable_configuration();
  *configuration->mutable_version() = testing::Pair(2, 1);
  configuration->set_run_id("run");
  configuration->mutable_optimizer()->mutable_adam();
  configuration->add_servers()->set_incarnation(100);
  fuzz::WriteSeeds(argv[1], "configuration_log",
                   {{"one", Log({Entry(1)}, true)},
                    {"two", Log({Entry(1), configured}, true)},
                    {"three", Log({Entry(1), configured, Entry(3)}, true)},
                    {"with_sums", Log({Entry(1), configured}, false)},
                    {"nothing", std::string(1, '\0')}});
  return 0;
}
