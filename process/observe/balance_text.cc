#include "process/observe/balance_text.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

#include "process/terminal/text_layout.h"

namespace paramd {
namespace {

constexpr int kMostMoves = 3;

// "moved server 3 from ps-0 to ps-2: ps-0 spends …"
std::string MovedText(const v1::Balance::Moved& moved) {
  return moved.failure().empty()
             ? absl::StrCat("moved ", moved.what(), ": ", moved.why())
             : absl::StrCat("gave up to move ", moved.what(), ": ",
                            moved.failure());
}

}  // namespace

std::string MovesText(const v1::Balance& balance) {
  std::string text;
  if (balance.has_moving()) {
    absl::StrAppend(&text, "moves ", balance.moving().what(), ": ",
                    balance.moving().why(),
                    balance.waiting_for().empty() ? "" : "; waits for ",
                    balance.waiting_for(), "\n");
  }
  const int first = std::max(0, balance.moved_size() - kMostMoves);
  for (int i = balance.moved_size() - 1; i >= first; --i) {
    const v1::Balance::Moved& moved = balance.moved(i);
    absl::StrAppend(
        &text,
        moved.has_ago_ms()
            ? absl::StrCat(
                  SecondsText(static_cast<double>(moved.ago_ms()) / 1000),
                  " ago ")
            : "with an earlier chief ",
        MovedText(moved), "\n");
  }
  if (!balance.hot().empty()) absl::StrAppend(&text, balance.hot(), "\n");
  return text;
}

std::string MovesNews(const v1::Balance& was, const v1::Balance& is) {
  const bool has_ended =
      is.moves() + is.given_up() > was.moves() + was.given_up();
  if (has_ended && is.moved_size() > 0) {
    return MovedText(is.moved(is.moved_size() - 1));
  }
  return was.hot().empty() ? is.hot() : "";
}

}  // namespace paramd
