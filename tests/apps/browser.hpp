// A page as a headless Chromium shows it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <regex>
#include <string>
#include <vector>

#include "tests/support/process.hpp"

namespace fourfold::test {

class Browser {
 public:
  /// Keeps its own files in `folder`.
  explicit Browser(std::string folder) : folder_(std::move(folder)) {}

  static bool installed() { return std::filesystem::exists("/usr/bin/chromium"); }

  /// The document after it was loaded; messages of its console are in `err`.
  Outcome document(const std::string& file) const {
    return run({"--dump-dom", "--enable-logging=stderr", "--v=0"}, file);
  }

  /// A picture of 1280 x 2400 pixels.
  Outcome screenshot(const std::string& file, const std::string& picture) const {
    return run({"--screenshot=" + picture, "--window-size=1280,2400", "--hide-scrollbars"}, file);
  }

 private:
  Outcome run(std::vector<std::string> options, const std::string& file) const {
    const std::vector<std::string> always = {"/usr/bin/chromium", "--headless", "--no-sandbox",
                                             "--disable-gpu", "--user-data-dir=" + folder_};
    options.insert(options.begin(), always.begin(), always.end());
    options.push_back("file://" + file);
    return run_program(options, {"HOME=" + folder_});
  }

  std::string folder_;
};

/// What a reader sees of some HTML: without tags and with plain characters.
inline std::string visible(const std::string& html) {
  std::string text = std::regex_replace(html, std::regex("<[^>]*>"), "");
  for (const auto& [code, plain] : {std::pair{"&lt;", "<"}, {"&gt;", ">"}, {"&amp;", "&"}}) {
    text = std::regex_replace(text, std::regex(code), plain);
  }
  return text;
}

/// The visible contents of all elements whose opening tag begins with `tag`: "td", "g class=\"bar".
inline std::vector<std::string> elements(const std::string& html, const std::string& tag) {
  const std::string name = tag.substr(0, tag.find(' '));
  std::vector<std::string> found;
  for (auto at = html.find("<" + tag); at != std::string::npos; at = html.find("<" + tag, at + 1)) {
    const char next = html[at + 1 + tag.size()];
    if (tag == name && next != '>' && next != ' ') continue;  // <td of <tdx
    const auto begin = html.find('>', at) + 1;
    found.push_back(visible(html.substr(begin, html.find("</" + name + ">", begin) - begin)));
  }
  return found;
}

}  // namespace fourfold::test
