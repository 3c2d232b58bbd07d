#include "process/observe/status_page_text.h"

#include <openssl/sha.h>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace paramd {
namespace {

constexpr char kPageBody[] =
#include "process/observe/status_page.html.inc"
    ;
constexpr char kPageScript[] =
#include "process/observe/status_page.js.inc"
    ;
constexpr char kPageStyle[] =
#include "process/observe/status_page.css.inc"
    ;

// As a content security policy names a text.
std::string HashSource(absl::string_view text) {
  unsigned char hash[SHA256_DIGEST_LENGTH];
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(),
         hash);
  return absl::StrCat("'sha256-",
                      absl::Base64Escape(absl::string_view(
                          reinterpret_cast<const char*>(hash), sizeof(hash))),
                      "'");
}

}  // namespace

const std::string& StatusPageHtml() {
  static const auto& page = *new std::string(absl::StrCat(
      "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<style>",
      kPageStyle, "</style>\n", kPageBody, "<script>", kPageScript,
      "</script>\n</html>\n"));
  return page;
}

const std::string& StatusPageHeader() {
  static const auto& header = *new std::string(absl::StrCat(
      "Content-Security-Policy: default-src 'none'; script-src ",
      HashSource(kPageScript), "; style-src ", HashSource(kPageStyle),
      "; img-src data:; connect-src 'self'; base-uri 'none'; form-action "
      "'none'; frame-ancestors 'none'\r\n"
      "X-Content-Type-Options: nosniff\r\n"
      "Referrer-Policy: no-referrer\r\n"
      "Cross-Origin-Resource-Policy: same-origin\r\n"
      "Cache-Control: no-store\r\n"));
  return header;
}

}  // namespace paramd
