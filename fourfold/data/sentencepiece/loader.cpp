// SPDX-License-Identifier: Apache-2.0
#include <dlfcn.h>

#include "fourfold/base/error.hpp"
#include "fourfold/base/text.hpp"
#include "fourfold/data/sentencepiece/library.hpp"

namespace fourfold::data::sentencepiece_module {

namespace {

#ifdef FOURFOLD_ADDRESS_SANITIZER
constexpr int kOwnSymbolsFirst = 0;  // impossible with the sanitizer; no libtorch there
#else
constexpr int kOwnSymbolsFirst = RTLD_DEEPBIND;
#endif

const Library& open() {
  // The module is found by the run path of the program. With a sanitizer between us and the loader,
  // the loader does not know whose path it is, and the module is found in the build's folder. It is
  // never closed, since tokenizers may live until the end.
  constexpr int kHow = RTLD_NOW | RTLD_LOCAL | kOwnSymbolsFirst;
  void* module = dlopen("libfourfold_sentencepiece.so", kHow);
  if (module == nullptr) module = dlopen(FOURFOLD_MODULE_DIR "/libfourfold_sentencepiece.so", kHow);
  void* entry = module != nullptr ? dlsym(module, kEntry) : nullptr;
  if (entry == nullptr) throw Error(concat("SentencePiece cannot be loaded: ", dlerror()));
  return *reinterpret_cast<Entry>(entry)();
}

}  // namespace

const Library& library() {
  static const Library& loaded = open();
  return loaded;
}

}  // namespace fourfold::data::sentencepiece_module
