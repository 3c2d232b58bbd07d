#ifndef PARAMD_CONFIG_SETTINGS_PAGE_H_
#define PARAMD_CONFIG_SETTINGS_PAGE_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

#include "config/settings_help.h"

namespace paramd {

// `page` with "@settings@" replaced by tables of all settings in Markdown, one
// for the top level and one for each object.
std::string FillSettings(
    absl::string_view page,
    const std::vector<SettingHelp>& settings = SettingsHelp());

}  // namespace paramd

#endif  // PARAMD_CONFIG_SETTINGS_PAGE_H_
