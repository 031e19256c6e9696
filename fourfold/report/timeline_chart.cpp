// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <set>

#include "fourfold/base/text.hpp"
#include "fourfold/report/charts.hpp"
#include "fourfold/report/html.hpp"
#include "fourfold/report/pixels.hpp"
#include "fourfold/report/plot.hpp"

namespace fourfold::report {

using comm::Span;

namespace {

constexpr std::size_t kMostRanks = 8;
constexpr double kWidth = 1080;
constexpr double kLeft = 132;
constexpr double kRight = 1072;
constexpr double kRowHeight = 15;
constexpr double kBlockHeight = 12;
constexpr double kTitleHeight = 22;
/// Blocks narrower than this are drawn together, without a text of their own.
constexpr double kRoomForPointer = 5;

struct Interval {
  Seconds begin{INFINITY};
  Seconds end;

  bool empty() const { return !(begin < end); }
  Seconds length() const { return empty() ? Seconds() : end - begin; }
};

/// The first traced step, from the first begin to the last end of any rank.
Interval shown(const std::vector<RankTrace>& traces) {
  Interval all;
  for (const RankTrace& trace : traces) {
    if (trace.steps.empty()) continue;
    all.begin = std::min(all.begin, trace.steps.front().begin);
    all.end = std::max(all.end, trace.steps.front().end);
  }
  return all;
}

std::string describe(const Span& span) {
  std::string text = span.kind == Span::Kind::kWait ? "wait: " + label_of(span) : label_of(span);
  if (!span.axes.empty()) text += " over " + span.axes;
  text += concat(", ", span.end - span.begin);
  if (span.bytes > Bytes()) text += concat(", ", span.bytes);
  if (span.flops > Flops()) text += concat(", ", span.flops);
  if (span.phase) text += concat(", ", *span.phase);
  return text;
}

class Picture {
 public:
  /// The scale is of `length`, which is at least that of the step.
  Picture(const Palette& palette, const Interval& step, Seconds length) : palette_(&palette) {
    // The axis is in milliseconds from the begin of the step. Spans are in seconds of the clock.
    clock_ = {step.begin.value(), (step.begin + length).value(), kLeft, kRight};
    axis_ = {0, length.value() * 1e3, kLeft, kRight};
  }

  void add(const std::string& title, const RankTrace& trace) {
    y_ += kTitleHeight;
    svg_ +=
        concat("<text class=\"rank\" x=\"4\" y=\"", px(y_ - 6), "\">", escaped(title), "</text>\n");
    for (const Row& row : rows_of(trace)) add(row);
  }

  std::string finish(const std::string& id, const std::string& description) {
    std::string lines;
    for (const double value : ticks(axis_.low, axis_.high, 10)) {
      lines +=
          concat("<line class=\"grid\" x1=\"", px(axis_(value)), "\" x2=\"", px(axis_(value)),
                 "\" y1=\"4\" y2=\"", px(y_ + 4), "\"/><text class=\"tick mid\" x=\"",
                 px(axis_(value)), "\" y=\"", px(y_ + 18), "\">", number(value, 6), "</text>\n");
    }
    lines += concat("<text class=\"label mid\" x=\"", px((kLeft + kRight) / 2), "\" y=\"",
                    px(y_ + 36), "\">milliseconds since the step began</text>\n");
    return concat("<div class=\"scroll\">", open_svg(kWidth, y_ + 44, id, description), lines, svg_,
                  "</svg></div>\n");
  }

  const std::set<std::string>& colours() const { return colours_; }

 private:
  void add(const Row& row) {
    const std::vector<Block> blocks =
        blocks_of(row.spans, clock_, [&](const Span& span) { return palette_->of_span(span); });
    if (blocks.empty()) return;
    svg_ += concat("<text class=\"tick end\" x=\"", px(kLeft - 6), "\" y=\"",
                   px(y_ + kBlockHeight - 2), "\">", escaped(row.name), "</text>\n");
    std::map<std::string, std::string> small;  // paths by colour
    std::string large;
    for (const Block& block : blocks) {
      colours_.insert(block.colour);
      if (block.span != nullptr && block.end - block.begin >= kRoomForPointer) {
        large +=
            concat("<rect class=\"", block.colour, "\" x=\"", px(block.begin), "\" y=\"", px(y_),
                   "\" width=\"", px(block.end - block.begin), "\" height=\"", px(kBlockHeight),
                   "\"><title>", escaped(describe(*block.span)), "</title></rect>\n");
      } else {
        small[block.colour] +=
            concat("M", px(block.begin), " ", px(y_), "h", px(block.end - block.begin), "v",
                   px(kBlockHeight), "h", px(block.begin - block.end), "z");
      }
    }
    for (const auto& [colour, path] : small) {
      svg_ += concat("<path class=\"", colour, "\" d=\"", path, "\"/>\n");
    }
    svg_ += large;
    y_ += kRowHeight;
  }

  const Palette* palette_;
  Scale clock_;
  Scale axis_;
  double y_ = 0;
  std::string svg_;
  std::set<std::string> colours_;
};

std::vector<LegendEntry> legend_of(const std::set<std::string>& colours, const Palette& palette) {
  std::vector<LegendEntry> entries = {
      {"compute", "compute"}, {"other", "between compute"}, {"wait", "waiting"}};
  for (const std::string& axes : palette.axes()) {
    entries.push_back({palette.of_axes(axes), "communication over " + axes});
  }
  std::erase_if(entries, [&](const LegendEntry& entry) { return !colours.contains(entry.colour); });
  return entries;
}

/// The ranks to draw: all, or those that the prediction is about and then the first ones.
std::vector<const RankTrace*> drawn(const RunData& run) {
  std::set<int> chosen;
  const auto choose = [&](int rank) {
    if (chosen.size() < kMostRanks) chosen.insert(rank);
  };
  if (run.predicted_part.empty()) {
    for (const RankTrace& trace : run.predicted) choose(trace.rank);
  }
  for (const RankTrace& trace : run.traces) choose(trace.rank);
  std::vector<const RankTrace*> traces;
  for (const RankTrace& trace : run.traces) {
    if (chosen.contains(trace.rank)) traces.push_back(&trace);
  }
  return traces;
}

/// The times of both steps, and what of them is drawn.
std::string explanation(const RunData& run, const Interval& measured, const Interval& predicted) {
  std::vector<std::string> parts;
  if (!measured.empty()) {
    const std::vector<const RankTrace*> some = drawn(run);
    parts.push_back(
        concat("Step ", run.traces.front().steps.front().number, ", ", measured.length()));
    if (some.size() < run.traces.size()) {
      const bool first = some.back() == &run.traces[some.size() - 1];
      parts.push_back(
          concat(first ? "the first " : "", some.size(), " of ", run.traces.size(), " ranks"));
    }
  }
  if (!predicted.empty()) {
    parts.push_back(
        run.predicted_part.empty()
            ? concat(measured.empty() ? "Predicted: " : "predicted: ", predicted.length())
            : concat(measured.empty() ? "The" : "the",
                     " prediction shows a part of a step: ", run.predicted_part));
  }
  return concat("<p>", escaped(join(parts, "; ")), ".</p>\n");
}

}  // namespace

std::string timeline_chart(const RunData& run, const Palette& palette) {
  const Interval measured = shown(run.traces);
  const Interval predicted = shown(run.predicted);
  const Seconds length = std::max(measured.length(), predicted.length());
  if (!(length > Seconds())) return "<p>No step was traced.</p>\n";
  std::string html = explanation(run, measured, predicted);
  const bool both = !measured.empty() && !predicted.empty();
  std::set<std::string> colours;
  if (!predicted.empty()) {
    Picture picture(palette, predicted, length);
    for (std::size_t i = 0; i < std::min(kMostRanks, run.predicted.size()); ++i) {
      const RankTrace& trace = run.predicted[i];
      picture.add(trace.place.empty() ? "every rank" : "ranks with " + trace.place, trace);
    }
    if (both) html += "<h3>Predicted</h3>\n";
    html += picture.finish("predicted", "what ranks were predicted to do during one step");
    colours = picture.colours();
  }
  if (!measured.empty()) {
    Picture picture(palette, measured, length);
    for (const RankTrace* trace : drawn(run)) picture.add(title_of(*trace), *trace);
    if (both) html += "<h3>Measured</h3>\n";
    html += picture.finish("timeline", "what each rank did during one step");
    colours.insert(picture.colours().begin(), picture.colours().end());
  }
  return html + legend(legend_of(colours, palette));
}

}  // namespace fourfold::report
