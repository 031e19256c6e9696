// The module that is linked with SentencePiece. Nothing else may be linked with it.
// SPDX-License-Identifier: Apache-2.0
#include <sentencepiece_processor.h>
#include <sentencepiece_trainer.h>

#include "fourfold/base/check.hpp"
#include "fourfold/data/sentencepiece/library.hpp"

namespace fourfold::data::sentencepiece_module {

namespace {

class Sentences : public sentencepiece::SentenceIterator {
 public:
  explicit Sentences(const std::vector<std::string>& sentences) : sentences_(sentences) {}

  bool done() const override { return at_ == sentences_.size(); }
  void Next() override { ++at_; }
  const std::string& value() const override { return sentences_[at_]; }
  sentencepiece::util::Status status() const override { return {}; }

 private:
  const std::vector<std::string>& sentences_;
  std::size_t at_ = 0;
};

class Processor : public Model {
 public:
  sentencepiece::SentencePieceProcessor processor;

  std::vector<Piece> pieces() const override {
    std::vector<Piece> all;
    for (int token = 0; token < processor.GetPieceSize(); ++token) {
      all.push_back({processor.IdToPiece(token), processor.IsByte(token),
                     processor.IsControl(token) || processor.IsUnknown(token)});
    }
    return all;
  }
  int unknown() const override { return processor.unk_id(); }
  int end_of_text() const override { return processor.eos_id(); }

  std::vector<int> encode(std::string_view text) const override {
    std::vector<int> tokens;
    const auto status = processor.Encode(text, &tokens);
    FOURFOLD_CHECK(status.ok(), status.ToString());
    return tokens;
  }
};

class SentencePiece : public Library {
 public:
  Trained train(const std::vector<std::string>& sentences, const Options& options) const override {
    Trained result;
    Sentences iterator(sentences);
    const auto status =
        sentencepiece::SentencePieceTrainer::Train(options, &iterator, &result.model);
    if (!status.ok()) result.problem = status.ToString();
    return result;
  }

  Loaded load(std::string_view serialised) const override {
    Loaded result;
    auto model = std::make_unique<Processor>();
    const auto status = model->processor.LoadFromSerializedProto(serialised);
    if (status.ok()) {
      result.model = std::move(model);
    } else {
      result.problem = status.ToString();
    }
    return result;
  }
};

}  // namespace

extern "C" const Library* fourfold_sentencepiece_library() {
  static const SentencePiece kLibrary;
  return &kLibrary;
}

}  // namespace fourfold::data::sentencepiece_module
