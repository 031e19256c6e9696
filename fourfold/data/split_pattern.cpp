// SPDX-License-Identifier: Apache-2.0
#include "fourfold/data/split_pattern.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "fourfold/base/error.hpp"
#include "fourfold/base/text.hpp"
#include "fourfold/data/utf8.hpp"

namespace fourfold::data {

namespace {

constexpr std::string_view kWhite =
    R"(\t-\r \x{85}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000})";

/// Oniguruma takes these letters for one character, such as U+00DF for "ss", if case is ignored.
constexpr std::array<std::string_view, 5> kJoined = {"ss", "ff", "fi", "fl", "st"};

constexpr int kMostRepeats = 1000;

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

bool is_lower(char c) {
  return c >= 'a' && c <= 'z';
}

bool is_upper(char c) {
  return c >= 'A' && c <= 'Z';
}

bool is_ascii(char c) {
  return static_cast<unsigned char>(c) < 0x80;
}

bool is_mark(char c) {
  return c > ' ' && c <= '~' && !is_digit(c) && !is_lower(c) && !is_upper(c);
}

/// For messages, which are one line of UTF-8.
char visible(char c) {
  return c >= ' ' && c <= '~' ? c : '?';
}

/// A part of a pattern in PCRE2's syntax, which may stand in a set as well.
struct Item {
  std::string text;
  bool single = true;  ///< one character, so that a range may begin or end with it
};

/// Reads the pattern from left to right; `out_` is what it means so far.
class Translator {
 public:
  explicit Translator(std::string_view pattern) : rest_(pattern) {}

  std::string run() {
    while (!rest_.empty()) element();
    if (!groups_.empty()) refuse("a group that is not closed");
    return std::move(out_);
  }

 private:
  struct Group {
    bool caseless = false;    // inside the group
    bool repeatable = false;  // lookahead and lookbehind are not
  };

  [[noreturn]] static void refuse(const std::string& what) {
    throw ConfigError(concat("it has ", what));
  }

  bool take(std::string_view text) {
    if (!rest_.starts_with(text)) return false;
    rest_.remove_prefix(text.size());
    return true;
  }

  char next() {
    if (rest_.empty()) refuse("an incomplete end");
    const char c = rest_.front();
    rest_.remove_prefix(1);
    return c;
  }

  bool caseless() const { return !groups_.empty() && groups_.back().caseless; }

  void element() {
    const char c = rest_.front();
    const bool is_literal = std::string_view("\\[]()|*+?{}.^$").find(c) == std::string_view::npos;
    if (!is_literal && c != ']' && c != '}') before_ = '\0';
    if (c == '^' || c == '$') refuse(concat("the anchor ", c));
    if (c == '(') return open();
    if (c == ')') return close();
    if (c == '*' || c == '+' || c == '?' || c == '{') return repeat();
    if (take("|")) {
      out_ += "|";
      repeatable_ = false;
      return;
    }
    if (take("[")) {
      out_ += set();
    } else if (take(".")) {
      out_ += R"([^\n])";
    } else if (c == '\\') {
      const Item item = escape(false);
      out_ += item.single ? item.text : "[" + item.text + "]";
    } else {
      out_ += literal();
    }
    repeatable_ = true;
  }

  void open() {
    next();
    Group group{.caseless = caseless(), .repeatable = true};
    if (!take("?") || take(":")) {
      out_ += "(?:";  // what a group has matched is never asked for
    } else if (take("i:")) {
      out_ += "(?i:";
      group.caseless = true;
    } else if (take(">")) {
      out_ += "(?>";
    } else {
      group.repeatable = false;
      const std::array<std::string_view, 4> looks = {"=", "!", "<=", "<!"};
      const auto* found = std::find_if(looks.begin(), looks.end(),
                                       [&](std::string_view look) { return take(look); });
      if (found == looks.end()) refuse(concat("an unknown group (?", visible(next())));
      out_ += concat("(?", *found);
    }
    groups_.push_back(group);
    repeatable_ = false;
  }

  void close() {
    next();
    if (groups_.empty()) refuse("a ) without a (");
    out_ += ")";
    repeatable_ = groups_.back().repeatable;
    groups_.pop_back();
  }

  void repeat() {
    if (!repeatable_) refuse("a repeat of nothing");
    repeatable_ = false;
    if (rest_.front() != '{') {
      out_ += next();
      if (!rest_.empty() && (rest_.front() == '?' || rest_.front() == '+')) out_ += next();
      return;
    }
    next();
    const std::optional<int> least = number();
    const bool open_end = take(",");
    const std::optional<int> most = open_end ? number() : least;
    if (!least || !take("}") || (most && *most < *least)) refuse("a { that is no repeat");
    // A ? or + behind it has another meaning in Oniguruma than in PCRE2.
    if (rest_.starts_with("?") || rest_.starts_with("+")) refuse("a ? or + behind a }");
    out_ += concat("{", *least, open_end ? "," : "", open_end && most ? concat(*most) : "", "}");
  }

  std::optional<int> number() {
    int value = 0;
    bool any = false;
    for (; !rest_.empty() && is_digit(rest_.front()); any = true) {
      value = value * 10 + (next() - '0');
      if (value > kMostRepeats) refuse(concat("more than ", kMostRepeats, " repeats"));
    }
    return any ? std::optional(value) : std::nullopt;
  }

  /// One character that stands for itself.
  std::string literal() {
    const char c = rest_.front();
    if (!is_ascii(c)) {
      if (caseless()) refuse("a character beyond ASCII whose case is ignored");
      const std::size_t length = character_length(rest_);
      if (length == 0) refuse("bytes that are not UTF-8");
      std::string character(rest_.substr(0, length));
      rest_.remove_prefix(length);
      before_ = '\0';
      return character;
    }
    next();
    if (caseless()) check_joined(c);
    before_ = c;
    return code(static_cast<unsigned char>(c));
  }

  /// Refuses letters that are together one character, if case is ignored.
  void check_joined(char c) const {
    const auto lower = [](char letter) {
      return is_upper(letter) ? static_cast<char>(letter - 'A' + 'a') : letter;
    };
    const std::string pair = {lower(before_), lower(c)};
    if (std::find(kJoined.begin(), kJoined.end(), pair) != kJoined.end()) {
      refuse(concat("\"", pair, "\" whose case is ignored"));
    }
  }

  /// The character in PCRE2's syntax.
  static std::string code(std::uint32_t character) {
    if (character < 0x80) {
      const char c = static_cast<char>(character);
      if (is_mark(c)) return {'\\', c};
      if (c >= ' ' && c != '\x7f') return {c};
    }
    constexpr char kDigits[] = "0123456789ABCDEF";
    std::string digits;
    for (int shift = 20; shift >= 0; shift -= 4) digits += kDigits[(character >> shift) & 15U];
    return "\\x{" + digits + "}";
  }

  Item escape(bool in_set) {
    next();
    before_ = '\0';
    const char c = next();
    switch (c) {
      case 'r':
      case 'n':
      case 't':
      case 'f':
        return {{'\\', c}};
      case 's':
        return {std::string(kWhite), false};
      case 'S':
        return {in_set ? R"(\S\x{180E})" : concat("^", kWhite), false};
      case 'd':
        return {R"(\p{Nd})", false};
      case 'D':
        return {R"(\P{Nd})", false};
      case 'p':
      case 'P':
        return property(c);
      case 'u':
        return {character(4)};
      case 'x': {
        if (take("{")) return {character(6)};
        if (!rest_.empty() && rest_.front() >= '8') refuse("a byte beyond ASCII");
        return {character(2)};
      }
      default:
        if (!is_mark(c)) refuse(concat("the escape \\", visible(c)));
        return {{'\\', c}};
    }
  }

  /// A character by its hexadecimal number; six digits stand for up to six and a brace behind them.
  std::string character(int digits) {
    std::uint32_t value = 0;
    int read = 0;
    for (; read < digits && !rest_.empty() && rest_.front() != '}'; ++read) {
      const char c = next();
      const char lower = is_upper(c) ? static_cast<char>(c - 'A' + 'a') : c;
      const auto digit = std::string_view("0123456789abcdef").find(lower);
      if (digit == std::string_view::npos) refuse("a character with a wrong number");
      value = value * 16 + static_cast<std::uint32_t>(digit);
    }
    const bool complete = digits == 6 ? read > 0 && take("}") : read == digits;
    const bool surrogate = value >= 0xd800 && value < 0xe000;
    if (!complete || surrogate || value > 0x10ffff) refuse("a character with a wrong number");
    if (caseless() && value >= 0x80) refuse("a character beyond ASCII whose case is ignored");
    return code(value);
  }

  /// \p{Lu} or \p{Han}. PCRE2 would take the name of a script alone for its extensions, too.
  Item property(char p) {
    const auto end = rest_.find('}');
    if (!take("{") || end == std::string_view::npos) refuse("a \\p without a name in braces");
    const std::string name(rest_.substr(0, end - 1));
    rest_.remove_prefix(end);
    const bool letters = std::all_of(name.begin(), name.end(),
                                     [](char c) { return is_lower(c) || is_upper(c) || c == '_'; });
    if (name.empty() || name.size() > 30 || !letters || !is_upper(name[0])) {
      refuse("an unknown name in \\p{}");
    }
    if (caseless() && (name == "Lu" || name == "Ll" || name == "Lt")) {
      refuse(concat("\\p{", name, "} whose case is ignored"));
    }
    return {concat("\\", p, "{", name.size() > 2 ? "sc:" : "", name, "}"), false};
  }

  /// What is behind the [ of a set, up to its ].
  std::string set() {
    std::string text = take("^") ? "[^" : "[";
    if (rest_.starts_with("]")) refuse("an empty set");
    while (!take("]")) {
      const Item item = set_item();
      text += item.text;
      if (!rest_.starts_with("-") || rest_.starts_with("-]")) continue;
      next();
      if (!item.single || rest_.starts_with("-")) refuse("a - in a set that is no range");
      const Item last = set_item();
      if (!last.single) refuse("a - in a set that is no range");
      text += "-" + last.text;
    }
    return text + "]";
  }

  Item set_item() {
    if (rest_.starts_with("\\")) return escape(true);
    if (rest_.starts_with("[")) refuse("a set within a set");
    if (rest_.starts_with("&&")) refuse("the intersection of sets");
    if (rest_.empty()) refuse("a set that is not closed");
    before_ = '\0';
    Item item{literal()};
    before_ = '\0';
    return item;
  }

  std::string_view rest_;
  std::string out_;
  std::vector<Group> groups_;
  bool repeatable_ = false;  // whether a repeat may follow
  char before_ = '\0';       // the letter before, if it is in ASCII and stands for itself
};

}  // namespace

std::string to_pcre2(std::string_view pattern) {
  return Translator(pattern).run();
}

}  // namespace fourfold::data
