#include "process/observe/top_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

#include "process/terminal/text_layout.h"

namespace paramd {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr int kWide = std::numeric_limits<int>::max();

void AddRow(const std::string& name, v1::StatusPage::Level level, double rate,
            uint64_t memory, v1::StatusPage* page) {
  auto* const process = page->add_processes();
  process->set_name(name);
  process->set_state("alive");
  process->set_level(level);
  process->set_examples_per_second(rate);
  process->set_memory_bytes(memory);
  process->set_figures(absl::StrCat("figures of ", name));
}

v1::StatusPage SomePage() {
  v1::StatusPage page;
  page.set_job("j");
  page.set_verdict("trains: epoch 1 of 3");
  auto* const figure = page.add_figures();
  figure->set_name("pushes lost");
  figure->set_value("7");
  figure->set_note("doubled: 0");
  figure->set_level(v1::StatusPage::BAD);
  AddRow("worker-1", v1::StatusPage::BAD, 0, 0, &page);
  page.mutable_processes(0)->add_waits("worker-1 waits for ps-0, for 12 s");
  AddRow("ps-1", v1::StatusPage::GOOD, 0, 900, &page);
  AddRow("ps-0", v1::StatusPage::GOOD, 0, 1000, &page);
  AddRow("worker-0", v1::StatusPage::GOOD, 50, 0, &page);
  for (int i = 0; i < 8; ++i) {
    page.add_events()->set_text(absl::StrCat("event ", i));
  }
  return page;
}

// Names in the order of the table.
std::vector<std::string> ProcessesOf(const std::string& view) {
  std::vector<std::string> names;
  for (const absl::string_view line : absl::StrSplit(view, '\n')) {
    for (const char* const name : {"ps-0", "ps-1", "worker-0", "worker-1"}) {
      if (line.find(absl::StrCat(name, "  ")) < 4) names.emplace_back(name);
    }
  }
  return names;
}

TEST(TopViewTest, PrintedOnceItHasEverything) {
  const std::string view = RenderTop(SomePage(), TopOrder::kWorst, kWide, 0);
  EXPECT_EQ(view.substr(0, view.find('\n')), "j: trains: epoch 1 of 3");
  EXPECT_THAT(view, HasSubstr("\n! pushes lost 7 (doubled: 0)\n"));
  EXPECT_THAT(view, HasSubstr("worker-1 waits for ps-0, for 12 s\n"));
  EXPECT_THAT(view, HasSubstr("figures of ps-1\n"));
  EXPECT_THAT(view, HasSubstr("\nevent 7\n"));
  EXPECT_THAT(view, Not(HasSubstr("event 2"))) << "the newest five";
}

TEST(TopViewTest, TheOrderIsChosen) {
  const auto in = [](TopOrder order) {
    return ProcessesOf(RenderTop(SomePage(), order, kWide, 0));
  };
  EXPECT_THAT(in(TopOrder::kWorst),
              ElementsAre("worker-1", "ps-1", "ps-0", "worker-0"));
  EXPECT_THAT(in(TopOrder::kName),
              ElementsAre("ps-0", "ps-1", "worker-0", "worker-1"));
  EXPECT_THAT(in(TopOrder::kRate),
              ElementsAre("worker-0", "worker-1", "ps-1", "ps-0"));
  EXPECT_THAT(in(TopOrder::kMemory),
              ElementsAre("ps-0", "ps-1", "worker-1", "worker-0"));
  TopOrder order = TopOrder::kWorst;
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(TopOrderNamed(TopOrderName(order)), order);
    order = NextTopOrder(order);
  }
  EXPECT_EQ(order, TopOrder::kWorst);
  EXPECT_FALSE(TopOrderNamed("colour").has_value());
}

TEST(TopViewTest, ItFitsEveryTerminal) {
  v1::StatusPage page = SomePage();
  for (int i = 0; i < 100; ++i) {
    AddRow(absl::StrCat("worker-", i, "-é"), v1::StatusPage::GOOD, 1, 1, &page);
  }
  page.set_processes_left_out(40);
  for (const auto& [columns, rows] : std::vector<std::pair<int, int>>{
           {80, 24}, {200, 50}, {20, 5}, {1, 1}, {80, 2}, {300, 200}}) {
    const std::string view = RenderTop(page, TopOrder::kWorst, columns, rows);
    const std::vector<std::string> lines = absl::StrSplit(view, '\n');
    EXPECT_LE(lines.size(), static_cast<size_t>(rows)) << columns;
    for (const std::string& line : lines) {
      EXPECT_LE(Columns(line), static_cast<size_t>(columns)) << line;
    }
    EXPECT_EQ(lines.back(), std::string("sorted by worst · o: another order · "
                                        "p: pause · q: quit")
                                .substr(0, lines.back().size()));
  }
}

TEST(TopViewTest, ATextIsNoLineAndNoEscapeSequence) {
  v1::StatusPage page = SomePage();
  page.set_job("j\x1b[2J\nFORGED");
  page.mutable_processes(1)->set_figures("\x1b]0;owned\x07");
  page.mutable_events(7)->set_text("a\nb");
  const std::string view = RenderTop(page, TopOrder::kWorst, kWide, 0);
  EXPECT_THAT(view, Not(HasSubstr("\x1b")));
  EXPECT_THAT(view, Not(HasSubstr("\nFORGED")));
  EXPECT_THAT(view, HasSubstr("a\\nb\n"));
}

}  // namespace
}  // namespace paramd
