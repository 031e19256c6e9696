// SPDX-License-Identifier: Apache-2.0
#include "fourfold/planner/page_parts.hpp"

#include "fourfold/base/text.hpp"
#include "fourfold/report/html.hpp"
#include "fourfold/report/style.hpp"

namespace fourfold::planner {

using report::escaped;

std::string section(const std::string& title, const std::string& content) {
  return concat("<section><h2>", escaped(title), "</h2>\n", content, "</section>\n");
}

std::string table_of(const std::string& id, const Rows& rows) {
  std::string html =
      concat("<div class=\"scroll\"><table id=\"", id, "\" class=\"wide\"><thead><tr>");
  const auto cell = [&](const char* tag, std::size_t column, const std::string& text) {
    html += concat("<", tag, column < rows.left ? " class=\"text\">" : ">", escaped(text), "</",
                   tag, ">");
  };
  for (std::size_t i = 0; i < rows.head.size(); ++i) cell("th", i, rows.head[i]);
  html += "</tr></thead><tbody>\n";
  for (const std::vector<std::string>& row : rows.rows) {
    html += "<tr>";
    const bool reason = row.size() == 2 && rows.head.size() > 2;
    for (std::size_t i = 0; i < row.size(); ++i) {
      if (i == 1 && reason) {
        html += concat("<td class=\"text\" colspan=\"", rows.head.size() - 1, "\">",
                       escaped(row[i]), "</td>");
      } else {
        cell("td", i, row[i]);
      }
    }
    html += "</tr>\n";
  }
  return html + "</tbody></table></div>\n";
}

std::string document(const std::string& title, const std::string& about, const std::string& content,
                     const std::string& command) {
  return concat(
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
      "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">"
      "<link rel=\"icon\" href=\"data:,\"><title>",
      escaped(title), ": Fourfold</title><style>", report::style(),
      "</style></head>\n<body><main>\n<h1>", escaped(title), "</h1>\n<p>", escaped(about), "</p>\n",
      content, "<footer>Made by ", escaped(command), "</footer>\n</main></body></html>\n");
}

}  // namespace fourfold::planner
