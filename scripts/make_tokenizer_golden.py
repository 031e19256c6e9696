#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the golden files of tests/data/tokenizer_golden_test.cpp with Hugging Face's tokenizers library.

Run it in an environment with `pip install tokenizers`:  scripts/make_tokenizer_golden.py tests/data/golden

It trains two byte-level BPEs (one with Llama 3's words, one with GPT-2's) on generated text of many scripts
and writes, for each, NAME/tokenizer.json and NAME.ids: the ids of each of the first 200 lines of a text, then
a 32-bit checksum of the ids (FNV-1a) for each of the other lines. The lines themselves are not stored: the
test generates them again from fragments.json, with the same random numbers (SplitMix64).
"""
import json
import sys
from pathlib import Path

import tokenizers
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, processors, trainers

LINES = 10_000
COMPLETE = 200
VOCABULARY = 2_000

LLAMA3_WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|"
    r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)

FRAGMENTS = """
the quick brown fox jumps over a lazy dog while rain falls softly on old roofs and nobody hears it
Don't we'll THEY'VE I'm you're he'd it's CAN'T We'Ll 'Tis y'all's rock'n'roll ain't O'Reilly x'y ''s '' 'S
café naïve façade Übermut straße smörgåsbord Łódź příliš žluťoučký kůň İstanbul ıssız œuvre ﬁnd ﬆop
Ελλάδα καλημέρα κόσμε ὀξύς ᾳ Σίσυφος μῆνιν ἄειδε θεά
Привет мир съешь ещё этих мягких французских булок Київ њега Ѩ
مرحبا بالعالم كيف حالك؟ لا إله ﷺ ٣٤٥ ۴۵۶ قلبـــي
שלום עולם מה שלומך? בְּרֵאשִׁית ״ציטוט״
नमस्ते दुनिया क्षत्रिय हिन्दी १२३४ श्री ॐ
สวัสดีชาวโลก ภาษาไทยไม่มีช่องว่าง ๑๒๓
你好世界 漢字 中文分词 東京都 ㄅㄆㄇ 𠀀𠮷 〇 ，。「」
こんにちは 世界 カタカナ ﾊﾝｶｸ ひらがな ー 々 ゛
안녕하세요 세계 한글 ㅎㅎㅎ 각
ትግርኛ ខ្មែរ བོད་ Հայերեն ქართული ᏣᎳᎩ ᠮᠣᠩᠭᠣᠯ ⴰⵎⴰⵣⵉⵖ 𐌰𐌱 𝒳𝔂𝟘𝟙
😀 🙂 👍🏽 👩‍💻 👨‍👩‍👧‍👦 🏳️‍🌈 🇩🇪 ❤️ ☃ 🧑🏿‍🚀 ✨✨✨ 🤷🏻‍♀️
e\u0301 n\u0303 a\u0308\u0323 Z\u0351\u036b\u0343a\u030al\u0327go \u0301 q\u0307\u0323 \u093f
0 1 42 007 123 1234 12345 1234567890 3.14159 1,000,000 2²³ ½ Ⅻ ④ 0xFF 1e-9 -17
- -- --- ... ?! !!! #### $5 50% a@b.c http://x.y/z?q=1&r=2#f *bold* _it_ ~ ` ^ | \\\\ / <>
{ } [ ] ( ) ; : == != <= >= -> => += && || // /* */ def f(x): return x**2 if(x){y;} for(int i=0;i<n;++i) std::vector<int>
<b>html</b> &amp; "quoted" 'single' “curly” ‘quotes’ «guillemets» ‹› — – … • § ¶ © ® ™ € £ ¥ ° ± ×
\u017f 'ſ 'K \u212a it'\u017f \u0130 \u0149 ß ẞ ǅ ʼn '\u017fs
\u200b \u200c \u200d \u2060 \ufeff \u00ad \u180e a\u180eb \ufffd \ue000 \U000f0000 \u0378 \uffff
\\x00 \\x01 \\x1b[0m \\x7f \\x80 \\x9f
"""

# White space is drawn on its own, since the order of spaces and line ends is what words depend on most.
SPACES = [" ", " ", " ", " ", " ", " ", "  ", "   ", "        ", "\t", "\t\t", "\n", "\r\n", "\r", "\n\n", "\r\n\r\n",
          " \n", "\n ", "  \n  ", "\v", "\f", "\x1c", "\x85", "\xa0", "\u1680", "\u2000", "\u2003", "\u200a", "\u2028",
          "\u2029", "\u202f", "\u205f", "\u3000", " \u3000 ", "\xa0 ", "", "", ""]
SPECIAL = ["<|begin_of_text|>", "<|end_of_text|>", "<|eot_id|>", "<|start|>", "<|start|><|end|>", "<|endoftext|>",
           "<|endoftext|", "<|", "|>", "<tool call>", "<｜工具｜>", "<|begin_of_text|", "<|eot_id|>x"]


def fragments():
    words = []
    for line in FRAGMENTS.strip().split("\n"):
        for word in line.split(" "):
            for code in ("00", "01", "1b", "7f", "80", "9f"):
                word = word.replace("\\x" + code, chr(int(code, 16)))
            words.append(word.replace("\\\\", "\\"))
    return [w for w in words if w]


class Random:
    """SplitMix64."""

    def __init__(self, seed):
        self.state = seed

    def below(self, limit):
        mask = (1 << 64) - 1
        self.state = (self.state + 0x9E3779B97F4A7C15) & mask
        x = self.state
        x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & mask
        x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & mask
        return (x ^ (x >> 31)) % limit


def make_lines(words, characters):
    """The same as lines_of() of the test."""
    random = Random(2024)
    lines = []
    for _ in range(LINES):
        line = ""
        for _ in range(1 + random.below(12)):
            kind = random.below(32)
            if kind == 0:
                line += SPECIAL[random.below(len(SPECIAL))]
            elif kind < 8:  # letters of all scripts in any order
                for _ in range(1 + random.below(100 if kind == 1 else 8)):
                    line += characters[random.below(len(characters))]
            else:
                line += words[random.below(len(words))]
                if kind < 12:  # some words are joined and repeated
                    line += words[random.below(len(words))] * (1 + random.below(30 if kind == 8 else 3))
            line += SPACES[random.below(len(SPACES))]
        lines.append(line)
    return lines


def checksum(ids):
    value = 0x811C9DC5
    for number in ids:
        for shift in (0, 8, 16, 24):
            value = ((value ^ (number >> shift & 0xFF)) * 0x01000193) & 0xFFFFFFFF
    return value


def train(words, special, lines, ignore_merges):
    tokenizer = Tokenizer(models.BPE(ignore_merges=ignore_merges))
    tokenizer.pre_tokenizer = words
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(
        lines[::4],
        trainers.BpeTrainer(vocab_size=VOCABULARY, special_tokens=special, show_progress=False,
                            initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    return tokenizer


def llama3_like(lines):
    words = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(LLAMA3_WORDS), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer = train(words, [], lines, ignore_merges=True)
    # Added behind the vocabulary, as in Llama 3.
    tokenizer.add_special_tokens(["<|begin_of_text|>", "<|end_of_text|>", "<|eot_id|>"])
    tokenizer.add_tokens([AddedToken("<tool call>", normalized=True), AddedToken("<|start|>", normalized=False),
                          AddedToken("<|start|><|end|>", normalized=False), AddedToken("<｜工具｜>")])
    begin = tokenizer.token_to_id("<|begin_of_text|>")
    tokenizer.post_processor = processors.Sequence([
        processors.ByteLevel(trim_offsets=True),
        processors.TemplateProcessing(single="<|begin_of_text|> $A", pair="<|begin_of_text|> $A <|begin_of_text|> $B",
                                      special_tokens=[("<|begin_of_text|>", begin)])])
    return tokenizer


def gpt2_like(lines):
    tokenizer = train(pre_tokenizers.ByteLevel(add_prefix_space=False), ["<|endoftext|>"], lines, ignore_merges=False)
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    return tokenizer


def with_useless_words(path):
    """Moves a few merges of words to the end, so that ignore_merges makes a difference."""
    file = json.loads(path.read_text(encoding="utf-8"))
    merges = file["model"]["merges"]
    moved = [m for i, m in enumerate(merges) if i % 7 == 3 and len("".join(m)) > 4]
    file["model"]["merges"] = [m for m in merges if m not in moved] + moved[: len(moved) // 2]
    path.write_text(json.dumps(file, ensure_ascii=False, separators=(",", ":")), encoding="utf-8")


def write(folder, name, tokenizer, lines):
    place = folder / name
    place.mkdir(parents=True, exist_ok=True)
    path = place / "tokenizer.json"
    tokenizer.save(str(path), pretty=False)
    with_useless_words(path)
    tokenizer = Tokenizer.from_file(str(path))
    all_ids = [tokenizer.encode(line, add_special_tokens=False).ids for line in lines]
    with open(folder / f"{name}.ids", "w", encoding="ascii") as out:
        for ids in all_ids[:COMPLETE]:
            out.write(" ".join(map(str, ids)) + "\n")
        for ids in all_ids[COMPLETE:]:
            out.write(f"{checksum(ids):08x}\n")
    print(name, tokenizer.get_vocab_size(), "tokens,", sum(map(len, all_ids)), "ids of",
          sum(len(line.encode()) for line in lines), "bytes; tokenizers", tokenizers.__version__)


def main():
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    words = fragments()
    characters = sorted(set("".join(words)))
    parts = {"words": words, "characters": characters, "spaces": SPACES, "special": SPECIAL}
    (folder / "fragments.json").write_text(json.dumps(parts) + "\n", encoding="ascii")
    lines = make_lines(words, characters)
    write(folder, "llama3", llama3_like(lines), lines)
    write(folder, "gpt2", gpt2_like(lines), lines)


if __name__ == "__main__":
    main()
