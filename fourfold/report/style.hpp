// How a page looks.
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace fourfold::report {

/// The text of its <style>.
const char* style();

}  // namespace fourfold::report
