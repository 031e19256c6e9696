// SPDX-License-Identifier: Apache-2.0
#include "fourfold/formats/schedule_json.hpp"

#include <limits>
#include <span>

#include "fourfold/base/check.hpp"
#include "fourfold/formats/json_text.hpp"

namespace fourfold::formats {

namespace {

using schedule::Arithmetic;
using schedule::Collective;
using schedule::Compute;
using schedule::DType;
using schedule::Issue;
using schedule::Op;
using schedule::Priority;
using schedule::Reach;
using schedule::ReduceOp;
using schedule::Wait;
using Json = nlohmann::ordered_json;

constexpr std::array kDTypes = {DType::kF64, DType::kF32, DType::kBF16, DType::kI64};
constexpr std::array kOps = {Op::kAllReduce, Op::kAllGather, Op::kReduceScatter, Op::kBroadcast,
                             Op::kReduce,    Op::kSend,      Op::kRecv,          Op::kBarrier};
constexpr std::array kReduceOps = {ReduceOp::kSum, ReduceOp::kMax};
constexpr std::array kPriorities = {Priority::kUrgent, Priority::kBackground};
constexpr std::array kReaches = {Reach::kHost, Reach::kNetwork};

bool reduces(Op op) {
  return op == Op::kAllReduce || op == Op::kReduceScatter || op == Op::kReduce;
}
bool has_root(Op op) {
  return op == Op::kBroadcast || op == Op::kReduce || op == Op::kSend || op == Op::kRecv;
}

// --- writing

Json to_json(const Compute& step) {
  const Arithmetic& a = step.arithmetic;
  Json json = {{"compute", step.name}};
  if (!step.layer.empty()) json["layer"] = step.layer;
  json["phase"] = to_string(step.phase);
  json["work"] = to_string(a.work);
  json["dtype"] = to_string(a.dtype);
  if (a.extent != schedule::Extent()) json["extent"] = {a.extent.m, a.extent.k, a.extent.n};
  json["flops"] = a.flops.value();
  json["bytes"] = a.bytes.value();
  if (a.widened) json["widened"] = true;
  return json;
}

Json to_json(const Issue& step) {
  const Collective& c = step.collective;
  Json json = {{"issue", to_string(c.op)}};
  if (c.op != Op::kBarrier) {
    json["dtype"] = to_string(c.dtype);
    json["count"] = c.count;
  }
  if (reduces(c.op)) json["reduce"] = to_string(c.reduce);
  if (has_root(c.op)) json["root"] = c.root;
  json["priority"] = to_string(c.priority);
  json["axes"] = Json::array();
  for (const grid::Axis axis : step.axes) json["axes"].push_back(to_string(axis));
  json["group_size"] = step.group_size;
  json["index"] = step.index;
  json["lane"] = step.lane;
  json["reach"] = to_string(step.reach);
  return json;
}

Json to_json(const Wait& step) {
  return {{"wait", step.number}};
}

// --- reading

/// The members of one step. Each function says in its error which step and member is wrong.
class Reader {
 public:
  Reader(const Json& object, std::size_t number, const std::filesystem::path& path)
      : object_(object), number_(number), path_(path) {
    if (!object.is_object()) refuse("is no object");
  }

  [[noreturn]] void refuse(const std::string& what) const {
    refuse_file(path_, concat("step ", number_, " of its schedule ", what));
  }

  bool has(const char* name) const { return object_.contains(name); }

  std::string text(const char* name) const {
    const Json& value = member(name);
    if (!value.is_string()) refuse(concat("has ", in_quotes(name), " that is no text"));
    return value.get<std::string>();
  }

  /// A whole number in these bounds.
  std::int64_t whole(const char* name, std::int64_t low, std::int64_t high) const {
    return whole(member(name), name, low, high);
  }
  int whole_int(const char* name, int low) const {
    return static_cast<int>(whole(name, low, std::numeric_limits<int>::max()));
  }

  /// False where it is not given.
  bool flag(const char* name) const {
    if (!has(name)) return false;
    const Json& value = member(name);
    if (!value.is_boolean()) refuse(concat("has ", in_quotes(name), " that is not true or false"));
    return value.get<bool>();
  }

  double number(const char* name) const {
    const Json& value = member(name);
    if (!value.is_number() || value.get<double>() < 0) {
      refuse(concat("has ", in_quotes(name), " that is no number of at least 0"));
    }
    return value.get<double>();
  }

  /// The one of `values` that has this name.
  template <class Value>
  Value one_of(const char* name, std::span<const Value> values) const {
    const std::string given = text(name);
    std::vector<std::string_view> names;
    for (const Value value : values) {
      if (to_string(value) == given) return value;
      names.push_back(to_string(value));
    }
    refuse(
        concat("has ", in_quotes(name), " ", in_quotes(given), "; it can be ", join(names, ", ")));
  }

  schedule::Extent extent() const {
    if (!has("extent")) return {};
    const Json& list = member("extent");
    if (!list.is_array() || list.size() != 3) refuse("has 'extent' that is no list of 3 numbers");
    const auto at = [&](std::size_t i) { return whole(list[i], "extent", 0, kMost); };
    return {at(0), at(1), at(2)};
  }

  grid::Axes axes() const {
    const Json& list = member("axes");
    if (!list.is_array()) refuse("has 'axes' that is no list");
    std::vector<grid::Axis> axes;
    for (const Json& name : list) {
      if (!name.is_string()) refuse("has 'axes' that is no list of names");
      try {
        axes.push_back(grid::parse_axis(name.get<std::string>()));
      } catch (const ConfigError& error) {
        refuse(concat("has 'axes' in which ", error.what()));
      }
      if (std::ranges::count(axes, axes.back()) > 1) {
        refuse(concat("has 'axes' with ", axes.back(), " twice"));
      }
    }
    return grid::Axes(std::move(axes));
  }

  static constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();

 private:
  const Json& member(const char* name) const {
    const auto found = object_.find(name);
    if (found == object_.end()) refuse(concat("has no ", in_quotes(name)));
    return *found;
  }

  std::int64_t whole(const Json& value, const char* name, std::int64_t low,
                     std::int64_t high) const {
    // A number above the largest one of 64 bits with a sign is stored without a sign.
    const bool fits = value.is_number_integer() &&
                      (!value.is_number_unsigned() ||
                       value.get<std::uint64_t>() <= static_cast<std::uint64_t>(kMost));
    if (!fits || value.get<std::int64_t>() < low || value.get<std::int64_t>() > high) {
      refuse(concat("has ", in_quotes(name), " that is no whole number of at least ", low,
                    high == kMost ? "" : concat(" and at most ", high)));
    }
    return value.get<std::int64_t>();
  }

  const Json& object_;
  std::size_t number_;
  const std::filesystem::path& path_;
};

template <class Value, std::size_t kCount>
Value read(const Reader& step, const char* name, const std::array<Value, kCount>& values) {
  return step.one_of(name, std::span<const Value>(values));
}

void read_compute(const Reader& step, schedule::Schedule& schedule) {
  const Arithmetic arithmetic{.work = read(step, "work", schedule::kAllWorks),
                              .dtype = read(step, "dtype", kDTypes),
                              .extent = step.extent(),
                              .flops = Flops(step.number("flops")),
                              .bytes = Bytes(step.whole("bytes", 0, Reader::kMost)),
                              .widened = step.flag("widened")};
  schedule.compute({step.text("compute"), arithmetic, read(step, "phase", schedule::kAllPhases),
                    step.has("layer") ? step.text("layer") : ""});
}

void read_issue(const Reader& step, schedule::Schedule& schedule) {
  Collective c{.op = read(step, "issue", kOps), .priority = read(step, "priority", kPriorities)};
  const int size = step.whole_int("group_size", 1);
  const auto index = static_cast<int>(step.whole("index", 0, size - 1));
  if (c.op != Op::kBarrier) {
    c.dtype = read(step, "dtype", kDTypes);
    c.count = step.whole("count", 0, Reader::kMost / size_of(c.dtype));
  }
  if (reduces(c.op)) c.reduce = read(step, "reduce", kReduceOps);
  if (has_root(c.op)) c.root = static_cast<int>(step.whole("root", 0, size - 1));
  schedule.issue(c, step.axes(), size, index, step.whole_int("lane", 0),
                 read(step, "reach", kReaches));
}

void read_step(const Reader& step, std::int64_t operations, schedule::Schedule& schedule) {
  if (step.has("compute")) return read_compute(step, schedule);
  if (step.has("issue")) return read_issue(step, schedule);
  if (!step.has("wait")) step.refuse("is neither 'compute' nor 'issue' nor 'wait'");
  schedule.wait(step.whole("wait", -operations, schedule.operations() - 1));
}

}  // namespace

std::string schedule_json(const schedule::Schedule& schedule) {
  std::string text = "[";
  for (const schedule::Step& step : schedule.steps()) {
    text += text.size() > 1 ? ",\n" : "\n";
    text += std::visit([](const auto& one) { return to_json(one); }, step).dump();
  }
  return text + "\n]";
}

schedule::Schedule parse_schedule(std::string_view text, const std::filesystem::path& path) {
  Json json = Json::parse(text, nullptr, false);
  if (json.is_discarded()) refuse_file(path, "it is no JSON");
  if (json.is_object() && json.contains("schedule")) json = Json(std::move(json["schedule"]));
  if (!json.is_array()) refuse_file(path, "it has no list of the steps of a schedule");
  std::int64_t operations = 0;
  for (const Json& step : json) operations += step.is_object() && step.contains("issue") ? 1 : 0;
  schedule::Schedule schedule;
  for (std::size_t i = 0; i < json.size(); ++i) {
    read_step(Reader(json[i], i, path), operations, schedule);
  }
  return schedule;
}

}  // namespace fourfold::formats
