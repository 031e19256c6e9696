// The words of other patterns than GPT-2's, and which patterns are taken.
// SPDX-License-Identifier: Apache-2.0
#include "fourfold/data/words.hpp"

#include <random>

#include "fourfold/data/split_pattern.hpp"

#include "tests/data/support.hpp"

namespace fourfold::test {
namespace {

using data::WordCutter;
using Words = std::vector<std::string_view>;

constexpr const char* kLlama3 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|)"
    R"(\s*[\r\n]+|\s+(?!\S)|\s+)";

Words cut(const std::string& pattern, std::string_view text) {
  return WordCutter({pattern}).cut(text);
}

std::string why(const std::string& pattern) {
  return refusal([&] { WordCutter({pattern}); });
}

TEST(TokenizersWords, OfLlama3) {
  EXPECT_EQ(cut(kLlama3, "Hello WE'LL 12345 x=1;\n\n  y\t.z"),
            (Words{"Hello", " WE", "'LL", " ", "123", "45", " x", "=", "1", ";\n\n", " ", " y",
                   "\t", ".z"}));
  EXPECT_EQ(cut(kLlama3, "it'\xc5\xbf \xe2\x84\xaa"), (Words{"it", "'\xc5\xbf", " \xe2\x84\xaa"}))
      << "the long s is an s if case is ignored";
  EXPECT_EQ(cut(kLlama3, "a \r\n b   "), (Words{"a", " \r\n", " b", "   "}));
  EXPECT_EQ(cut(kLlama3, "a\xff\xfe z"), (Words{"a", "\xff\xfe", " z"}));
}

TEST(TokenizersWords, OfOtherModels) {
  // GPT-4's
  const std::string gpt4 =
      R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|)"
      R"(\s++$|\s*[\r\n]|\s+(?!\S)|\s)";
  EXPECT_SAYS(why(gpt4), "it has a ? or + behind a }");
  EXPECT_EQ(cut(R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
                R"((?i:'s|'t)?|[\p{Lu}\p{M}]+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s+)",
                "HelloWorld's ABC+/"),
            (Words{"Hello", "World's", " ", "ABC", "+/"}));
  EXPECT_EQ(cut("[一-龥\\u3040-ゟ゠-ヿ]+", "ab漢字かなcd"), (Words{"ab", "漢字かな", "cd"}));
  EXPECT_EQ(cut(R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+)", "a]bc-d"),
            (Words{"a", "]bc", "-d"}));
  EXPECT_EQ(cut(R"(\p{Han}+|\P{Han})", "a漢字。"), (Words{"a", "漢字", "。"}));
}

TEST(TokenizersWords, SyntaxMeansTheSame) {
  EXPECT_EQ(cut(".", "a\nb\rc"), (Words{"a", "\n", "b", "\r", "c"}));
  EXPECT_EQ(cut("(a)(?:b|c)+?", "xabcb"), (Words{"x", "ab", "cb"}));
  EXPECT_EQ(cut("(?<=x)a|(?<!x)b|c(?=d)|(?>e+)f", "xabycdeef"),
            (Words{"x", "a", "b", "y", "c", "d", "eef"}));
  EXPECT_EQ(cut(R"([\s\S]{2})", "a\xe1\xa0\x8e\n"), (Words{"a\xe1\xa0\x8e", "\n"}));
  EXPECT_EQ(cut(R"(\s|\S{2})", "\xe1\xa0\x8e."), (Words{"\xe1\xa0\x8e."})) << "U+180E is no space";
  EXPECT_EQ(cut(R"(\d+|\D+)", "a\xd9\xa3"), (Words{"a", "\xd9\xa3"}));
  EXPECT_EQ(cut(R"(\x{1F600}|\x41|\u00e9)", "aA\xf0\x9f\x98\x80\xc3\xa9"),
            (Words{"a", "A", "\xf0\x9f\x98\x80", "\xc3\xa9"}));
  EXPECT_EQ(cut(R"([-a]|[b-]|[^\n-z{])", "-"), (Words{"-"}));
  EXPECT_EQ(cut("#a b", "x#a b"), (Words{"x", "#a b"}));
}

TEST(TokenizersWords, RefusesWhatMayMeanSomethingElse) {
  EXPECT_EQ(why("^a"), "it has the anchor ^");
  EXPECT_EQ(why("a$"), "it has the anchor $");
  EXPECT_EQ(why("a(?i)b"), "it has an unknown group (?i");
  EXPECT_EQ(why("(?<name>a)"), "it has an unknown group (?<");
  EXPECT_EQ(why("(*ACCEPT)a"), "it has a repeat of nothing");
  EXPECT_EQ(why("a**"), "it has a repeat of nothing");
  EXPECT_EQ(why("(?!a)*b"), "it has a repeat of nothing");
  EXPECT_EQ(why("a{2}?"), "it has a ? or + behind a }");
  EXPECT_EQ(why("a{,2}"), "it has a { that is no repeat");
  EXPECT_EQ(why("a{3,2}"), "it has a { that is no repeat");
  EXPECT_EQ(why("a{2000}"), "it has more than 1000 repeats");
  EXPECT_EQ(why(R"(\w)"), R"(it has the escape \w)");
  EXPECT_EQ(why(R"(a\Kb)"), R"(it has the escape \K)");
  EXPECT_EQ(why(R"((a)\1)"), R"(it has the escape \1)");
  EXPECT_EQ(why(R"(\xff)"), "it has a byte beyond ASCII");
  EXPECT_EQ(why(R"(\ud800)"), "it has a character with a wrong number");
  EXPECT_EQ(why(R"(\p{^L})"), R"(it has an unknown name in \p{})");
  EXPECT_EQ(why(R"(\pL)"), R"(it has a \p without a name in braces)");
  EXPECT_SAYS(why(R"(\p{Lx})"), "it is wrong: unknown property");
  EXPECT_EQ(why("[a[b]]"), "it has a set within a set");
  EXPECT_EQ(why("[[:alpha:]]"), "it has a set within a set");
  EXPECT_EQ(why("[a&&b]"), "it has the intersection of sets");
  EXPECT_EQ(why("[]a]"), "it has an empty set");
  EXPECT_EQ(why("[a"), "it has a set that is not closed");
  EXPECT_EQ(why(R"([\s-a])"), "it has a - in a set that is no range");
  EXPECT_SAYS(why("[b-a]"), "it is wrong: range out of order");
  EXPECT_EQ(why("a)"), "it has a ) without a (");
  EXPECT_EQ(why("\\"), "it has an incomplete end");
  EXPECT_EQ(why("(?i:é)"), "it has a character beyond ASCII whose case is ignored");
  EXPECT_EQ(why("(?i:mask|fiSh)"), "it has \"fi\" whose case is ignored");
  EXPECT_EQ(why(R"((?i:\p{Lu}))"), R"(it has \p{Lu} whose case is ignored)");
  EXPECT_EQ(why("a*"), "it may match an empty text");
  EXPECT_EQ(why(std::string(5000, 'a')), "it has more than 4096 bytes");
  EXPECT_SAYS(why("((a{1000}){1000}){1000}"), "it is wrong: ");
  EXPECT_SAYS(why(std::string(300, '(') + "a" + std::string(300, ')')), "it is wrong: ");
}

TEST(TokenizersWords, HostilePatternsEnd) {
  const WordCutter cutter({"(a+)+b"});
  EXPECT_SAYS(refusal([&] { cutter.cut(std::string(60, 'a') + "cb"); }),
              "the tokenizer's pattern (a+)+b cannot be used on this text: match limit exceeded");
  // Long texts of one kind are no trouble for usual patterns.
  const std::string spaces(1'000'000, ' ');
  EXPECT_EQ(cut(kLlama3, spaces), (Words{spaces}));
  const std::string letters(1'000'000, 'a');
  EXPECT_EQ(cut(kLlama3, letters), (Words{letters}));
}

TEST(TokenizersWords, AnyPatternEndsOrIsRefused) {
  const std::vector<std::string> parts = {
      "a",     "b",    " ",       "é",       "漢", "(",  ")",   "(?:",  "(?i:", "(?=",    "(?!",
      "(?<=",  "(?<!", "(?>",     "[",       "]",  "[^", "-",   "|",    "*",    "+",      "?",
      "{1,3}", "{2}",  "{",       "}",       ".",  "^",  "$",   "\\s",  "\\S",  "\\p{L}", "\\P{N}",
      "\\d",   "\\",   "\\x{41}", "\\u0041", "&&", "#",  "\\K", "(*F)", "\\C",  "\xff",   "\n"};
  std::mt19937 random(5);
  int taken = 0;
  for (int i = 0; i < 20'000; ++i) {
    std::string pattern;
    for (auto n = 1 + random() % 12; n > 0; --n) pattern += parts[random() % parts.size()];
    std::string text;
    for (auto n = random() % 30; n > 0; --n) text += parts[random() % parts.size()];
    const std::string problem = refusal([&] {
      const Words words = cut(pattern, text);
      ASSERT_EQ(join(words, ""), text) << pattern;
      ++taken;
    });
    ASSERT_FALSE(problem.starts_with("several lines")) << problem;
  }
  EXPECT_GT(taken, 500);
}

}  // namespace
}  // namespace fourfold::test
