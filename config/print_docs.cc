// Makes docs/configuration.md and config/job.schema.json:
//   bazel run //config:print_docs -- --update
// Without --update prints both to stdout.

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

#include "absl/strings/string_view.h"

#include "config/job_schema.h"
#include "config/settings_page.h"

namespace {

bool Write(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  if (!file) std::fprintf(stderr, "can't write %s\n", path.c_str());
  return !file.fail();
}

}  // namespace

int main(int argc, char** argv) {
  std::ifstream file("config/configuration.md.in", std::ios::binary);
  const std::string page((std::istreambuf_iterator<char>(file)), {});
  const std::string filled = paramd::FillSettings(page);
  const std::string schema = paramd::JobSchema();
  const bool is_update = argc == 2 && absl::string_view(argv[1]) == "--update";
  const char* tree = std::getenv("BUILD_WORKSPACE_DIRECTORY");
  if (page.empty() || (is_update && tree == nullptr)) {
    std::fputs("run by: bazel run //config:print_docs -- --update\n", stderr);
    return 2;
  }
  if (!is_update) {
    std::printf("%s\n%s", filled.c_str(), schema.c_str());
    return 0;
  }
  const std::string top = tree;
  const bool ok = Write(top + "/docs/configuration.md", filled) &&
                  Write(top + "/config/job.schema.json", schema);
  return ok ? 0 : 1;
}
