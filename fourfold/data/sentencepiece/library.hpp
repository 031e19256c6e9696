// SentencePiece behind an interface of our own, loaded when it is first used.
//
// The library of SentencePiece exports a copy of protobuf that clashes with that of libtorch when
// both are loaded into one process in the usual way. So the code that uses it is in a module of its
// own, which is loaded so that the two copies do not see each other (docs/decisions/009).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace fourfold::data::sentencepiece_module {

/// What a token stands for.
struct Piece {
  std::string text;  ///< as SentencePiece writes it
  bool byte = false;
  bool silent = false;  ///< stands for no text: control and unknown tokens
};

class Model {
 public:
  virtual ~Model() = default;
  virtual std::vector<Piece> pieces() const = 0;
  virtual int unknown() const = 0;      ///< the token for unknown text
  virtual int end_of_text() const = 0;  ///< the token for the end of a text, -1 if there is none
  /// Throws InvariantError when SentencePiece fails.
  virtual std::vector<int> encode(std::string_view text) const = 0;
};

class Library {
 public:
  virtual ~Library() = default;

  /// The result of an operation that may fail. Then `problem` has SentencePiece's own message.
  struct Trained {
    std::string model;
    std::string problem;
  };
  using Options = std::unordered_map<std::string, std::string>;
  virtual Trained train(const std::vector<std::string>& sentences,
                        const Options& options) const = 0;

  struct Loaded {
    std::unique_ptr<Model> model;
    std::string problem;
  };
  virtual Loaded load(std::string_view serialised) const = 0;
};

/// Throws Error when the module or SentencePiece is not installed.
const Library& library();

/// The module's only symbol.
inline constexpr const char* kEntry = "fourfold_sentencepiece_library";
using Entry = const Library* (*)();

}  // namespace fourfold::data::sentencepiece_module
