#include "base/fuzz/seeds.h"

#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"

#include "base/check.h"

namespace paramd::fuzz {

void WriteSeeds(const std::string& directory, absl::string_view target,
                const std::vector<std::pair<std::string, std::string>>& seeds) {
  const std::string corpus = absl::StrCat(directory, "/corpus/", target);
  std::filesystem::create_directories(corpus);
  for (const auto& [name, bytes] : seeds) {
    std::ofstream file(absl::StrCat(corpus, "/", name), std::ios::binary);
    file << bytes;
    file.close();
    CHECK(!file.fail(), "a seed can be written");
  }
}

}  // namespace paramd::fuzz
