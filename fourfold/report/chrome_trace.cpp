// SPDX-License-Identifier: Apache-2.0
#include "fourfold/report/chrome_trace.hpp"

#include <algorithm>
#include <cmath>

#include <nlohmann/json.hpp>

#include "fourfold/base/text.hpp"

namespace fourfold::report {

using comm::Span;
using Json = nlohmann::ordered_json;

namespace {

class Writer {
 public:
  explicit Writer(Seconds origin) : origin_(origin) {}

  void name(const char* what, int rank, std::size_t row, const std::string& text) {
    add({{"ph", "M"}, {"name", what}, {"pid", rank}, {"tid", row}, {"args", {{"name", text}}}});
  }
  void sort(const char* what, int rank, std::size_t row, std::size_t place) {
    add({{"ph", "M"},
         {"name", what},
         {"pid", rank},
         {"tid", row},
         {"args", {{"sort_index", place}}}});
  }

  void span(int rank, std::size_t row, const std::string& label, const char* category,
            Seconds begin, Seconds end, Json args) {
    // Times are whole nanoseconds, so that adjacent spans do not overlap after rounding.
    const auto from = nanoseconds(begin);
    const auto to = nanoseconds(end);
    add({{"ph", "X"},
         {"name", label},
         {"cat", category},
         {"pid", rank},
         {"tid", row},
         {"ts", static_cast<double>(from) / 1000},
         {"dur", static_cast<double>(to - from) / 1000},
         {"args", std::move(args)}});
  }

  std::string text() const {
    return concat("{\"displayTimeUnit\": \"ms\", \"traceEvents\": [\n", text_, "\n]}\n");
  }

 private:
  long long nanoseconds(Seconds time) const { return std::llround((time - origin_).value() * 1e9); }
  void add(const Json& event) {
    if (!text_.empty()) text_ += ",\n";
    text_ += event.dump();
  }

  Seconds origin_;
  std::string text_;
};

void write_span(Writer& writer, int rank, std::size_t row, const Span& span) {
  Json args = {{"step", span.step}, {"kind", span.name}};
  if (!span.layer.empty()) args["layer"] = span.layer;
  if (span.bytes > Bytes()) args["bytes"] = span.bytes.value();
  if (span.flops > Flops()) args["flops"] = span.flops.value();
  if (!span.axes.empty()) args["axes"] = span.axes;
  if (span.work) args["work"] = schedule::to_string(*span.work);
  if (span.phase) args["phase"] = schedule::to_string(*span.phase);
  switch (span.kind) {
    case Span::Kind::kCompute:
      writer.span(rank, row, label_of(span), "compute", span.begin, span.end, std::move(args));
      return;
    case Span::Kind::kWait:
      writer.span(rank, row, concat("wait: ", label_of(span), " ", span.axes), "wait", span.begin,
                  span.end, std::move(args));
      return;
    case Span::Kind::kOperation:
      // This is the time in the queue of its lane. It is unknown for operations from before the
      // trace.
      if (span.issued > Seconds()) args["queued_us"] = (span.begin - span.issued).value() * 1e6;
      writer.span(rank, row, concat(label_of(span), " ", span.axes), "communication", span.begin,
                  span.end, std::move(args));
      return;
  }
}

}  // namespace

std::string chrome_trace(const std::vector<RankTrace>& traces) {
  Seconds origin(INFINITY);
  for (const RankTrace& trace : traces) {
    for (const Span& span : trace.spans) origin = std::min(origin, span.begin);
    for (const comm::Timeline::Step& step : trace.steps) origin = std::min(origin, step.begin);
  }
  Writer writer(origin);
  for (const RankTrace& trace : traces) {
    writer.name("process_name", trace.rank, 0, title_of(trace));
    writer.sort("process_sort_index", trace.rank, 0, static_cast<std::size_t>(trace.rank));
    for (const comm::Timeline::Step& step : trace.steps) {
      writer.span(trace.rank, 0, concat("step ", step.number), "step", step.begin, step.end,
                  {{"step", step.number}});
    }
    const std::vector<Row> rows = rows_of(trace);
    for (std::size_t row = 0; row < rows.size(); ++row) {
      writer.name("thread_name", trace.rank, row, rows[row].name);
      writer.sort("thread_sort_index", trace.rank, row, row);
      for (const Span& span : rows[row].spans) write_span(writer, trace.rank, row, span);
    }
  }
  return writer.text();
}

}  // namespace fourfold::report
