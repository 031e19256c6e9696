// SPDX-License-Identifier: Apache-2.0
#include "fourfold/report/page.hpp"

#include "fourfold/base/text.hpp"
#include "fourfold/report/charts.hpp"
#include "fourfold/report/html.hpp"
#include "fourfold/report/style.hpp"
#include "fourfold/report/tables.hpp"

namespace fourfold::report {

namespace {

/// The palette of all groups in which anything was sent.
Palette palette_of(const RunData& run) {
  std::set<std::string> axes;
  for (const auto& [key, count] : run.communication) {
    if (key.group_size > 1) axes.insert(key.axes);
  }
  for (const std::vector<RankTrace>* traces : {&run.traces, &run.predicted}) {
    for (const RankTrace& trace : *traces) {
      for (const comm::Span& span : trace.spans) {
        if (!span.axes.empty()) axes.insert(span.axes);
      }
    }
  }
  return Palette(axes);
}

std::string section(const std::string& title, const std::string& content) {
  return concat("<section><h2>", escaped(title), "</h2>\n", content, "</section>\n");
}

std::string figures(const RunData& run) {
  std::string html = "<dl class=\"figures\">";
  for (const auto& [name, value] : run.figures) {
    html += concat("<div><dt>", escaped(name), "</dt><dd>", escaped(value), "</dd></div>");
  }
  return html + "</dl>\n";
}

std::string pictures(const RunData& run) {
  std::string html;
  for (const PictureData& picture : run.pictures) {
    html += concat("<figure><img alt=\"", escaped(picture.name), "\" src=\"",
                   data_uri("image/png", picture.png), "\"><figcaption>", escaped(picture.name),
                   "</figcaption></figure>\n");
  }
  return html;
}

}  // namespace

std::string page(const RunData& run) {
  const Palette palette = palette_of(run);
  std::string html = concat(
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
      "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">"
      "<link rel=\"icon\" href=\"data:,\"><title>",
      escaped(run.name), ": Fourfold</title><style>", style(), "</style></head>\n<body><main>\n");
  html +=
      concat("<h1>", escaped(run.name), "</h1>\n<p>", escaped(run.about), "</p>\n", figures(run));
  html += concat("<div class=\"pair\">", section("Loss", loss_chart(run)),
                 section("Time of each step", step_chart(run, palette)), "</div>\n");
  if (!run.pictures.empty()) {
    html += section("What the model draws",
                    concat("<div class=\"pictures\">", pictures(run), "</div>\n"));
  }
  html += section("One step, rank by rank", timeline_chart(run, palette));
  html += section("Communication of a mean step of rank 0", communication_table(run));
  html += section("Memory of the fullest rank", memory_table(run));
  html += section("What was run", facts_table(run));
  html += section("Configuration",
                  concat("<pre id=\"configuration\">", escaped(run.configuration), "</pre>\n"));
  return html + "<footer>Made by fourfold train --report</footer>\n</main></body></html>\n";
}

}  // namespace fourfold::report
