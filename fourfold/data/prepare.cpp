// SPDX-License-Identifier: Apache-2.0
#include "fourfold/data/prepare.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <unistd.h>
#include <vector>

#include "fourfold/base/error.hpp"
#include "fourfold/base/text.hpp"
#include "fourfold/data/bpe_trainer.hpp"
#include "fourfold/data/mix.hpp"
#include "fourfold/data/permutation.hpp"
#include "fourfold/data/prepared_entry.hpp"
#include "fourfold/data/scratch_folder.hpp"
#include "fourfold/data/text_files.hpp"
#include "fourfold/data/token_writer.hpp"
#include "fourfold/data/tokenizer.hpp"

namespace fourfold::data {

namespace {

namespace fs = std::filesystem;

/// Must be increased when the same spec gives other tokens than before.
constexpr std::uint64_t kFormat = 2;

constexpr std::int64_t kMostPieceBytes = 4096;
constexpr std::int64_t kLeastPieceBytes = 64;
constexpr std::int64_t kPiecesWanted = 512;  // so that the shares of small texts are right

/// Independent choices among the same pieces.
enum class Choice : std::uint64_t { kValidation = 1, kLearning = 2 };

/// A fixed random choice of `share` of all pieces. The choice is made among neighbours, so that
/// short texts and every part of a long text contribute their share, up to a piece or two.
bool chosen(Choice choice, std::int64_t piece, double share) {
  constexpr std::int64_t kNeighbours = 64;
  const std::int64_t block = piece / kNeighbours;
  const std::int64_t shuffled =
      block * kNeighbours + permute(kNeighbours, static_cast<std::uint64_t>(choice),
                                    static_cast<std::uint64_t>(block), piece % kNeighbours);
  const auto before = [&](std::int64_t n) { return std::floor(static_cast<double>(n) * share); };
  return before(shuffled + 1) > before(shuffled);
}

/// Reports every further hundredth of a task to the caller.
class Task {
 public:
  Task(const PrepareSpec& spec, std::string_view name, std::int64_t total)
      : spec_(spec), name_(name), total_(std::max<std::int64_t>(total, 1)) {
    report();
  }

  void add(std::int64_t amount) {
    done_ += amount;
    if (done_ >= next_ || done_ == total_) report();
  }

 private:
  void report() {
    next_ = done_ + std::max<std::int64_t>(total_ / 100, 1);
    const double share = static_cast<double>(done_) / static_cast<double>(total_);
    if (spec_.progress) spec_.progress(name_, std::min(share, 1.0));
  }

  const PrepareSpec& spec_;
  std::string_view name_;
  std::int64_t total_;
  std::int64_t done_ = 0;
  std::int64_t next_ = 0;
};

/// One stream of tokens, with an end-of-text token between files.
struct Stream {
  Stream(const std::string& folder, std::int64_t vocabulary) : writer(folder, vocabulary) {}

  void append(const std::vector<std::int32_t>& tokens, std::size_t from, std::int32_t end_of_text) {
    const bool other_file = writer.size() > 0 && from != file;
    if (other_file && end_of_text >= 0) writer.append(std::span(&end_of_text, 1));
    writer.append(tokens);
    file = from;
  }

  TokenWriter writer;
  std::size_t file = 0;
};

void check_spec(const PrepareSpec& spec) {
  if (!(spec.validation >= 0.0 && spec.validation < 1.0)) {
    throw ConfigError(concat("data.validation = ", spec.validation,
                             " is not a share from 0 to below 1: try 0.1"));
  }
  if (!spec.tokenizer_folder.empty()) return;
  if (spec.tokenizer != "bpe" && spec.tokenizer != "bytes") {
    throw ConfigError(
        concat("data.tokenizer = \"", spec.tokenizer, "\" is unknown: \"bpe\" or \"bytes\""));
  }
  if (spec.tokenizer == "bytes" && spec.vocabulary != 0 && spec.vocabulary != 256) {
    throw ConfigError(concat("model.vocab = ", spec.vocabulary,
                             " does not go with data.tokenizer = \"bytes\": leave it out"));
  }
  if (spec.tokenizer == "bpe" && spec.vocabulary < 1) {
    throw ConfigError(
        concat("model.vocab = ", spec.vocabulary, " is not a size of a vocabulary: try 1024"));
  }
}

/// The name of an entry, from everything that the result depends on.
std::string entry_name(const PrepareSpec& spec, const TextFiles& text) {
  Digest digest;
  digest.add(kFormat);
  digest.add(spec.tokenizer);
  digest.add(spec.tokenizer == "bytes" ? 0 : static_cast<std::uint64_t>(spec.vocabulary));
  if (!spec.tokenizer_folder.empty()) digest.add(tokenizer_digest(spec.tokenizer_folder));
  digest.add(std::bit_cast<std::uint64_t>(spec.validation));
  digest.add(static_cast<std::uint64_t>(spec.learn_bytes));
  digest.add(text.root);
  for (const TextFile& file : text.files) {
    digest.add(file.name);
    digest.add(static_cast<std::uint64_t>(file.size));
    digest.add(static_cast<std::uint64_t>(file.changed));
  }
  return "tokens-" + digest.text();
}

/// Makes one entry of the cache.
class Preparation {
 public:
  Preparation(const PrepareSpec& spec, TextFiles text) : spec_(spec), text_(std::move(text)) {}

  /// Fills `folder`, which must be empty.
  void run(const std::string& folder) {
    choose_files();
    const auto tokenizer = make_tokenizer();
    fs::create_directory(folder + "/" + kTokenizerFolder);
    tokenizer->save(folder + "/" + kTokenizerFolder);
    encode(*tokenizer, folder);
    if (list_text(spec_.text) != text_) fail("it changed while it was read; try again");
    describe_entry(prepared_, folder);
  }

 private:
  [[noreturn]] void fail(const std::string& why) const {
    throw ConfigError(concat("data.text = ", spec_.text, ": ", why));
  }

  /// Leaves out files that are not text.
  void choose_files() {
    Task task(spec_, "reading", total_bytes(text_.files));
    prepared_.files_skipped = text_.skipped;
    for (const TextFile& file : text_.files) {
      const bool any = !text_.folder && spec_.tokenizer == "bytes";
      const Content content = any ? Content::kText : inspect(file);
      if (content == Content::kText) {
        used_.push_back(file);
      } else if (text_.folder) {
        ++prepared_.files_skipped;
      } else {
        fail(concat(content == Content::kBinary ? "it is binary" : "it is not UTF-8",
                    "; data.tokenizer = \"bytes\" takes any file"));
      }
      task.add(file.size);
    }
    prepared_.files_used = static_cast<std::int64_t>(used_.size());
    prepared_.bytes = total_bytes(used_);
    if (prepared_.bytes == 0) fail("there is no text in it");
  }

  static std::int64_t total_bytes(const std::vector<TextFile>& files) {
    std::int64_t bytes = 0;
    for (const TextFile& file : files) bytes += file.size;
    return bytes;
  }

  /// Calls `use(piece, its number, the number of its file)` for every piece of the text.
  template <class Use>
  void for_each_piece(const Use& use) const {
    const auto piece_bytes = static_cast<std::size_t>(
        std::clamp(prepared_.bytes / kPiecesWanted, kLeastPieceBytes, kMostPieceBytes));
    std::int64_t number = 0;
    for (std::size_t file = 0; file < used_.size(); ++file) {
      PieceReader reader(used_[file], piece_bytes);
      for (std::string_view piece; reader.next(piece);) use(piece, number++, file);
    }
  }

  bool for_validation(std::int64_t piece) const {
    return chosen(Choice::kValidation, piece, spec_.validation);
  }

  std::unique_ptr<Tokenizer> make_tokenizer() const {
    if (!spec_.tokenizer_folder.empty()) return load_tokenizer(spec_.tokenizer_folder);
    return spec_.tokenizer == "bytes" ? make_byte_tokenizer() : learn();
  }

  std::unique_ptr<Tokenizer> learn() const {
    const double share = static_cast<double>(spec_.learn_bytes) /
                         (static_cast<double>(prepared_.bytes) * (1.0 - spec_.validation));
    BpeTrainer trainer(spec_.learn_bytes);
    Task task(spec_, "learning", prepared_.bytes);
    for_each_piece([&](std::string_view piece, std::int64_t number, std::size_t) {
      if (!for_validation(number) && chosen(Choice::kLearning, number, share)) trainer.add(piece);
      task.add(static_cast<std::int64_t>(piece.size()));
    });
    try {
      return trainer.train(spec_.vocabulary);
    } catch (const ConfigError& error) {
      fail(concat(error.what(), " (model.vocab)"));
    }
  }

  void encode(const Tokenizer& tokenizer, const std::string& folder) {
    prepared_.vocabulary = tokenizer.vocabulary();
    Stream train(folder + "/" + kTrainFolder, prepared_.vocabulary);
    Stream validation(folder + "/" + kValidationFolder, prepared_.vocabulary);
    Task task(spec_, "encoding", prepared_.bytes);
    for_each_piece([&](std::string_view piece, std::int64_t number, std::size_t file) {
      Stream& stream = for_validation(number) ? validation : train;
      stream.append(tokenizer.encode(piece), file, tokenizer.end_of_text());
      task.add(static_cast<std::int64_t>(piece.size()));
    });
    prepared_.train_tokens = train.writer.size();
    prepared_.validation_tokens = validation.writer.size();
    const bool lacks_validation = spec_.validation > 0 && prepared_.validation_tokens == 0;
    if (prepared_.train_tokens == 0 || lacks_validation) {
      fail(concat("it has too little text (", prepared_.bytes,
                  " bytes) for data.validation = ", spec_.validation));
    }
    train.writer.commit();
    if (spec_.validation > 0) validation.writer.commit();
  }

  const PrepareSpec& spec_;
  TextFiles text_;
  std::vector<TextFile> used_;
  Prepared prepared_;
};

/// The folder of the cache, which is made if it does not exist.
std::string open_cache(const PrepareSpec& spec, const TextFiles& text) {
  const std::string cache = spec.cache.empty() ? default_cache_folder() : spec.cache;
  std::error_code error;
  fs::create_directories(cache, error);
  const fs::path real = error ? fs::path() : fs::canonical(cache, error);
  if (error) {
    throw ConfigError(concat("data.cache = ", cache, " cannot be created: ", error.message()));
  }
  const fs::path inside = real.lexically_relative(text.root);
  if (text.folder && !inside.empty() && *inside.begin() != "..") {
    throw ConfigError(concat("data.cache = ", cache, " lies in data.text = ", spec.text,
                             ": it would become part of the text"));
  }
  return real.string();
}

/// Renames what is in the entry's place to a name that nobody looks for, and removes it.
void remove_entry(const std::string& place) {
  const std::string aside = concat(place, ".damaged-", ::getpid());
  std::error_code error;
  fs::rename(place, aside, error);
  if (error && error != std::errc::no_such_file_or_directory) {
    throw IoError(concat("the damaged ", place, " cannot be removed: ", error.message()));
  }
  fs::remove_all(aside, error);
}

}  // namespace

Prepared prepare(const PrepareSpec& spec) {
  check_spec(spec);
  TextFiles text = list_text(spec.text);
  const std::string place = open_cache(spec, text) + "/" + entry_name(spec, text);
  if (auto found = load_entry(place)) {
    found->from_cache = true;
    return *found;
  }
  ScratchFolder scratch(place);
  Preparation(spec, std::move(text)).run(scratch.path());
  // Another process may have been faster. Its entry is the same, and others may be reading it.
  while (!scratch.commit()) {
    if (auto found = load_entry(place)) return *found;
    remove_entry(place);
  }
  auto made = load_entry(place);
  if (!made) throw IoError(concat(place, " was written but cannot be read"));
  return *made;
}

std::string default_cache_folder() {
  const auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string(value == nullptr ? "" : value);
  };
  if (const std::string cache = variable("XDG_CACHE_HOME"); !cache.empty()) {
    return cache + "/fourfold";
  }
  if (const std::string home = variable("HOME"); !home.empty()) return home + "/.cache/fourfold";
  const std::string temporary = variable("TMPDIR");
  return concat(temporary.empty() ? "/tmp" : temporary, "/fourfold-", ::getuid());
}

}  // namespace fourfold::data
